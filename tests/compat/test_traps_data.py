"""What brokers got wrong before on the data path: order, sequences, fetch, times, offsets.

Test names start with the number of the trap in test_traps.py. Never leaves a batch to a client library.
"""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest
from kafka.protocol.admin import DeleteRecordsRequest
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest
from kafka.protocol.metadata import MetadataRequest

from compat.raw import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    RawConnection,
    batch,
    batches,
    fetch_fields,
    values,
)
from compat.vocabulary import CreateTopic, Sent, error_name

SEQUENCE_MAX = 2**31 - 1
LONG_WAIT_MS = 60_000
# How long a test looks to see that a request is still parked.
LOOK_S = 0.3
APPEND_TIME_BIT = 1


def names_of(answer: Any) -> str:
    return error_name(answer.error_code)


class Writer:
    """An idempotent producer by hand: one batch per call, with the sequence it is told."""

    def __init__(self, raw: RawConnection, topic: str) -> None:
        self.raw, self.topic = raw, topic
        self.producer_id, self.epoch = raw.producer_id()

    def write(self, sequence: int, count: int = 1, epoch: int | None = None) -> tuple[str, int]:
        """Error's name and base offset."""
        records = batch(
            *[f"{sequence}+{index}".encode() for index in range(count)],
            producer_id=self.producer_id,
            epoch=self.epoch if epoch is None else epoch,
            sequence=sequence,
        )
        answer = self.raw.produce(self.topic, records)
        return names_of(answer), answer.base_offset


# -- 10: acks 0 and order -----------------------------------------------------------------------------------


def test_10_acks_0_has_no_answer(raw: RawConnection, new_topic: CreateTopic) -> None:
    """The next answer on the connection belongs to the next request that wants one."""
    topic = new_topic()
    for number in range(3):
        raw.produce(topic, batch(str(number).encode()), acks=0)
    raw.await_end(topic, 3)
    assert values(raw.fetch(topic, 0).records) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("key", [b"k", None])
def test_10_acks_0_that_fails_closes_the_connection(
    bootstrap: str, new_topic: CreateTopic, key: bytes | None
) -> None:
    topic = new_topic(cleanup_policy="compact")
    with RawConnection(bootstrap) as connection:
        connection.produce(topic, batch(Sent(b"v", key)), acks=0)
        if key is None:
            assert connection.is_closed_by_peer()
        else:
            connection.await_end(topic, 1)


def test_10_other_acks_are_refused(raw: RawConnection, new_topic: CreateTopic) -> None:
    assert names_of(raw.produce(new_topic(), batch(b"v"), acks=5)) == "INVALID_REQUIRED_ACKS"


def test_10_answers_come_in_the_order_of_requests(raw: RawConnection, new_topic: CreateTopic) -> None:
    topic = new_topic()
    asked = [raw.send_produce(topic, batch(str(number).encode())) for number in range(50)]
    answered = [raw.receive() for _ in asked]
    assert [correlation_id for correlation_id, _ in answered] == asked
    offsets = [answer.responses[0].partition_responses[0].base_offset for _, answer in answered]
    assert offsets == list(range(50))


def test_10_a_parked_fetch_holds_back_what_comes_after(raw: RawConnection, new_topic: CreateTopic) -> None:
    topic = new_topic()
    parked = raw.send(FetchRequest, 11, **fetch_fields([(topic, 0, 0)], max_wait_ms=2_000))
    behind = raw.send(MetadataRequest, 12, topics=[])
    assert not raw.is_answer_due(LOOK_S)
    assert [raw.receive()[0], raw.receive()[0]] == [parked, behind]


# -- 11: sequences of idempotent producers ------------------------------------------------------------------


def test_11_producer_ids_are_unique(raw: RawConnection) -> None:
    ids = [raw.producer_id() for _ in range(5)]
    assert len({producer_id for producer_id, _ in ids}) == 5
    assert {epoch for _, epoch in ids} == {0}


