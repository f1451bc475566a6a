"""Produce with every client: acks, keys, headers, times, codecs, size, idempotence; read back exactly."""

from __future__ import annotations

import random
import time

import pytest

from compat.raw import RawConnection, batches
from compat.roster import CODECS_OF, NAMES, able
from compat.vocabulary import APPEND_TIME, CREATE_TIME, Client, CreateTopic, Sent, refused

CODEC_BITS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
EVERY_BYTE = bytes(range(256))
PAIRS = [(name, codec) for name in NAMES for codec in CODECS_OF[name]]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
@pytest.mark.parametrize("client", able("produce"), indirect=True)
def test_acks(client: Client, acks: str, new_topic: CreateTopic) -> None:
    topic = new_topic()
    sent = [Sent(EVERY_BYTE + str(number).encode()) for number in range(3)]
    client.produce(topic, sent, acks=acks)
    got = client.fetch(topic, 0, 0, 3)
    assert [(record.offset, record.value) for record in got] == [(n, s.value) for n, s in enumerate(sent)]


@pytest.mark.parametrize("client", able("report_offsets"), indirect=True)
def test_offsets_are_reported_and_dense(client: Client, new_topic: CreateTopic) -> None:
    topic = new_topic()
    first = client.produce(topic, [Sent(b"a"), Sent(b"b")])
    second = client.produce(topic, [Sent(b"c"), Sent(b"d"), Sent(b"e")])
    assert first + second == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("client", able("admit_no_offset"), indirect=True)
def test_acks_0_reports_no_offset(client: Client, new_topic: CreateTopic) -> None:
    assert client.produce(new_topic(), [Sent(b"a")], acks="0") == [-1]


@pytest.mark.parametrize("client", able("mixed_records"), indirect=True)
def test_null_and_empty_keys_and_values(client: Client, new_topic: CreateTopic) -> None:
    topic = new_topic()
    pairs = [(None, b"v"), (b"", b"v"), (b"k", b""), (b"k", None), (EVERY_BYTE, EVERY_BYTE)]
    client.produce(topic, [Sent(value, key) for key, value in pairs])
    assert [(record.key, record.value) for record in client.fetch(topic, 0, 0, len(pairs))] == pairs


@pytest.mark.parametrize("client", able("neither_key_nor_value"), indirect=True)
def test_neither_key_nor_value(client: Client, new_topic: CreateTopic) -> None:
    topic = new_topic()
    client.produce(topic, [Sent(None)])
    (got,) = client.fetch(topic, 0, 0, 1)
    assert (got.key, got.value) == (None, None)


@pytest.mark.parametrize("client", able("mixed_records"), indirect=True)
def test_headers(client: Client, new_topic: CreateTopic) -> None:
    topic = new_topic()
    headers = (("empty", b""), ("é", EVERY_BYTE), ("plain", b"1"))
    client.produce(topic, [Sent(b"v", headers=headers), Sent(b"bare")])
    assert [record.headers for record in client.fetch(topic, 0, 0, 2)] == [headers, ()]


@pytest.mark.parametrize("client", able("null_headers"), indirect=True)
def test_a_header_may_be_null(client: Client, new_topic: CreateTopic) -> None:
    topic = new_topic()
    client.produce(topic, [Sent(b"v", b"k", (("null", None), ("plain", b"1")))])
    (got,) = client.fetch(topic, 0, 0, 1)
    assert (got.key, got.headers) == (b"k", (("null", None), ("plain", b"1")))


@pytest.mark.parametrize("client", able("repeated_headers"), indirect=True)
def test_a_header_may_be_there_twice(client: Client, new_topic: CreateTopic) -> None:
    topic = new_topic()
    headers = (("twice", b"2"), ("plain", b"0"), ("twice", b"1"))
    client.produce(topic, [Sent(b"v", headers=headers)])
    assert client.fetch(topic, 0, 0, 1)[0].headers == headers


@pytest.mark.parametrize("client", able("mixed_records"), indirect=True)
def test_times_of_the_producer_are_kept(client: Client, new_topic: CreateTopic) -> None:
    topic = new_topic(retention_ms="-1")
    times_ms = [1_500_000_000_123, 1_400_000_000_000, 1_600_000_000_999]
    client.produce(topic, [Sent(b"v", timestamp_ms=time_ms) for time_ms in times_ms])
    got = client.fetch(topic, 0, 0, 3)
    assert [(record.timestamp_ms, record.timestamp_kind) for record in got] == [
        (time_ms, CREATE_TIME) for time_ms in times_ms
    ]


@pytest.mark.parametrize("client", able("mixed_records"), indirect=True)
def test_append_time_is_the_brokers(client: Client, new_topic: CreateTopic) -> None:
    topic = new_topic(message_timestamp_type="LogAppendTime")
    before_ms = int(time.time() * 1000)
    client.produce(topic, [Sent(b"v", timestamp_ms=1_500_000_000_000), Sent(b"w")])
    got = client.fetch(topic, 0, 0, 2)
    assert {record.timestamp_kind for record in got} == {APPEND_TIME}
    assert all(record.timestamp_ms >= before_ms for record in got)


