"""The shortcuts give what the generated code gives, for every shape and for broken bytes too."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from kafka_samples import sample
from penstock.core.errors import Malformed
from penstock.wire.kafka import API, ApiKey, encode_request, encode_response, messages
from penstock.wire.kafka.classes import KafkaMessage, classes_of
from penstock.wire.kafka.decoder import Decoder, make_decoder
from penstock.wire.kafka.encoder import make_encoder
from penstock.wire.kafka.fast import make_produce_decoder, shortcut_of

PRODUCE, FETCH = API[ApiKey.PRODUCE], API[ApiKey.FETCH]
RECORDS = (b"", b"r", b"r" * 126, b"r" * 127, b"r" * 5_000, memoryview(b"r" * 300_000))
NAMES = ("", "orders", "größe", "x" * 126, "x" * 127, "x" * 249)


class Slice:
    """Records that lie elsewhere."""

    length = 3_000


def produce_decoders(version: int) -> tuple[Decoder, Decoder]:
    classes = classes_of(PRODUCE.request)
    generated = make_decoder(PRODUCE.request, version, classes)
    return make_produce_decoder(version, classes, generated), generated


def outcome(decode: Decoder, body: bytes) -> KafkaMessage | str:
    try:
        message: KafkaMessage = decode(body, 0)
    except Malformed as error:
        return str(error)
    return message


def one_partition(version: int, name: str, records: Any) -> Any:
    request = messages.ProduceRequest
    partition = request.PartitionProduceData(index=7, records=records)
    topic = request.TopicProduceData(partition_data=[partition])
    if version >= 13:
        topic.topic_id = b"i" * 16
    else:
        topic.name = name
    return request(acks=-1, timeout_ms=30_000, topic_data=[topic])


@pytest.mark.parametrize("version", range(3, 14))
def test_produce_requests_of_one_partition(version: int) -> None:
    shortcut, generated = produce_decoders(version)
    for name in NAMES:
        for records in RECORDS:
            message = one_partition(version, name, records)
            body = encode_request(ApiKey.PRODUCE, version, 1, None, message)[14 + (version >= 9) :]
            assert shortcut(body, 0) == generated(body, 0) == message


@pytest.mark.parametrize("version", range(3, 14))
def test_produce_requests_of_all_shapes(version: int) -> None:
    shortcut, generated = produce_decoders(version)
    for seed in range(60):
        message = sample(PRODUCE.request, version, Random(seed))
        body = encode_request(ApiKey.PRODUCE, version, 1, None, message)[14 + (version >= 9) :]
        assert shortcut(body, 0) == generated(body, 0) == message


@pytest.mark.parametrize("version", [9, 13])
def test_what_lies_elsewhere_is_not_taken_for_a_length(version: int) -> None:
    """In a transaction, or with many partitions, other fields stand where one partition has its length: all ones is
    no length at all, but a good part of a topic's id or of a partition's number."""
    shortcut, generated = produce_decoders(version)
    for named in range(1, 40):
        message = one_partition(version, "t", b"r")
        message.transactional_id = "p" * named
        if version >= 13:
            message.topic_data[0].topic_id = b"\xff" * 16
        body = encode_request(ApiKey.PRODUCE, version, 1, None, message)[14 + (version >= 9) :]
        assert shortcut(body, 0) == generated(body, 0) == message
    many = one_partition(version, "t", b"r")
    one = messages.ProduceRequest.PartitionProduceData
    many.topic_data[0].partition_data = [one(index=-1, records=memoryview(b"\xff" * 9)) for _ in range(200)]
    body = encode_request(ApiKey.PRODUCE, version, 1, None, many)[14 + (version >= 9) :]
    assert shortcut(body, 0) == generated(body, 0) == many


@pytest.mark.parametrize("version", [3, 9, 13])
def test_broken_produce_requests(version: int) -> None:
    shortcut, generated = produce_decoders(version)
    message = one_partition(version, "tä", b"r" * 130)
    body = encode_request(ApiKey.PRODUCE, version, 1, None, message)[14 + (version >= 9) :]
    for length in range(len(body)):
        assert outcome(shortcut, body[:length]) == outcome(generated, body[:length])
    for bit in range(len(body) * 8):
        broken = bytearray(body)
        broken[bit // 8] ^= 1 << bit % 8
        assert outcome(shortcut, bytes(broken)) == outcome(generated, bytes(broken))
    assert outcome(shortcut, body + b"\0") == outcome(generated, body + b"\0")


def generated_reply(key: ApiKey, version: int, body: Any) -> list[Any]:
    parts: list[Any] = []
    make_encoder(API[key].response, version)(body, parts, [])
    return parts


def joined(parts: list[Any]) -> bytes:
    return b"".join(bytes(part.length) if isinstance(part, Slice) else part for part in parts)


def assert_same_reply(key: ApiKey, version: int, body: Any) -> None:
    header = 9 if API[key].is_flexible(version) else 8
    whole = joined(encode_response(key, version, 77, body))
    assert whole[header:] == joined(generated_reply(key, version, body))
    assert whole[:8] == (len(whole) - 4).to_bytes(4, "big") + (77).to_bytes(4, "big")


@pytest.mark.parametrize("version", range(4, 19))
def test_fetch_replies(version: int) -> None:
    response = messages.FetchResponse
    for seed in range(60):
        assert_same_reply(ApiKey.FETCH, version, sample(FETCH.response, version, Random(seed)))
    for name in NAMES:
        for records in (*RECORDS, None, Slice()):
            for aborted in ([], None, [response.AbortedTransaction(producer_id=1, first_offset=2)]):
                partition = response.PartitionData(
                    partition_index=3, high_watermark=9, records=records, aborted_transactions=aborted
                )
                topic = response.FetchableTopicResponse(topic=name, topic_id=b"i" * 16)
                topic.partitions = [partition]
                body = response(session_id=5 * (version >= 7), responses=[topic])
                assert_same_reply(ApiKey.FETCH, version, body)


@pytest.mark.parametrize("version", range(3, 14))
def test_produce_replies(version: int) -> None:
    response = messages.ProduceResponse
    for seed in range(60):
        assert_same_reply(ApiKey.PRODUCE, version, sample(PRODUCE.response, version, Random(seed)))
    for name in NAMES:
        partition = response.PartitionProduceResponse(index=3, base_offset=9, log_start_offset=1)
        topic = response.TopicProduceResponse(name=name, topic_id=b"i" * 16, partition_responses=[partition])
        assert_same_reply(ApiKey.PRODUCE, version, response(responses=[topic], throttle_time_ms=4))


def test_tags_and_second_partitions_leave_the_shortcut() -> None:
    response = messages.FetchResponse
    plain, leader = response.PartitionData(), response.LeaderIdAndEpoch(leader_id=1, leader_epoch=2)
    hinted = response.PartitionData(current_leader=leader)
    for version in (12, 16):
        shortcut = shortcut_of(ApiKey.FETCH, version)
        assert shortcut is not None
        for partitions, fits in (([plain], True), ([hinted], False), ([plain, plain], False)):
            topic = response.FetchableTopicResponse(partitions=partitions)
            assert (shortcut(1, response(responses=[topic])) is not None) == fits
            assert_same_reply(ApiKey.FETCH, version, response(responses=[topic]))
        topic = response.FetchableTopicResponse(partitions=[plain])
        assert shortcut(1, response(responses=[topic, topic])) is None
