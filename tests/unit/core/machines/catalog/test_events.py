"""Events of the catalog as bytes: stable keys, and loud refusal of what this version does not understand."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from penstock.core.errors import TornSegment
from penstock.core.machines.catalog.events import (
    BrokerConfigSaved,
    Event,
    ProducerIdsReserved,
    ResourceConfigSaved,
    Topic,
    TopicDefaultsSaved,
    TopicRemoved,
    TopicSaved,
    compact_events,
    decode,
    encode,
    key_of,
)
from penstock.core.machines.cluster.events import (
    BrokerRemoved,
    BrokerSaved,
    PartitionRemoved,
    PartitionSaved,
)
from penstock.core.machines.cluster.values import BrokerRegistration, PartitionReplicas
from penstock.core.resource_config import ResourceKind

ID = bytes(range(16))
KEY = b"topic/000102030405060708090a0b0c0d0e0f"
TOPIC = Topic(ID, "orders", 3, {"retention.ms": "5"}, False, 1_700_000_000_000)
VALUE = {
    "version": 1,
    "name": "orders",
    "partition_count": 3,
    "overrides": {"retention.ms": "5"},
    "internal": False,
    "created_ms": 1_700_000_000_000,
}


@pytest.mark.parametrize(
    ("event", "key", "value"),
    [
        (TopicSaved(TOPIC), KEY, VALUE),
        (TopicRemoved(ID), KEY, None),
        (
            BrokerConfigSaved({"log.retention.ms": "5"}),
            b"broker-config",
            {"version": 1, "overrides": {"log.retention.ms": "5"}},
        ),
        (
            TopicDefaultsSaved({"log.retention.ms": "5"}),
            b"topic-defaults",
            {"version": 1, "overrides": {"log.retention.ms": "5"}},
        ),
        (ProducerIdsReserved(1000), b"producer-ids", {"version": 1, "upto": 1000}),
        (ProducerIdsReserved(1000, 3), b"producer-ids", {"version": 1, "upto": 1000, "owner": 3}),
    ],
)
def test_the_format_is_what_old_logs_hold(event: Event, key: bytes, value: dict[str, object] | None) -> None:
    packed = encode(event)
    assert packed[0] == key == key_of(event)
    assert (None if packed[1] is None else json.loads(packed[1])) == value
    assert decode(key, None if value is None else json.dumps(value).encode()) == event


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"version": None},
        {"name": "no/slash"},
        {"name": 7},
        {"partition_count": 0},
        {"partition_count": "3"},
        {"partition_count": True},
        {"overrides": None},
        {"overrides": {"retention.ms": 5}},
        {"overrides": {"retention.ms": "soon"}},
        {"overrides": {"from.the.future": "1"}},
        {"internal": 0},
        {"created_ms": -1},
    ],
)
def test_a_topic_not_understood_is_not_guessed_at(change: dict[str, object]) -> None:
    with pytest.raises(TornSegment, match="topic/0001"):
        decode(KEY, json.dumps(VALUE | change).encode())


@pytest.mark.parametrize("field", list(VALUE))
def test_a_missing_field_is_not_made_up(field: str) -> None:
    rest = {name: value for name, value in VALUE.items() if name != field}
    with pytest.raises(TornSegment, match=field):
        decode(KEY, json.dumps(rest).encode())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"", b"{}"),
        (b"acl/1", b'{"version": 1}'),
        (b"topic/zz", b'{"version": 1}'),
        (b"topic/00", None),
        (b"topic/\xff", None),
        (KEY, b""),
        (KEY, b"\xff\xfe"),
        (KEY, b"[1]"),
        (KEY, b"[" * 100_000),
        (b"broker-config", None),
        (b"producer-ids", None),
        (b"producer-ids", b'{"version": 1, "upto": -1}'),
        (b"producer-ids", b'{"version": 1, "upto": 1, "owner": -1}'),
        (b"producer-ids", b'{"version": 1, "upto": 1, "owner": null}'),
        (b"topic-defaults", None),
        (b"topic-defaults", b'{"version": 1, "overrides": {"retention.ms": "1"}}'),
        (b"broker-config", b'{"version": 1, "overrides": {"retention.ms": "1"}}'),
    ],
)
def test_bytes_of_no_event_are_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(TornSegment, match="catalog"):
        decode(key, value)


def test_compaction_keeps_the_last_event_of_each_key_and_nothing_of_what_is_gone() -> None:
    other = TopicSaved(Topic(bytes(15) + b"\x09", "other", 1))
    group = ResourceConfigSaved(ResourceKind.GROUP, "g", {"consumer.heartbeat.interval.ms": "5000"})
    events: list[Event] = [
        TopicSaved(TOPIC),
        other,
        group,
        ProducerIdsReserved(1_000, 1),
        TopicSaved(replace(TOPIC, partition_count=4)),
        TopicRemoved(other.topic.id),
        ResourceConfigSaved(ResourceKind.GROUP, "g", {}),
        ProducerIdsReserved(2_000, 2),
    ]
    kept = compact_events(events)
    assert kept == [TopicSaved(replace(TOPIC, partition_count=4)), ProducerIdsReserved(2_000, 2)]
    assert all(encode(event)[1] is not None for event in kept)
    assert compact_events([*kept, other, group]) == [*kept, other, group]


def test_compaction_drops_brokers_and_partitions_that_were_removed() -> None:
    broker = BrokerSaved(BrokerRegistration(3, 1, "x"))
    placed = PartitionSaved(PartitionReplicas(TOPIC.id, 0, (3,), (3,), 3))
    removed = BrokerRemoved(3), PartitionRemoved(TOPIC.id, 0)
    assert all(encode(event)[1] is None for event in removed)
    assert compact_events([broker, placed]) == [broker, placed]
    assert compact_events([broker, placed, *removed]) == []
