"""One Spark for all tests of a process, and one broker for each file. Never a mock of either."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import penstock.spark
from penstock.testing import Broker, running_broker


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The one session of this process, on two cores."""
    made = penstock.spark.session("local[2]", "penstock-tests", **{"spark.driver.memory": "700m"})
    yield made
    made.stop()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker(storage="memory") as running:
        yield running