def test_11_the_last_five_batches_may_be_repeated(raw: RawConnection, new_topic: CreateTopic) -> None:
    topic = new_topic()
    writer = Writer(raw, topic)
    for number in range(7):
        assert writer.write(number * 2, count=2) == ("NONE", number * 2)
    again = [writer.write(number * 2, count=2) for number in range(2, 7)]
    assert again == [("NONE", number * 2) for number in range(2, 7)], "each with its first offset"
    assert writer.write(0, count=2) == ("OUT_OF_ORDER_SEQUENCE_NUMBER", -1)
    assert raw.offset_at(topic, LATEST_TIMESTAMP).offset == 14
    assert writer.write(14) == ("NONE", 14), "the producer goes on"


def test_11_a_repeat_must_be_the_whole_batch(raw: RawConnection, new_topic: CreateTopic) -> None:
    writer = Writer(raw, new_topic())
    assert writer.write(0, count=3) == ("NONE", 0)
    assert writer.write(0, count=2) == ("OUT_OF_ORDER_SEQUENCE_NUMBER", -1)
    assert writer.write(1, count=3) == ("OUT_OF_ORDER_SEQUENCE_NUMBER", -1)


def test_11_a_gap_is_out_of_order(raw: RawConnection, new_topic: CreateTopic) -> None:
    writer = Writer(raw, new_topic())
    assert writer.write(0) == ("NONE", 0)
    assert writer.write(2) == ("OUT_OF_ORDER_SEQUENCE_NUMBER", -1)
    assert writer.write(1) == ("NONE", 1)


def test_11_an_unknown_producer_may_start_anywhere(raw: RawConnection, new_topic: CreateTopic) -> None:
    """Its earlier batches may have been deleted: nothing is known that contradicts it."""
    writer = Writer(raw, new_topic())
    assert writer.write(5) == ("NONE", 0)
    assert writer.write(6) == ("NONE", 1)


@pytest.mark.parametrize(("count", "after"), [(1, SEQUENCE_MAX), (2, 0), (4, 2)])
def test_11_sequences_wrap(raw: RawConnection, new_topic: CreateTopic, count: int, after: int) -> None:
    writer = Writer(raw, new_topic())
    assert writer.write(SEQUENCE_MAX - 1, count=count) == ("NONE", 0)
    assert writer.write(after) == ("NONE", count)
    assert writer.write(SEQUENCE_MAX - 1, count=count) == ("NONE", 0), "a repeat over the wrap"


def test_11_a_new_epoch_starts_at_zero(raw: RawConnection, new_topic: CreateTopic) -> None:
    writer = Writer(raw, new_topic())
    assert writer.write(0) == ("NONE", 0)
    assert writer.write(1, epoch=1) == ("OUT_OF_ORDER_SEQUENCE_NUMBER", -1)
    assert writer.write(0, epoch=1) == ("NONE", 1)
    assert writer.write(1, epoch=0) == ("INVALID_PRODUCER_EPOCH", -1)


def test_11_partitions_count_apart(raw: RawConnection, new_topic: CreateTopic) -> None:
    topic = new_topic(partitions=2)
    producer_id, epoch = raw.producer_id()
    for partition in (0, 1):
        records = batch(b"v", producer_id=producer_id, epoch=epoch, sequence=0)
        answer = raw.produce(topic, records, partition=partition)
        assert (names_of(answer), answer.base_offset) == ("NONE", 0)


# -- 12: fetch ----------------------------------------------------------------------------------------------


def test_12_the_first_batch_comes_whole(raw: RawConnection, new_topic: CreateTopic) -> None:
    topic = new_topic()
    raw.produce(topic, batch(b"x" * 100_000))
    got = raw.fetch(topic, 0, max_bytes=1, partition_max_bytes=1)
    assert values(got.records) == [b"x" * 100_000]


def test_12_partitions_are_filled_in_the_order_asked(raw: RawConnection, new_topic: CreateTopic) -> None:
    topics = [first := new_topic(), new_topic(beside=first)]
    for topic in topics:
        raw.produce(topic, batch(b"x" * 10_000))
    for order in (topics, topics[::-1]):
        answer = raw.call(
            FetchRequest, 11, **fetch_fields([(topic, 0, 0) for topic in order], max_bytes=5000)
        )
        filled = {
            one.topic: values(one.partitions[0].records)
            for one in answer.responses
            if one.partitions[0].records
        }
        assert filled == {order[0]: [b"x" * 10_000]}, "the first gets its batch, nothing is left for the next"


