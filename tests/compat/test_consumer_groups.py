"""The consumer protocol with clients nobody here wrote: they join, leave, crash, come back, and so does the broker.

Every test counts records: what was acknowledged to the producer is read, and what was committed is not read again.
"""

from __future__ import annotations

import os
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from compat.group_members import CONFLUENT, JAVA, Member, await_shares, await_that
from compat.vocabulary import MissingRuntime
from penstock.testing import Broker, running_broker

WAIT_S = 20.0
SESSION_MS = 3_000
CLIENTS = [CONFLUENT, JAVA]

Start = Callable[..., Member]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with running_broker(
        tmp_path,
        consumer_group_session_ms=SESSION_MS,
        consumer_group_heartbeat_ms=200,
        group_session_ms_min=1_000,
    ) as running:
        yield running


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def start(broker: Broker, group: str) -> Iterator[Start]:
    """Starts members that are ended with the test, whatever happens."""
    started: list[Member] = []

    def begin(client: str, *topics: str, protocol: str = "consumer", **config: str) -> Member:
        number = len(started)
        try:
            member = Member(
                client,
                broker.bootstrap,
                group,
                list(topics),
                group_protocol=protocol,
                client_id=f"member-{number}",
                **config,
            )
        except MissingRuntime as missing:
            if os.environ.get("PENSTOCK_REQUIRE_CLIENTS") == "1":
                pytest.fail(str(missing))
            pytest.skip(str(missing))
        started.append(member)
        return member

    yield begin
    for member in started:
        if member.is_running:
            member.kill()


@pytest.fixture
def admin(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


def make_topic(admin: AdminClient, name: str, partitions: int) -> str:
    admin.create_topics([NewTopic(name, partitions)])[name].result(WAIT_S)
    return name


def produce(broker: Broker, topic: str, partitions: int, label: str, count: int) -> set[str]:
    """Acknowledged values, spread over all partitions."""
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 1, "message.timeout.ms": 60_000})
    values = [f"{label}-{number}" for number in range(count)]
    for number, value in enumerate(values):
        producer.produce(
            topic,
            value,
            partition=number % partitions,
            on_delivery=lambda error, _: failures.append(error) if error is not None else None,
        )
    assert producer.flush(60) == 0
    assert not failures
    return set(values)


def await_values(members: list[Member], values: set[str]) -> None:
    """Wait until everything was read, by whomever, and committed."""
    await_that(
        lambda: values <= {one[3] for member in members for one in member.records}, members, "reading all"
    )


def times_read(members: list[Member]) -> Counter[str]:
    return Counter(one[3] for member in members for one in member.records)


@pytest.mark.parametrize("client", CLIENTS)
def test_members_share_partitions_as_they_come_and_go(
    client: str, broker: Broker, admin: AdminClient, start: Start
) -> None:
    topic = make_topic(admin, "orders", 6)
    first = start(client, topic)
    await_shares([first], [6])
    values = produce(broker, topic, 6, "alone", 120)
    await_values([first], values)
    second, third = start(client, topic), start(client, topic)
    everybody = [first, second, third]
    await_shares(everybody, [2, 2, 2])
    values |= produce(broker, topic, 6, "shared", 120)
    await_values(everybody, values)
    await_that(lambda: all(one.commits for one in everybody), everybody, "everybody committing")
    second.leave()
    await_shares([first, third], [3, 3])
    values |= produce(broker, topic, 6, "after", 120)
    await_values(everybody, values)
    assert times_read(everybody) == dict.fromkeys(values, 1), "nobody crashed, so nothing is read twice"


@pytest.mark.parametrize("client", CLIENTS)
def test_a_member_that_is_killed_loses_its_partitions_and_no_record(
    client: str, broker: Broker, admin: AdminClient, start: Start
) -> None:
    topic = make_topic(admin, "orders", 4)
    stays, dies = start(client, topic), start(client, topic)
    await_shares([stays, dies], [2, 2])
    values = produce(broker, topic, 4, "before", 80)
    await_values([stays, dies], values)
    dies.kill()
    values |= produce(broker, topic, 4, "after", 80)
    await_shares([stays], [4])
    await_values([stays, dies], values)
    assert times_read([stays]).most_common(1)[0][1] == 1, "the one that stayed read nothing twice"


@pytest.mark.parametrize("client", CLIENTS)
def test_a_static_member_comes_back_to_what_it_had_and_nobody_notices(
    client: str, broker: Broker, admin: AdminClient, start: Start
) -> None:
    topic = make_topic(admin, "orders", 4)
    other = start(client, topic, group_instance_id="one")
    static = start(client, topic, group_instance_id="two")
    await_shares([other, static], [2, 2])
    had, changes = static.holds, other.changes
    values = produce(broker, topic, 4, "before", 40)
    await_values([other, static], values)
    static.leave()
    back = start(client, topic, group_instance_id="two")
    await_that(lambda: back.holds == had, [other, back], "the same partitions")
    values |= produce(broker, topic, 4, "after", 40)
    await_values([other, static, back], values)
    assert other.changes == changes
    assert times_read([other, static, back]) == dict.fromkeys(values, 1)


