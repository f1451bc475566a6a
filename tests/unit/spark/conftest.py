"""One real broker for each file, and a connection to it. Never a Spark: what needs one is tested elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.client.raw.cluster import Cluster
from penstock.testing import Broker, running_broker
from topic_fixtures import connected


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker(storage="memory") as running:
        yield running


@pytest.fixture(scope="module")
def cluster(broker: Broker) -> Iterator[Cluster]:
    with connected(broker) as made:
        yield made