def test_12_a_partition_stops_at_its_bytes(raw: RawConnection, new_topic: CreateTopic) -> None:
    topic = new_topic()
    for number in range(10):
        raw.produce(topic, batch(bytes([number]) * 1000))
    got = raw.fetch(topic, 0, partition_max_bytes=3500)
    assert len(bytes(got.records)) <= 3500
    assert values(got.records) == [bytes([number]) * 1000 for number in range(3)]


def test_12_the_end_is_no_error(raw: RawConnection, new_topic: CreateTopic) -> None:
    topic = new_topic()
    raw.produce(topic, batch(b"v"))
    got = raw.fetch(topic, 1)
    assert (names_of(got), got.high_watermark, got.log_start_offset) == ("NONE", 1, 0)
    assert got.records == b"", "empty, not null"


@pytest.mark.parametrize("offset", [2, 10**6])
def test_12_past_the_end(raw: RawConnection, new_topic: CreateTopic, offset: int) -> None:
    topic = new_topic()
    raw.produce(topic, batch(b"v"))
    got = raw.fetch(topic, offset, max_wait_ms=LONG_WAIT_MS)
    assert (names_of(got), got.records) == ("OFFSET_OUT_OF_RANGE", b"")


def test_12_what_is_not_there(raw: RawConnection, new_topic: CreateTopic, fresh: str) -> None:
    topic = new_topic()
    places = [(topic, 9, 0), (fresh, 0, 0)]
    answer = raw.call(FetchRequest, 11, **fetch_fields(places, max_wait_ms=LONG_WAIT_MS))
    errors = {names_of(one.partitions[0]) for one in answer.responses}
    assert errors == {"UNKNOWN_TOPIC_OR_PARTITION"}, "and at once: an error does not wait"


def test_12_an_empty_wait_ends(raw: RawConnection, new_topic: CreateTopic) -> None:
    got = raw.fetch(new_topic(), 0, max_wait_ms=100)
    assert (names_of(got), got.records) == ("NONE", b"")


def test_12_a_wait_ends_with_enough_bytes(bootstrap: str, raw: RawConnection, new_topic: CreateTopic) -> None:
    topic = new_topic()
    with RawConnection(bootstrap) as reader:
        fields = fetch_fields([(topic, 0, 0)], max_wait_ms=LONG_WAIT_MS, min_bytes=5000)
        reader.send(FetchRequest, 11, **fields)
        assert not reader.is_answer_due(LOOK_S), "nothing there"
        raw.produce(topic, batch(b"small"))
        assert not reader.is_answer_due(LOOK_S), "not enough there"
        raw.produce(topic, batch(b"x" * 5000))
        _, answer = reader.receive()
    assert values(answer.responses[0].partitions[0].records) == [b"small", b"x" * 5000]


def test_12_a_wait_on_many_partitions_ends_with_any(
    bootstrap: str, raw: RawConnection, new_topic: CreateTopic
) -> None:
    topics = [first := new_topic(), *(new_topic(beside=first) for _ in range(2))]
    with RawConnection(bootstrap) as reader:
        places = [(topic, 0, 0) for topic in topics]
        reader.send(FetchRequest, 11, **fetch_fields(places, max_wait_ms=LONG_WAIT_MS))
        assert not reader.is_answer_due(LOOK_S)
        raw.produce(topics[1], batch(b"here"))
        _, answer = reader.receive()
    assert [values(one.partitions[0].records) for one in answer.responses] == [[], [b"here"], []]


def leader_epoch(raw: RawConnection, topic: str) -> int:
    return int(raw.metadata([topic]).topics[0].partitions[0].leader_epoch)


def test_12_leader_epochs(raw: RawConnection, new_topic: CreateTopic) -> None:
    topic = new_topic()
    raw.produce(topic, batch(b"v"))
    epoch = leader_epoch(raw, topic)
    assert epoch >= 0
    assert {one.leader_epoch for one in batches(raw.fetch(topic, 0).records)} == {epoch}
    assert names_of(raw.fetch(topic, 0, leader_epoch=epoch)) == "NONE"
    assert names_of(raw.fetch(topic, 0, leader_epoch=epoch + 1)) == "UNKNOWN_LEADER_EPOCH"
    assert raw.offset_at(topic, LATEST_TIMESTAMP).leader_epoch == epoch
    wanted = {"partition_index": 0, "current_leader_epoch": epoch + 1, "timestamp": LATEST_TIMESTAMP}
    topics = [{"name": topic, "partitions": [wanted]}]
    answer = raw.call(ListOffsetsRequest, 7, replica_id=-1, isolation_level=0, topics=topics)
    assert names_of(answer.topics[0].partitions[0]) == "UNKNOWN_LEADER_EPOCH"


