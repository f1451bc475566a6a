"""A broker per file of hostile tests, and the table of what the attacks cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hostile.harness import Harness, ProbedBroker, as_property, table


@pytest.fixture(scope="module")
def broker(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[ProbedBroker]:
    """A broker on disk. A file may set its flags: `BROKER_FLAGS = {"message_bytes_max": 1_000_000}`."""
    flags = getattr(request.module, "BROKER_FLAGS", {})
    running = ProbedBroker(tmp_path_factory.mktemp("hostile"), dict(flags))
    running.start()
    try:
        yield running
    finally:
        running.close()


@pytest.fixture(scope="module")
def _harness(broker: ProbedBroker) -> Iterator[Harness]:
    harness = Harness(broker)
    yield harness
    harness.close()


@pytest.fixture
def harness(_harness: Harness, request: pytest.FixtureRequest) -> Iterator[Harness]:
    """The harness of this file's broker; rows that the test adds go into the table at the end of the run."""
    count = len(_harness.rows)
    yield _harness
    request.node.user_properties.extend(map(as_property, _harness.rows[count:]))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    rows = [
        value
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", "") == "teardown"
        for name, value in report.user_properties
        if name == "hostile"
    ]
    if rows:
        terminalreporter.section("hostile clients: cost per case")
        for line in table(rows):
            terminalreporter.write_line(line)