@pytest.mark.parametrize(("client", "codec"), PAIRS, indirect=["client"])
def test_codec_is_stored_as_sent(
    client: Client, codec: str, new_topic: CreateTopic, raw: RawConnection
) -> None:
    topic = new_topic()
    sent = [Sent(b"compress me " * 50 + str(number).encode()) for number in range(40)]
    client.produce(topic, sent, codec=codec)
    got = client.fetch(topic, 0, 0, len(sent))
    assert [record.value for record in got] == [record.value for record in sent]
    stored = batches(raw.fetch(topic, 0).records)
    assert {one.compression_type for one in stored} == {CODEC_BITS[codec]}


@pytest.mark.parametrize("client", able("produce"), indirect=True)
def test_a_large_record_that_does_not_compress(client: Client, new_topic: CreateTopic) -> None:
    topic = new_topic()
    value = random.Random(7).randbytes(900_000)
    client.produce(topic, [Sent(value)])
    assert client.fetch(topic, 0, 0, 1)[0].value == value


@pytest.mark.parametrize("client", able("mixed_records"), indirect=True)
def test_many_records(client: Client, new_topic: CreateTopic) -> None:
    topic = new_topic()
    sent = [Sent(f"value {number}".encode() * 4, str(number).encode()) for number in range(3000)]
    client.produce(topic, sent)
    got = client.fetch(topic, 0, 0, len(sent))
    assert [(r.offset, r.key, r.value) for r in got] == [(n, s.key, s.value) for n, s in enumerate(sent)]


@pytest.mark.parametrize("client", able("produce"), indirect=True)
def test_idempotent_producer(client: Client, new_topic: CreateTopic, raw: RawConnection) -> None:
    topic = new_topic()
    for part in range(3):
        client.produce(topic, [Sent(f"{part}-{number}".encode()) for number in range(4)], idempotent=True)
    got = client.fetch(topic, 0, 0, 12)
    assert [record.value for record in got] == [f"{p}-{n}".encode() for p in range(3) for n in range(4)]
    stored = batches(raw.fetch(topic, 0).records)
    assert all(one.producer_id >= 0 and one.producer_epoch >= 0 for one in stored)
    by_producer: dict[int, int] = {}
    for one in stored:
        assert one.base_sequence == by_producer.get(one.producer_id, 0)
        by_producer[one.producer_id] = one.base_sequence + one.records_count


@pytest.mark.parametrize("client", able("produce"), indirect=True)
def test_the_partition_asked_for(client: Client, new_topic: CreateTopic, raw: RawConnection) -> None:
    topic = new_topic(partitions=3)
    client.produce(topic, [Sent(b"here")], partition=2)
    assert client.fetch(topic, 2, 0, 1)[0].value == b"here"
    assert [client.offset_of(topic, partition, "latest") for partition in range(3)] == [0, 0, 1]


@pytest.mark.parametrize("client", able("create_on_produce"), indirect=True)
def test_an_unknown_topic_is_created_on_produce(client: Client, fresh: str) -> None:
    client.produce(fresh, [Sent(b"first")])
    assert client.fetch(fresh, 0, 0, 1)[0].value == b"first"


@pytest.mark.parametrize("client", able("produce"), indirect=True)
def test_too_large_for_the_topic(client: Client, new_topic: CreateTopic) -> None:
    topic = new_topic(max_message_bytes="1000")
    with refused("MESSAGE_TOO_LARGE"):
        client.produce(topic, [Sent(random.Random(7).randbytes(5000))])
    client.produce(topic, [Sent(b"small")])
    assert client.fetch(topic, 0, 0, 1)[0].value == b"small"


@pytest.mark.parametrize("client", able("name_invalid_record"), indirect=True)
def test_a_compacted_topic_refuses_a_null_key(client: Client, new_topic: CreateTopic) -> None:
    topic = new_topic(cleanup_policy="compact")
    with refused("INVALID_RECORD"):
        client.produce(topic, [Sent(b"no key")])
    client.produce(topic, [Sent(b"keyed", b"k")])
    assert client.fetch(topic, 0, 0, 1)[0].key == b"k"


@pytest.mark.parametrize("client", able("mixed_records"), indirect=True)
def test_a_tombstone_on_a_compacted_topic(client: Client, new_topic: CreateTopic) -> None:
    topic = new_topic(cleanup_policy="compact")
    client.produce(topic, [Sent(b"v", b"k"), Sent(None, b"k")])
    got = client.fetch(topic, 0, 0, 2)
    assert [(record.key, record.value) for record in got] == [(b"k", b"v"), (b"k", None)]


@pytest.mark.parametrize("client", able("mixed_records"), indirect=True)
def test_a_time_too_far_ahead(client: Client, new_topic: CreateTopic) -> None:
    topic = new_topic()
    tomorrow_ms = int(time.time() * 1000) + 86_400_000
    with refused("INVALID_TIMESTAMP"):
        client.produce(topic, [Sent(b"v", timestamp_ms=tomorrow_ms)])
