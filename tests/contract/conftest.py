"""Brokers with their topics for the contract of the doors. Never stands in for a door."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from compat.raw import RawConnection
from penstock.testing import Broker, running_broker

WAIT_S = 30.0
SMALL_MESSAGE_BYTES = 1_000
FRAME_BYTES_MAX = 2 << 20


def make_topic(broker: Broker, **configs: str) -> str:
    name = f"contract-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    wanted = {key.replace("_", "."): value for key, value in configs.items()}
    admin.create_topics([NewTopic(name, 1, 1, config=wanted)])[name].result(WAIT_S)
    with RawConnection(broker.bootstrap) as raw:
        raw.await_leaders(name, 1)
    return name


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """With limits that a test can reach."""
    with running_broker(
        tmp_path_factory.mktemp("contract"),
        frame_bytes_max=FRAME_BYTES_MAX,
        frame_ms_max=1_500,
        response_queue_bytes_max=1 << 16,
        requests_in_flight_max=50,
        socket_send_bytes=1 << 14,
        socket_receive_bytes=1 << 14,
        no_auto_create_topics=True,
    ) as running:
        yield running


@pytest.fixture
def topic(broker: Broker) -> str:
    return make_topic(broker)


@pytest.fixture
def killable(tmp_path: Path) -> Iterator[Broker]:
    with running_broker(tmp_path) as running:
        yield running
