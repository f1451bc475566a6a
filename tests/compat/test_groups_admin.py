"""Tools of real clients on groups: list, describe, set offsets, delete; and reading the topic of offsets itself."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka.structs import TopicPartition as KafkaPythonPlace

from compat.vocabulary import CreateTopic
from penstock.core.machines.classic_group.records import GROUP_RECORDS
from penstock.core.machines.offsets.offsets import OffsetCommitted
from penstock.core.machines.offsets.records import OFFSET_RECORDS


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def reader(bootstrap: str, group: str) -> Iterator[Consumer]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    yield consumer
    consumer.close()


def offsets_of(admin: AdminClient, group: str) -> dict[tuple[str, int], int]:
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result()
    return {(one.topic, one.partition): one.offset for one in found.topic_partitions}


def join(reader: Consumer, topic: str) -> None:
    """Subscribe and poll until partitions are assigned."""
    assigned: list[Any] = []
    reader.subscribe([topic], on_assign=lambda _, partitions: assigned.extend(partitions))
    while not assigned:
        reader.poll(0.1)


def test_a_group_is_described_with_its_member(
    admin: AdminClient, reader: Consumer, new_topic: CreateTopic, group: str
) -> None:
    topic = new_topic(partitions=2)
    join(reader, topic)
    described = admin.describe_consumer_groups([group])[group].result()
    assert (described.state.name, described.is_simple_consumer_group) == ("STABLE", False)
    (member,) = described.members
    assert sorted(one.partition for one in member.assignment.topic_partitions) == [0, 1]
    listed = {one.group_id: one for one in admin.list_consumer_groups().result().valid}
    assert (listed[group].state.name, listed[group].type.name) == ("STABLE", "CLASSIC")


def test_offsets_are_set_from_outside_and_a_reader_starts_there(
    admin: AdminClient, reader: Consumer, new_topic: CreateTopic, group: str
) -> None:
    topic = new_topic()
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 7)])
    admin.alter_consumer_group_offsets([wanted])[group].result()
    assert offsets_of(admin, group) == {(topic, 0): 7}
    assert [one.offset for one in reader.committed([TopicPartition(topic, 0)])] == [7]
    join(reader, topic)
    (refused,) = admin.alter_consumer_group_offsets([wanted])[group].result().topic_partitions
    assert refused.error.name() == "UNKNOWN_MEMBER_ID", "a group with members takes offsets from them alone"


def test_a_reader_without_a_group_has_no_offsets(reader: Consumer, new_topic: CreateTopic) -> None:
    topic = new_topic()
    (found,) = reader.committed([TopicPartition(topic, 0)])
    assert found.error is None and found.offset < 0


def test_a_group_is_deleted_once_nobody_is_in_it(
    admin: AdminClient, reader: Consumer, new_topic: CreateTopic, group: str
) -> None:
    topic = new_topic()
    join(reader, topic)
    reader.commit(offsets=[TopicPartition(topic, 0, 3)], asynchronous=False)
    with pytest.raises(KafkaException):
        admin.delete_consumer_groups([group])[group].result()
    reader.unsubscribe()
    reader.close()
    admin.delete_consumer_groups([group])[group].result()
    assert offsets_of(admin, group) == {}


def test_kafka_python_lists_and_describes(
    bootstrap: str, reader: Consumer, new_topic: CreateTopic, group: str
) -> None:
    topic = new_topic()
    join(reader, topic)
    reader.commit(offsets=[TopicPartition(topic, 0, 3, "note")], asynchronous=False)
    tool = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        assert group in str(tool.list_groups())
        assert "Stable" in str(tool.describe_groups([group]))
        found = tool.list_group_offsets(group)
        place = KafkaPythonPlace(topic, 0)
        assert found.get(group, found)[place].offset == 3
    finally:
        tool.close()


def test_tools_that_read_the_offsets_topic_find_kafkas_records(
    bootstrap: str, reader: Consumer, new_topic: CreateTopic, group: str
) -> None:
    """Lag monitors read the internal topic itself: its records have Kafka's own layout."""
    topic = new_topic()
    reader.commit(offsets=[TopicPartition(topic, 0, 11)], asynchronous=False)
    spy = Consumer({"bootstrap.servers": bootstrap, "group.id": f"{group}-spy", "enable.auto.commit": False})
    try:
        count = len(spy.list_topics("__consumer_offsets").topics["__consumer_offsets"].partitions)
        spy.assign([TopicPartition("__consumer_offsets", index, 0) for index in range(count)])
        records = OFFSET_RECORDS | GROUP_RECORDS
        while True:
            message = spy.poll(10)
            assert message is not None and message.error() is None, "the commit is not in the topic"
            event = records.decode(message.key(), message.value())
            if isinstance(event, OffsetCommitted) and event.group_id == group:
                break
        assert (event.partition, event.committed.offset) == ((topic, 0), 11)
    finally:
        spy.close()
