"""One Spark for all tests of a process, and one broker for each file. Never a mock of either."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock.spark
from penstock.testing import Broker, running_broker
from spark import places
from spark.shop import Shop

LONG = ("test_cluster", "test_declarative", "test_lake_kills", "test_pipelines_page", "test_sink_kills")
"""Files that start one Spark after the other, for minutes: they run by their own word, `make spark`."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent and item.path.stem in LONG:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The one session of this process, on two cores unless it is told of another place."""
    made = penstock.spark.session(places.MASTER, "penstock-tests", **places.CONF)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    given = places.given_broker()
    if given is not None:
        yield given
        return
    with running_broker(storage="memory") as running:
        yield running


@pytest.fixture
def shop(broker: Broker, tmp_path: Path, request: pytest.FixtureRequest) -> Shop:
    """The broker of this file with topics and a directory of one test alone."""
    return Shop(broker, tmp_path, request.node.name.translate(str.maketrans("[]", "--")))
