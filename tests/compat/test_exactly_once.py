"""Exactly once, counted: consume-transform-produce while members are killed and the broker dies."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from compat.copiers import SESSION_MS, Crew
from compat.members import CLASSIC, CONFIGURATIONS, CONSUMER
from compat.roster import JAVA
from compat.stages import Stage
from compat.transactors import read_to_end
from compat.vocabulary import WAIT_S
from penstock.testing import Broker, running_broker

PARTITIONS = 2
DONE_S_MAX = 120.0
TARGET = "target"
V1, V2 = 1, 2
SPOKEN = [
    *(
        pytest.param(client, protocol, V1, id=f"{client}-{protocol}-v1")
        for client, protocol in CONFIGURATIONS
    ),
    *(pytest.param(JAVA, protocol, V2, id=f"{JAVA}-{protocol}-v2") for protocol in (CLASSIC, CONSUMER)),
]
"""Every client has transactions; only Java speaks the second version of their protocol."""


@pytest.fixture
def broker(tmp_path: Path, version: int) -> Iterator[Broker]:
    with running_broker(
        tmp_path,
        transaction_version=version,
        transaction_check_ms=100,
        group_session_ms_min=1_000,
        consumer_group_session_ms=SESSION_MS,
        consumer_group_heartbeat_ms=200,
    ) as running:
        yield running


@pytest.mark.parametrize(("client", "protocol", "version"), SPOKEN)
def test_every_record_is_copied_once(
    broker: Broker, client: str, protocol: str, runnable: Callable[[str], str]
) -> None:
    stage = Stage(broker, PARTITIONS)
    stage.admin.create_topics([NewTopic(TARGET, PARTITIONS)])[TARGET].result(WAIT_S)
    with Crew(broker.bootstrap, runnable(client), protocol, stage.group, stage.topic, TARGET) as crew:
        crew.hire()
        crew.hire()
        with stage.writing():
            crew.until_all_copy()
            crew.kill_one()
            crew.hire()
            crew.until_all_copy()
            broker.kill()
            broker.start()
            crew.until_all_copy()
        await_copies(broker, crew, len(stage.written))
    assert copies(broker) == Counter(one.value for one in stage.written)


def await_copies(broker: Broker, crew: Crew, count: int) -> None:
    deadline = time.monotonic() + DONE_S_MAX
    while (found := copies(broker).total()) < count:
        assert time.monotonic() < deadline, f"{found} of {count} arrived"
        crew.replace_leavers()


def copies(broker: Broker) -> Counter[str]:
    return Counter(
        value for index in range(PARTITIONS) for value in read_to_end(broker.bootstrap, TARGET, index)
    )
