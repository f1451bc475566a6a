"""The consumer protocol with third-party clients: they join, leave, crash, come back, and so does the broker.

Every test counts records: what was acknowledged to the producer is read, and what was committed is not read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType
from confluent_kafka.admin import NewPartitions, NewTopic

from compat.members import CLASSIC, CONSUMER, Troop
from compat.roster import CONFLUENT, JAVA
from compat.stages import Stage
from compat.vocabulary import WAIT_S
from penstock.testing import Broker, running_broker

SESSION_MS, LONG_SESSION_MS = 3_000, 45_000
CLIENTS = [CONFLUENT, JAVA]


@pytest.fixture
def session_ms() -> int:
    return SESSION_MS


@pytest.fixture
def broker(tmp_path: Path, session_ms: int) -> Iterator[Broker]:
    with running_broker(
        tmp_path,
        consumer_group_session_ms=session_ms,
        consumer_group_heartbeat_ms=200,
        group_session_ms_min=1_000,
    ) as running:
        yield running


@pytest.fixture
def stage(broker: Broker) -> Stage:
    return Stage(broker)


@pytest.fixture
def troop(stage: Stage) -> Iterator[Troop]:
    with stage.troop(protocol=CONSUMER) as members:
        yield members


@pytest.fixture
def client(request: pytest.FixtureRequest, runnable: Callable[[str], str]) -> str:
    return runnable(request.param)


@pytest.mark.parametrize("client", CLIENTS, indirect=True)
def test_members_share_partitions_as_they_come_and_go(client: str, stage: Stage, troop: Troop) -> None:
    first = troop.add(client)
    troop.until_owned_by(first)
    troop.until_read(stage.write("alone"))
    second, third = troop.add(client), troop.add(client)
    troop.until_owned_by(first, second, third, shares=[1, 1, 2])
    troop.until_read(stage.write("shared"))
    troop.until_committed(stage.ends)
    second.leave()
    troop.until_owned_by(first, third, shares=[2, 2])
    troop.until_read(stage.write("after"))
    assert sorted(troop.reads()) == sorted(stage.written), "nobody crashed, so nothing is read twice"


@pytest.mark.parametrize("client", CLIENTS, indirect=True)
def test_a_member_that_is_killed_loses_its_partitions_and_no_record(
    client: str, stage: Stage, troop: Troop
) -> None:
    stays, dies = troop.add(client), troop.add(client)
    troop.until_owned_by(stays, dies, shares=[2, 2])
    troop.until_read(stage.write("before"))
    dies.kill()
    stage.write("after")
    troop.until_owned_by(stays)
    troop.until_read(one.value for one in stage.written)
    assert len(set(stays.reads)) == len(stays.reads), "the one that stayed read nothing twice"


@pytest.mark.parametrize("session_ms", [LONG_SESSION_MS])
@pytest.mark.parametrize("client", CLIENTS, indirect=True)
def test_a_static_member_comes_back_to_what_it_had_and_nobody_notices(
    client: str, stage: Stage, troop: Troop
) -> None:
    other, static = troop.add(client, instance="one"), troop.add(client, instance="two")
    troop.until_owned_by(other, static, shares=[2, 2])
    had, changes = static.holds, len(other.held)
    troop.until_read(stage.write("before"))
    static.leave()
    back = troop.add(client, instance="two")
    troop.until("it has the same partitions", lambda: back.holds == had)
    troop.until_read(stage.write("after"))
    assert len(other.held) == changes
    assert sorted(troop.reads()) == sorted(stage.written)


@pytest.mark.parametrize("client", CLIENTS, indirect=True)
def test_partitions_that_are_added_are_read(client: str, stage: Stage, troop: Troop) -> None:
    members = [troop.add(client, metadata_age_ms=500), troop.add(client, metadata_age_ms=500)]
    troop.until_owned_by(*members, shares=[2, 2])
    added = (stage.topic, len(stage.places))
    stage.admin.create_partitions([NewPartitions(stage.topic, len(stage.places) + 1)])[stage.topic].result(
        WAIT_S
    )
    stage.places.append(added)
    troop.places |= {added}
    troop.until_owned_by(*members, shares=[2, 3])
    troop.until_read(stage.write("grown"))


@pytest.mark.parametrize("client", CLIENTS, indirect=True)
def test_a_regular_expression_follows_topics(client: str, stage: Stage, troop: Troop) -> None:
    def make_topic(name: str, partitions: int) -> set[tuple[str, int]]:
        stage.admin.create_topics([NewTopic(name, partitions)])[name].result(WAIT_S)
        return {(name, partition) for partition in range(partitions)}

    there = make_topic("metrics.a", 2)
    make_topic("other", 2)
    member = troop.add(client, topics=["^metrics[.].*"], metadata_age_ms=500)
    troop.until("the topic that is there", lambda: member.holds == there)
    came = make_topic("metrics.b", 1)
    troop.until("the topic that came", lambda: member.holds == there | came)


@pytest.mark.parametrize("session_ms", [LONG_SESSION_MS])
@pytest.mark.parametrize("client", CLIENTS, indirect=True)
def test_a_group_outlives_kill_9_of_its_broker(
    client: str, broker: Broker, stage: Stage, troop: Troop
) -> None:
    members = [troop.add(client), troop.add(client)]
    troop.until_owned_by(*members, shares=[2, 2])
    with stage.writing():
        troop.until("both have read", lambda: all(one.reads for one in members))
        held = [one.holds for one in members]
        broker.kill()
        broker.start()
    troop.until_read(one.value for one in stage.written)
    after = stage.write("after")
    troop.until_read(after)
    assert [one.holds for one in members] == held, "the group is as it was"
    assert sorted(one.value for one in troop.reads() if one.value in set(after)) == sorted(after)
    troop.until_committed(stage.ends)
    fresh = troop.add(client)
    troop.until_owned_by(*members, fresh, shares=[1, 1, 2])
    final = stage.write("final")
    troop.until_read(final)
    assert {one.value for one in fresh.reads} <= set(final), "it goes on from what was committed"


def test_tools_see_the_group(stage: Stage, troop: Troop) -> None:
    member = troop.add(CONFLUENT, remote_assignor="range", client_id="member-0")
    troop.until_owned_by(member)
    admin, group = stage.admin, stage.group
    listed = {one.group_id: one for one in admin.list_consumer_groups().result(WAIT_S).valid}
    assert (listed[group].type, listed[group].state) == (
        ConsumerGroupType.CONSUMER,
        ConsumerGroupState.STABLE,
    )
    seen = admin.describe_consumer_groups([group])[group].result(WAIT_S)
    assert (seen.state, seen.type, seen.partition_assignor) == (
        ConsumerGroupState.STABLE,
        ConsumerGroupType.CONSUMER,
        "range",
    )
    (one,) = seen.members
    assert (one.client_id, one.host) == ("member-0", "/127.0.0.1")
    for assignment in (one.assignment, one.target_assignment):
        assert [(place.topic, place.partition) for place in assignment.topic_partitions] == stage.places
    member.leave()
    admin.delete_consumer_groups([group])[group].result(WAIT_S)
    assert group not in {one.group_id for one in admin.list_consumer_groups().result(WAIT_S).valid}


def _type(stage: Stage) -> ConsumerGroupType:
    listed = stage.admin.list_consumer_groups().result(WAIT_S).valid
    return {one.group_id: one.type for one in listed}[stage.group]


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("client", CLIENTS, indirect=True)
def test_a_classic_group_becomes_a_consumer_group_and_back_without_losing_a_record(
    client: str, strategy: str, stage: Stage, troop: Troop
) -> None:
    old = {"protocol": CLASSIC, "strategy": strategy, "session_ms": 6_000}
    first, second = troop.add(client, **old), troop.add(client, **old)
    troop.until_owned_by(first, second, shares=[2, 2])
    troop.until_read(stage.write("classic"))
    fresh = troop.add(client)
    troop.until_owned_by(first, second, fresh, shares=[1, 1, 2])
    assert _type(stage) is ConsumerGroupType.CONSUMER
    troop.until_read(stage.write("mixed"))
    second.leave()
    troop.until_owned_by(first, fresh, shares=[2, 2])
    fresh.leave()
    troop.until_owned_by(first)
    assert _type(stage) is ConsumerGroupType.CLASSIC
    troop.until_read(stage.write("alone"))
    assert set(troop.reads()) == set(stage.written)


@pytest.mark.parametrize(("old", "new"), [(CONFLUENT, JAVA), (JAVA, CONFLUENT)])
def test_a_group_of_both_clients_moves_over_and_back_while_members_and_the_broker_are_killed(
    old: str, new: str, stage: Stage, troop: Troop, runnable: Callable[[str], str]
) -> None:
    classic = {"protocol": CLASSIC, "session_ms": 6_000}

    first, second = (troop.add(runnable(one), **classic) for one in (old, new))
    troop.until_owned_by(first, second, shares=[2, 2])
    with stage.writing():
        third = troop.add(runnable(new))
        troop.until_owned_by(first, second, third, shares=[1, 1, 2])
        assert _type(stage) is ConsumerGroupType.CONSUMER
        troop.until_read_beyond(stage.ends, first, second, third)
        stage.broker.kill()
        stage.broker.start()
        troop.until_read_beyond(stage.ends, first, second, third)
        second.kill()
        troop.until_owned_by(first, third, shares=[2, 2])
        third.kill()
        troop.until_owned_by(first)
        assert _type(stage) is ConsumerGroupType.CLASSIC
        back = troop.add(runnable(old), **classic)
        troop.until_owned_by(first, back, shares=[2, 2])
        troop.until_read_beyond(stage.ends, first, back)
    troop.until_read(one.value for one in stage.written)
    assert set(troop.reads()) == set(stage.written), (
        "every record is where it was written, and nothing else is"
    )
