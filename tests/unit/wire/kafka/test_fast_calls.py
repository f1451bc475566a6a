"""The shortcuts of callers give what the generated code gives, for every shape and for broken bytes too."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from kafka_samples import sample
from penstock.core.errors import Malformed
from penstock.core.limits import RECORDS_COPIED_BYTES_MAX
from penstock.wire.kafka import API, ApiKey, KafkaMessage, encode_produced, encode_response, messages
from penstock.wire.kafka.classes import classes_of
from penstock.wire.kafka.decoder import Decoder, make_decoder
from penstock.wire.kafka.encoder import Encoder, make_encoder
from penstock.wire.kafka.fast_calls import BY_ID_FROM, make_produce_encoder, make_produced_decoder

PRODUCE = API[ApiKey.PRODUCE]
VERSION = BY_ID_FROM
HEADER_BYTES = 9
"""Size, correlation id, tags."""
LIMIT = RECORDS_COPIED_BYTES_MAX
RECORDS = (b"", b"r", b"r" * 126, b"r" * 127, b"r" * LIMIT, b"r" * (LIMIT + 1), memoryview(b"r" * 300_000))

generated_encoder = make_encoder(PRODUCE.request, VERSION)
generated_decoder = make_decoder(PRODUCE.response, VERSION, classes_of(PRODUCE.response))
encoder = make_produce_encoder(generated_encoder)
decoder = make_produced_decoder(classes_of(PRODUCE.response), generated_decoder)


def encoded(encode: Encoder, message: Any) -> tuple[bytes, list[Any]] | str:
    """All bytes, and the parts that are not to be copied."""
    parts: list[Any] = []
    cuts: list[int] = []
    try:
        encode(message, parts, cuts)
    except AssertionError as error:
        return str(error)
    return b"".join(parts), [parts[cut] for cut in cuts]


def decoded(decode: Decoder, body: bytes) -> KafkaMessage | str:
    try:
        message: KafkaMessage = decode(body, 0)
    except Malformed as error:
        return str(error)
    return message


def one_partition(records: Any = b"r") -> Any:
    request = messages.ProduceRequest
    partition = request.PartitionProduceData(index=7, records=records)
    topic = request.TopicProduceData(topic_id=b"i" * 16, partition_data=[partition])
    return request(acks=-1, timeout_ms=30_000, topic_data=[topic])


@pytest.mark.parametrize("records", RECORDS, ids=len)
def test_requests_of_one_partition(records: Any) -> None:
    message = one_partition(records)
    assert encoded(encoder, message) == encoded(generated_encoder, message)


def test_requests_of_all_shapes() -> None:
    rng = Random(1)
    for _ in range(300):
        message = sample(PRODUCE.request, VERSION, rng)
        assert encoded(encoder, message) == encoded(generated_encoder, message)


def test_requests_that_cannot_be_encoded_have_the_same_error() -> None:
    for field, value in (("acks", 2**20), ("timeout_ms", None), ("topic_data", None)):
        message = one_partition()
        setattr(message, field, value)
        assert isinstance(encoded(encoder, message), str)
        assert encoded(encoder, message) == encoded(generated_encoder, message)
    message = one_partition()
    message.topic_data[0].topic_id = b"short"
    assert encoded(encoder, message) == encoded(generated_encoder, message)


def response_bodies() -> list[bytes]:
    short = encode_produced(VERSION, 7, b"i" * 16, 3, 12, -1, 0, error_code=6, throttle_time_ms=9)
    assert short is not None
    bodies = [short[HEADER_BYTES:]]
    rng = Random(2)
    for _ in range(200):
        message = sample(PRODUCE.response, VERSION, rng)
        parts: Any = encode_response(ApiKey.PRODUCE, VERSION, 7, message)
        bodies.append(b"".join(parts)[HEADER_BYTES:])
    return bodies


def test_responses_of_all_shapes() -> None:
    for body in response_bodies():
        assert decoded(decoder, body) == decoded(generated_decoder, body)


def test_broken_responses() -> None:
    rng = Random(3)
    for body in response_bodies()[:40]:
        for _ in range(40):
            broken = bytearray(body)
            broken[rng.randrange(len(broken))] ^= 1 << rng.randrange(8)
            cut = bytes(broken) if rng.random() < 0.7 else bytes(broken[: rng.randrange(len(broken))])
            assert decoded(decoder, cut) == decoded(generated_decoder, cut)
