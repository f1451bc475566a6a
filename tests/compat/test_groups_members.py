"""Real clients in groups: they share, hand over, crash and come back; nothing is lost or, once committed, repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from compat.members import AUTO
from compat.roster import AIOKAFKA, CONFLUENT, JAVA, KAFKA_PYTHON, KAFKAJS
from compat.stages import Stage
from penstock.testing import Broker, running_broker

MEMBERS = (CONFLUENT, AIOKAFKA, KAFKA_PYTHON, KAFKAJS, JAVA)
RANGE_SPEAKERS = (CONFLUENT, AIOKAFKA, KAFKA_PYTHON, JAVA)
STATIC = (CONFLUENT, AIOKAFKA, KAFKA_PYTHON, JAVA)
COOPERATIVE = (CONFLUENT, JAVA)


@pytest.fixture(scope="module")
def group_broker() -> Iterator[Broker]:
    with running_broker(group_session_ms_min=1_000) as broker:
        yield broker


@pytest.fixture
def stage(group_broker: Broker) -> Stage:
    return Stage(group_broker)


@pytest.mark.parametrize("name", MEMBERS)
def test_members_share_and_a_killed_one_is_replaced(
    stage: Stage, runnable: Callable[[str], str], name: str
) -> None:
    client = runnable(name)
    with stage.troop() as troop:
        first, second = troop.add(client), troop.add(client)
        troop.until_owned_by(first, second)
        before = stage.write("before")
        troop.until_read(before)
        troop.until_committed(stage.ends)
        committed = troop.committed()
        second.kill()
        after = stage.write("after")
        troop.until_owned_by(first)
        troop.until_read(after)
        assert troop.repeated(below=committed) == [], "what was committed is not read again"


@pytest.mark.parametrize("name", MEMBERS)
def test_a_member_that_leaves_hands_over_what_it_did(
    stage: Stage, runnable: Callable[[str], str], name: str
) -> None:
    client = runnable(name)
    with stage.troop(session_ms=60_000) as troop:
        first, second = troop.add(client), troop.add(client)
        troop.until_owned_by(first, second)
        values = stage.write("before")
        troop.until_read(values)
        troop.until_committed(stage.ends)
        second.leave()
        troop.until_owned_by(first)
        troop.until_read(stage.write("after"))
        assert troop.repeated() == []


@pytest.mark.parametrize("name", STATIC)
def test_static_members_that_start_together_share_their_first_generation(
    runnable: Callable[[str], str], name: str
) -> None:
    """No member ever holds what another is about to hold: the first assignment of each is the one that stays.

    Processes on a busy machine start seconds apart, so the window is far longer here than by default.
    """
    client = runnable(name)
    with running_broker(group_initial_rebalance_static_ms=6_000) as broker:
        stage = Stage(broker)
        with stage.troop(session_ms=60_000) as troop:
            first, second = troop.add(client, instance="one"), troop.add(client, instance="two")
            troop.until_owned_by(first, second)
            # As sets: if a poll of kafka-python times out in the moment in which SyncGroup is answered, it joins again.
            held = [{places for places in one.held if places} for one in (first, second)]
            assert [len(some) for some in held] == [1, 1], held


@pytest.mark.parametrize("name", MEMBERS)
def test_what_is_committed_automatically_is_not_read_again(
    stage: Stage, runnable: Callable[[str], str], name: str
) -> None:
    client = runnable(name)
    values = stage.write("before")
    with stage.troop(commit=AUTO) as troop:
        troop.add(client)
        troop.until_read(values)
        troop.members[0].leave()
        troop.add(client)
        troop.until_read(stage.write("after"))
        assert troop.repeated() == []


def test_clients_of_every_kind_share_one_group(stage: Stage, runnable: Callable[[str], str]) -> None:
    with stage.troop() as troop:
        members = [troop.add(runnable(name)) for name in RANGE_SPEAKERS]
        troop.until_owned_by(*members)
        troop.until_read(stage.write("all"))
        troop.until_committed(stage.ends)
        assert troop.repeated() == []
        members[0].kill()
        members[1].leave()
        troop.until_owned_by(*members[2:])
        troop.until_read(stage.write("fewer"))


@pytest.mark.parametrize("name", STATIC)
def test_a_static_member_restarts_and_the_other_never_notices(
    stage: Stage, runnable: Callable[[str], str], name: str
) -> None:
    client = runnable(name)
    with stage.troop(session_ms=30_000) as troop:
        first, second = troop.add(client, instance="one"), troop.add(client, instance="two")
        troop.until_owned_by(first, second)
        troop.until_read(stage.write("before"))
        troop.until_committed(stage.ends)
        held, rounds = second.holds, len(first.held)
        second.kill()
        again = troop.add(client, instance="two")
        troop.until("it has its partitions back", lambda: again.holds == held)
        troop.until_read(stage.write("after"))
        assert len(first.held) == rounds
        assert troop.repeated() == []


@pytest.mark.parametrize("name", COOPERATIVE)
def test_cooperative_members_keep_what_need_not_move(
    stage: Stage, runnable: Callable[[str], str], name: str
) -> None:
    client = runnable(name)
    with stage.troop(strategy="cooperative-sticky") as troop:
        first = troop.add(client)
        troop.until_owned_by(first)
        values = stage.write("before")
        troop.until_read(values)
        troop.until_committed(stage.ends)
        known = len(first.held)
        second = troop.add(client)
        troop.until_owned_by(first, second)
        assert frozenset() not in first.held[known:], "it never had to let go of everything"
        troop.until_read(stage.write("after"))
        assert troop.repeated() == []


@pytest.mark.parametrize("name", MEMBERS)
def test_a_killed_broker_loses_neither_the_group_nor_its_offsets(
    runnable: Callable[[str], str], name: str
) -> None:
    client = runnable(name)
    with running_broker(group_session_ms_min=1_000) as broker:
        stage = Stage(broker)
        with stage.troop(session_ms=10_000) as troop:
            first = troop.add(client)
            troop.until_owned_by(first)
            second = troop.add(client)
            troop.until_owned_by(first, second)
            troop.until_read(stage.write("before"))
            troop.until_committed(stage.ends)
            committed = troop.committed()
            broker.kill()
            broker.start()
            after = stage.write("after")
            troop.until_read(after)
            assert troop.repeated(below=committed) == [], "what was committed is not read again"
