"""One real broker for all tests of the clients, and topics that no other test has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.client.raw.cluster import Cluster
from penstock.testing import Broker, running_broker
from topic_fixtures import connected

WAIT_S = 30.0


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    with running_broker(storage="memory", no_auto_create_topics=True) as running:
        yield running


@pytest.fixture(scope="module")
def cluster(broker: Broker) -> Iterator[Cluster]:
    with connected(broker) as made:
        yield made


@pytest.fixture
def new_topic(broker: Broker) -> Callable[..., str]:
    """Makes a topic with so many partitions and these settings (underscores for dots); returns its name."""

    def make(partitions: int = 1, **config: str) -> str:
        name = f"client-{uuid4().hex[:8]}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(WAIT_S)
        return name

    return make


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    return new_topic()