@pytest.mark.parametrize("version", [2, 3, 4])
def test_12_where_an_epoch_ends(raw: RawConnection, new_topic: CreateTopic, version: int) -> None:
    topic = new_topic()
    raw.produce(topic, batch(b"v", b"w"))
    epoch = leader_epoch(raw, topic)

    def ask(current: int, wanted: int) -> tuple[str, int, int]:
        place = {"partition": 0, "current_leader_epoch": current, "leader_epoch": wanted}
        topics = [{"topic": topic, "partitions": [place]}]
        answer = raw.call(OffsetForLeaderEpochRequest, version, replica_id=-1, topics=topics)
        (told,) = answer.topics[0].partitions
        return names_of(told), told.leader_epoch, told.end_offset

    assert ask(-1, epoch) == ask(epoch, epoch) == ("NONE", epoch, 2)
    assert ask(-1, epoch + 5) == ("NONE", -1, -1)
    assert ask(epoch + 5, epoch) == ("UNKNOWN_LEADER_EPOCH", -1, -1)


def test_12_a_fetch_without_a_session(raw: RawConnection, new_topic: CreateTopic) -> None:
    answer = raw.call(FetchRequest, 11, **fetch_fields([(new_topic(), 0, 0)], session_epoch=-1))
    assert (answer.error_code, answer.session_id) == (0, 0)


def test_12_sessions_are_optional_but_must_be_right(raw: RawConnection, new_topic: CreateTopic) -> None:
    """A broker may answer session 0 and be asked in full for ever; one that gives an id owes the deltas."""
    topics = [first := new_topic(), new_topic(beside=first)]
    places = [(topic, 0, 0) for topic in topics]
    opened = raw.call(FetchRequest, 11, **fetch_fields(places, session_epoch=0))
    assert opened.error_code == 0
    raw.produce(topics[1], batch(b"new"))
    if opened.session_id == 0:
        answer = raw.call(FetchRequest, 11, **fetch_fields(places, session_epoch=0))
        changed = [one for one in answer.responses if one.partitions[0].records]
    else:
        fields = fetch_fields([], session_id=opened.session_id, session_epoch=1)
        changed = raw.call(FetchRequest, 11, **fields).responses
    assert [(one.topic, values(one.partitions[0].records)) for one in changed] == [(topics[1], [b"new"])]


def test_12_a_session_that_is_not_there(raw: RawConnection, new_topic: CreateTopic) -> None:
    fields = fetch_fields([(new_topic(), 0, 0)], session_id=123456789, session_epoch=4)
    answer = raw.call(FetchRequest, 11, **fields)
    assert (names_of(answer), answer.responses) == ("FETCH_SESSION_ID_NOT_FOUND", [])


# -- 17: append time ----------------------------------------------------------------------------------------


def test_17_append_time_is_stamped(raw: RawConnection, new_topic: CreateTopic) -> None:
    topic = new_topic(message_timestamp_type="LogAppendTime")
    before_ms = int(time.time() * 1000)
    old = batch(b"v", b"w", timestamp_ms=1_500_000_000_000)
    answer = raw.produce(topic, old)
    assert answer.log_append_time_ms >= before_ms
    (stored,) = batches(raw.fetch(topic, 0).records)
    assert stored.timestamp_type == APPEND_TIME_BIT
    assert stored.max_timestamp == answer.log_append_time_ms
    assert stored.validate_crc(), "the checksum covers the new header"
    assert {record.timestamp for record in stored} == {answer.log_append_time_ms}
    found = raw.offset_at(topic, answer.log_append_time_ms)
    assert (found.offset, found.timestamp) == (0, answer.log_append_time_ms)
    assert raw.offset_at(topic, answer.log_append_time_ms + 1).offset == -1
    assert raw.offset_at(topic, MAX_TIMESTAMP).timestamp == answer.log_append_time_ms


