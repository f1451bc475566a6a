"""Blocks of pages that are tests run as such; options in blocks exist. test_one_broker.py runs all other blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pages import ROOT, TESTS, blocks, run_python
from penstock.testing import Broker, running_broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker(storage="memory") as running:
        yield running


@pytest.mark.parametrize("page", ["README.md", "docs/testing.md"])
def test_tests_run(broker: Broker, page: str, tmp_path: Path) -> None:
    """Blocks that are tests run as such, with the plugin and without others that happen to be installed."""
    (found,) = [block for block in blocks(page) if TESTS in block]
    script = tmp_path / "test_block.py"
    script.write_text(found)
    plugins = (
        "no:penstock",
        "penstock.testing.fixtures",
        "no:schemathesis",
        "no:hypothesispytest",
        "no:anyio",
        "no:xdist",
        "no:cacheprovider",
    )
    run_python(broker, "-m", "pytest", *(word for name in plugins for word in ("-p", name)), str(script))


def test_every_option_of_the_page_is_one() -> None:
    page = (ROOT / "docs" / "client-options.md").read_text("utf-8")
    used = set(re.findall(r"(\w+)=", "".join(blocks("docs/clients.md"))))
    calls = {"key", "headers", "partitions", "configs", "if_not_exists", "records_max", "wait_s"}
    assert [name for name in sorted(used - calls) if f"| `{name}` |" not in page] == []