@pytest.mark.parametrize("client", CLIENTS)
def test_partitions_that_are_added_are_read(
    client: str, broker: Broker, admin: AdminClient, start: Start
) -> None:
    topic = make_topic(admin, "orders", 2)
    members = [
        start(client, topic, metadata_max_age_ms="500"),
        start(client, topic, metadata_max_age_ms="500"),
    ]
    await_shares(members, [1, 1])
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(WAIT_S)
    await_shares(members, [2, 3])
    await_values(members, produce(broker, topic, 5, "grown", 50))


@pytest.mark.parametrize("client", CLIENTS)
def test_a_regular_expression_follows_topics(
    client: str, broker: Broker, admin: AdminClient, start: Start
) -> None:
    make_topic(admin, "metrics.a", 2)
    make_topic(admin, "other", 2)
    member = start(client, "^metrics[.].*", metadata_max_age_ms="500")
    await_that(
        lambda: {place[0] for place in member.holds} == {"metrics.a"}, [member], "the topic that is there"
    )
    make_topic(admin, "metrics.b", 1)
    await_that(lambda: len(member.holds) == 3, [member], "the topic that came")
    await_values([member], produce(broker, "metrics.b", 1, "b", 5))


@pytest.mark.parametrize("client", CLIENTS)
def test_a_group_outlives_kill_9_of_its_broker(
    client: str, broker: Broker, admin: AdminClient, start: Start
) -> None:
    topic = make_topic(admin, "orders", 4)
    members = [start(client, topic), start(client, topic)]
    await_shares(members, [2, 2])
    values = produce(broker, topic, 4, "before", 200)
    await_values(members, values)
    held = [one.holds for one in members]
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(produce, broker, topic, 4, "through", 400)
        broker.kill()
        broker.start()
        values |= writing.result()
    await_values(members, values)
    values |= produce(broker, topic, 4, "after", 100)
    await_values(members, values)
    assert [one.holds for one in members] == held, "the group is as it was"
    read = times_read(members)
    assert {value: read[value] for value in values if value.startswith("after")} == {
        value: 1 for value in values if value.startswith("after")
    }
    fresh = start(client, topic)
    await_shares([*members, fresh], [1, 1, 2])
    final = produce(broker, topic, 4, "final", 40)
    await_values([*members, fresh], final)
    assert {one[3] for one in fresh.records} <= final, "it goes on from what was committed"


def test_tools_see_the_group(broker: Broker, admin: AdminClient, start: Start, group: str) -> None:
    topic = make_topic(admin, "orders", 2)
    member = start(CONFLUENT, topic, group_remote_assignor="range")
    await_shares([member], [2])
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
    expected = [(topic, 0), (topic, 1)]
    assert (one.client_id, one.host) == ("member-0", "/127.0.0.1")
    assert [(place.topic, place.partition) for place in one.assignment.topic_partitions] == expected
    assert [(place.topic, place.partition) for place in one.target_assignment.topic_partitions] == expected
    member.leave()
    admin.delete_consumer_groups([group])[group].result(WAIT_S)
    assert group not in {one.group_id for one in admin.list_consumer_groups().result(WAIT_S).valid}


@pytest.mark.parametrize("classic", ["range", "cooperative-sticky"])
def test_a_classic_group_becomes_a_consumer_group_and_back_without_losing_a_record(
    classic: str, broker: Broker, admin: AdminClient, start: Start, group: str
) -> None:
    topic = make_topic(admin, "orders", 4)
    old = {
        "protocol": "classic",
        "partition_assignment_strategy": classic,
        "session_timeout_ms": "6000",
        "heartbeat_interval_ms": "200",
    }
    first, second = start(CONFLUENT, topic, **old), start(CONFLUENT, topic, **old)
    await_shares([first, second], [2, 2])
    values = produce(broker, topic, 4, "classic", 80)
    everybody = [first, second]
    await_values(everybody, values)
    fresh = start(CONFLUENT, topic)
    everybody.append(fresh)
    await_shares(everybody, [1, 1, 2])
    assert _type(admin, group) is ConsumerGroupType.CONSUMER
    values |= produce(broker, topic, 4, "mixed", 80)
    await_values(everybody, values)
    second.leave()
    await_shares([first, fresh], [2, 2])
    fresh.leave()
    await_shares([first], [4])
    assert _type(admin, group) is ConsumerGroupType.CLASSIC
    values |= produce(broker, topic, 4, "alone", 80)
    await_values(everybody, values)
    assert times_read(everybody).keys() == values


def _type(admin: AdminClient, group: str) -> ConsumerGroupType:
    listed = {one.group_id: one.type for one in admin.list_consumer_groups().result(WAIT_S).valid}
    return listed[group]