def test_17_create_time_is_left_alone(raw: RawConnection, new_topic: CreateTopic) -> None:
    topic = new_topic(retention_ms="-1")
    sent = batch(b"v", timestamp_ms=1_500_000_000_000)
    assert raw.produce(topic, sent).log_append_time_ms == -1
    stored = bytes(raw.fetch(topic, 0).records)
    assert stored[16:] == sent[16:], "all that the checksum covers is stored as sent"


# -- 18: keys on compacted topics, and batches that are wrong -----------------------------------------------


@pytest.mark.parametrize("version", [3, 7, 8, 9, 12])
def test_18_null_keys_are_named(raw: RawConnection, new_topic: CreateTopic, version: int) -> None:
    topic = new_topic(cleanup_policy="compact")
    records = batch(Sent(b"v", b"k"), Sent(b"v"), Sent(b"w", b"k"), Sent(b"w"))
    answer = raw.produce(topic, records, version=version)
    assert (names_of(answer), answer.base_offset) == ("INVALID_RECORD", -1)
    if version >= 8:
        assert [one.batch_index for one in answer.record_errors] == [1, 3]
        assert answer.error_message
    assert raw.offset_at(topic, LATEST_TIMESTAMP).offset == 0, "all or nothing"


def corrupt_crc(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def wrong_magic(data: bytes) -> bytes:
    return data[:16] + b"\x09" + data[17:]


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (corrupt_crc(batch(b"v")), "CORRUPT_MESSAGE"),
        (wrong_magic(batch(b"v")), "CORRUPT_MESSAGE"),
        (batch(b"v") + batch(b"w"), "INVALID_RECORD"),
        (b"", "INVALID_RECORD"),
    ],
    ids=["crc", "magic", "two batches", "none"],
)
def test_18_batches_that_are_wrong(
    raw: RawConnection, new_topic: CreateTopic, records: bytes, error: str
) -> None:
    topic = new_topic()
    assert names_of(raw.produce(topic, records)) == error
    assert raw.offset_at(topic, LATEST_TIMESTAMP).offset == 0
    assert names_of(raw.produce(topic, batch(b"right"))) == "NONE"


def test_18_produce_to_what_is_not_there(raw: RawConnection, new_topic: CreateTopic, fresh: str) -> None:
    assert names_of(raw.produce(new_topic(), batch(b"v"), partition=9)) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert names_of(raw.produce(fresh, batch(b"v"))) == "UNKNOWN_TOPIC_OR_PARTITION"


# -- 19: offsets that users see -----------------------------------------------------------------------------


def test_19_offsets_are_dense(raw: RawConnection, new_topic: CreateTopic) -> None:
    topic = new_topic()
    counts = [1, 3, 2, 5]
    firsts = [raw.produce(topic, batch(*[b"v"] * count)).base_offset for count in counts]
    assert firsts == [0, *itertools.accumulate(counts[:-1])]
    offsets = [record.offset for one in batches(raw.fetch(topic, 0).records) for record in one]
    assert offsets == list(range(sum(counts)))


def test_19_delete_records(raw: RawConnection, new_topic: CreateTopic) -> None:
    topic = new_topic()
    for _ in range(6):
        raw.produce(topic, batch(b"v"))

    def delete(before: int) -> tuple[str, int]:
        wanted = [{"name": topic, "partitions": [{"partition_index": 0, "offset": before}]}]
        answer = raw.call(DeleteRecordsRequest, 2, topics=wanted, timeout_ms=10_000)
        (told,) = answer.topics[0].partitions
        return names_of(told), told.low_watermark

    assert delete(3) == ("NONE", 3)
    assert delete(1) == ("NONE", 3), "what is gone already is no error"
    assert delete(3) == ("NONE", 3)
    assert delete(7) == ("OFFSET_OUT_OF_RANGE", -1)
    assert delete(-2) == ("OFFSET_OUT_OF_RANGE", -1)
    assert names_of(raw.fetch(topic, 2)) == "OFFSET_OUT_OF_RANGE"
    assert values(raw.fetch(topic, 3).records) == [b"v"] * 3
    assert delete(-1) == ("NONE", 6), "-1 is the end"
    assert raw.offset_at(topic, EARLIEST_TIMESTAMP).offset == 6
    assert raw.produce(topic, batch(b"next")).base_offset == 6
