"""Large Kafka requests about topics, groups and records that exist: each entry is looked up, read or written.

`test_kafka_arrays` sends every array of every call, with names that nobody knows; those are refused early.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from kafka.protocol.admin import CreateTopicsRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from compat.bad_batches import packed, record
from compat.raw import MAX_TIMESTAMP, RawConnection, batch
from hostile.harness import Harness, ProbedBroker
from penstock.core.codecs import GZIP
from penstock.wire.kafka import ApiKey, decode_response, encode_request, messages

BROKER_FLAGS = {"storage": "memory"}
WIDE, PARTITIONS = "wide", 10_000
TOPICS, TOPICS_PER_CALL = 1_000, 500
ENTRIES = 99_000
PRODUCED = 19_000
SEARCHES = 2_000
MEMBERS = 50
RECORDS = 100_000
LATE_MS = 5
ORDERED = "ordered"
DEEP, FLAT = "deep", "flat"
"""Topics with one batch of many records each, compressed and not; only the last record is late."""

ANSWER_S_MAX = 300.0


@pytest.fixture(scope="module")
def broker(broker: ProbedBroker) -> ProbedBroker:
    """The broker, with many partitions, topics and large batches."""
    with RawConnection(broker.bootstrap) as raw:
        raw.create_topic(WIDE, PARTITIONS)
        for first in range(0, TOPICS, TOPICS_PER_CALL):
            wanted = [_new_topic(f"topic-{number}") for number in range(first, first + TOPICS_PER_CALL)]
            answer = raw.call(CreateTopicsRequest, 5, topics=wanted, timeout_ms=60_000, validate_only=False)
            assert not any(one.error_code for one in answer.topics)
        raw.call(FindCoordinatorRequest, 1, key="group", key_type=0)
        raw.create_topic(ORDERED)
        for topic, codec in ((DEEP, GZIP), (FLAT, 0)):
            raw.create_topic(topic)
            assert raw.produce(topic, bytes(_many_records(codec))).error_code == 0
    return broker


def _new_topic(name: str) -> dict[str, object]:
    return {"name": name, "num_partitions": 1, "replication_factor": 1, "configs": [], "assignments": []}


def _many_records(codec: int) -> bytearray:
    last = RECORDS - 1
    body = b"".join(
        record(delta, key=b"\x01", value=b"\x01", time_delta=LATE_MS if delta == last else 0)
        for delta in range(RECORDS)
    )
    return packed(body, codec, RECORDS)


def _produce(topic: str, count: int, partitions: int) -> Any:
    kind = messages.ProduceRequest
    value = memoryview(bytes(batch(b"value")))
    rows = [kind.PartitionProduceData(index=number % partitions, records=value) for number in range(count)]
    data = [kind.TopicProduceData(name=topic, partition_data=rows)]
    return kind(transactional_id=None, acks=-1, timeout_ms=60_000, topic_data=data)


def _fetch(topic: str, count: int, partitions: int) -> Any:
    kind = messages.FetchRequest
    rows = [
        kind.FetchPartition(
            partition=number % partitions,
            fetch_offset=0,
            partition_max_bytes=1 << 20,
            current_leader_epoch=-1,
        )
        for number in range(count)
    ]
    limits: dict[str, Any] = {"max_wait_ms": 100, "min_bytes": 1, "max_bytes": 50 << 20}
    return kind(
        isolation_level=1, session_epoch=-1, topics=[kind.FetchTopic(topic=topic, partitions=rows)], **limits
    )


def _offsets(topic: str, count: int, time_ms: int, partitions: int = 1) -> Any:
    kind = messages.ListOffsetsRequest
    rows = [
        kind.ListOffsetsPartition(
            partition_index=number % partitions, current_leader_epoch=-1, timestamp=time_ms
        )
        for number in range(count)
    ]
    return kind(replica_id=-1, topics=[kind.ListOffsetsTopic(name=topic, partitions=rows)])


def _commit(count: int) -> Any:
    kind = messages.OffsetCommitRequest
    rows = [
        kind.OffsetCommitRequestPartition(
            partition_index=number % PARTITIONS, committed_offset=1, committed_metadata=""
        )
        for number in range(count)
    ]
    topics = [kind.OffsetCommitRequestTopic(name=WIDE, partitions=rows)]
    return kind(group_id="wide-group", generation_id_or_member_epoch=-1, member_id="", topics=topics)


def _committed(groups: int) -> Any:
    kind = messages.OffsetFetchRequest
    one = kind.OffsetFetchRequestGroup(group_id="wide-group", member_epoch=-1, topics=None)
    return kind(groups=[one] * groups, require_stable=False)


def _delete_records(count: int) -> Any:
    kind = messages.DeleteRecordsRequest
    rows = [
        kind.DeleteRecordsPartition(partition_index=number % PARTITIONS, offset=0) for number in range(count)
    ]
    return kind(topics=[kind.DeleteRecordsTopic(name=WIDE, partitions=rows)], timeout_ms=60_000)


def _describe_configs() -> Any:
    kind = messages.DescribeConfigsRequest
    rows = [
        kind.DescribeConfigsResource(
            resource_type=2, resource_name=f"topic-{number}", configuration_keys=None
        )
        for number in range(TOPICS)
    ]
    return kind(resources=rows, include_synonyms=True, include_documentation=True)


def _create_partitions() -> Any:
    kind = messages.CreatePartitionsRequest
    rows = [
        kind.CreatePartitionsTopic(name=f"topic-{number}", count=3, assignments=None)
        for number in range(TOPICS)
    ]
    return kind(topics=rows, timeout_ms=60_000, validate_only=False)


def _delete_topics() -> Any:
    kind = messages.DeleteTopicsRequest
    rows = [kind.DeleteTopicState(name=f"topic-{number}") for number in range(TOPICS)]
    return kind(topics=rows, timeout_ms=60_000)


class Attack(NamedTuple):
    """One request."""

    key: ApiKey
    version: int
    name: str
    body: Callable[[], Any]
    is_short: bool = False


ATTACKS = [
    Attack(ApiKey.PRODUCE, 9, f"to {PRODUCED:,} of {PARTITIONS:,} partitions",
           lambda: _produce(WIDE, PRODUCED, PARTITIONS), True),
    Attack(ApiKey.PRODUCE, 9, f"{PRODUCED:,} times to one partition", lambda: _produce("topic-0", PRODUCED, 1)),
    Attack(ApiKey.FETCH, 12, f"{ENTRIES:,} of {PARTITIONS:,} partitions", lambda: _fetch(WIDE, ENTRIES, PARTITIONS)),
    Attack(ApiKey.FETCH, 12, f"{ENTRIES:,} times one large batch", lambda: _fetch(DEEP, ENTRIES, 1)),
    Attack(ApiKey.LIST_OFFSETS, 7, f"newest of a packed batch x {SEARCHES:,}",
           lambda: _offsets(DEEP, SEARCHES, MAX_TIMESTAMP), True),
    Attack(ApiKey.LIST_OFFSETS, 7, f"newest of a large batch x {SEARCHES:,}",
           lambda: _offsets(FLAT, SEARCHES, MAX_TIMESTAMP)),
    Attack(ApiKey.LIST_OFFSETS, 7, f"by time x {ENTRIES:,}", lambda: _offsets(WIDE, ENTRIES, 10, PARTITIONS)),
    Attack(ApiKey.METADATA, 12, "all topics", lambda: messages.MetadataRequest(topics=None)),
    Attack(ApiKey.DESCRIBE_LOG_DIRS, 4, "all topics", lambda: messages.DescribeLogDirsRequest(topics=None)),
    Attack(ApiKey.OFFSET_COMMIT, 8, f"x {ENTRIES:,}", lambda: _commit(ENTRIES)),
    Attack(ApiKey.OFFSET_FETCH, 8, "all offsets of 50 groups", lambda: _committed(50)),
    Attack(ApiKey.DELETE_RECORDS, 2, f"x {ENTRIES:,}", lambda: _delete_records(ENTRIES)),
    Attack(ApiKey.DESCRIBE_CONFIGS, 4, f"{TOPICS:,} topics, documented", _describe_configs),
    Attack(ApiKey.CREATE_PARTITIONS, 3, f"{TOPICS:,} topics", _create_partitions),
    Attack(ApiKey.DELETE_TOPICS, 6, f"{TOPICS:,} topics", _delete_topics),
]  # fmt: skip


def _ask(harness: Harness, requests: bytes, count: int = 1) -> list[bytes]:
    """The frames of as many answers."""
    with harness.connect() as connection, connection.makefile("rb") as stream:
        connection.settimeout(ANSWER_S_MAX)
        connection.sendall(requests)
        return [_frame(stream) for _ in range(count)]


def _frame(stream: Any) -> bytes:
    head = stream.read(4)
    assert head, "the broker closed the connection"
    frame: bytes = stream.read(struct.unpack(">i", head)[0])
    return frame


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param(
            one, marks=[] if one.is_short else pytest.mark.slow, id=f"{one.key.name.lower()}-{one.name}"
        )
        for one in ATTACKS
    ],
)
def test_entries_that_cost_work_keep_nobody_waiting(harness: Harness, attack: Attack) -> None:
    request = encode_request(attack.key, attack.version, 7, "attacker", attack.body())
    assert harness.measure(
        "kafka", f"{attack.key.name.lower()} {attack.name}", lambda: _ask(harness, request)
    )


def test_members_that_join_together_are_assigned_in_turns(harness: Harness) -> None:
    """Each join assigns all partitions anew."""
    kind = messages.ConsumerGroupHeartbeatRequest
    joins = b"".join(
        encode_request(
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            1,
            7,
            "attacker",
            kind(
                group_id="crowd",
                member_id=f"member-{number}",
                member_epoch=0,
                rebalance_timeout_ms=300_000,
                subscribed_topic_names=[WIDE],
                subscribed_topic_regex=None,
                topic_partitions=[],
            ),
        )
        for number in range(MEMBERS)
    )
    with harness.case("kafka", f"{MEMBERS} members join a group of {PARTITIONS:,} partitions"):
        frames = _ask(harness, joins, MEMBERS)
    answers = [decode_response(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, frame)[1] for frame in frames]
    assert [one.error_code for one in answers] == [0] * MEMBERS
    assert [one.member_id for one in answers] == [f"member-{number}" for number in range(MEMBERS)]


def test_records_to_many_partitions_are_stored_in_order(harness: Harness) -> None:
    """A large Produce is appended in slices; the small one behind it does not overtake."""
    count = 3 * PARTITIONS // 2
    requests = [
        encode_request(ApiKey.PRODUCE, 9, 7, "attacker", _produce(ORDERED, rows, 1)) for rows in (count, 1)
    ]
    frames = _ask(harness, b"".join(requests), 2)
    found = [
        row.base_offset
        for frame in frames
        for row in decode_response(ApiKey.PRODUCE, 9, frame)[1].responses[0].partition_responses
    ]
    assert found == list(range(count + 1))
