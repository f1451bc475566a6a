"""Laws of the Kafka codec: what is written is read back, and no bytes whatever do harm."""

from __future__ import annotations

import tracemalloc
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fuzz.target import broken
from fuzz.wire import joined, make_request, make_response, read_request, read_response
from kafka_samples import message_versions, sample
from penstock.core.errors import Malformed
from penstock.wire.kafka import (
    API,
    Api,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)

MESSAGES = list(message_versions())
UNFOLDING_MAX = 200
"""How many bytes of memory one byte of a frame may become: a byte can be an empty struct in a list."""


@pytest.mark.parametrize("api", API.values(), ids=lambda api: api.name)
def test_what_is_written_is_read_back(api: Api) -> None:
    for version in range(api.version_min, api.version_max + 1):
        for seed in range(5):
            request, response = (
                sample(schema, version, Random(seed)) for schema in (api.request, api.response)
            )
            frame = encode_request(api.key, version, 3, "me", request)[4:]
            header = decode_request_header(frame)
            assert header[:4] == (api.key, version, 3, "me")
            assert decode_request(api.key, version, frame, header.body_position) == request
            frame = joined(encode_response(api.key, version, 3, response))[4:]
            assert decode_response(api.key, version, frame) == (3, response)


@pytest.mark.parametrize("api", API.values(), ids=lambda api: api.name)
def test_no_prefix_of_a_message_is_a_message(api: Api) -> None:
    for version in range(api.version_min, api.version_max + 1):
        message = sample(api.response, version, Random(version))
        body = joined(encode_response(api.key, version, 3, message))[4:]
        for length in {0, 1, 4, len(body) // 3, len(body) // 2, len(body) - 1}:
            with pytest.raises(Malformed):
                decode_response(api.key, version, body[: min(length, len(body) - 1)])


@settings(max_examples=400, deadline=None)
@given(st.integers(min_value=0))
def test_broken_frames_are_read_or_refused(seed: int) -> None:
    rng = Random(seed)
    read_request(broken(make_request(rng), rng))
    read_response(broken(make_response(rng), rng))


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(MESSAGES), st.binary(max_size=300))
def test_random_bytes_are_read_or_refused(message: tuple[Api, int], body: bytes) -> None:
    api, version = message
    for decode in (
        lambda: decode_request_header(body),
        lambda: decode_request(api.key, version, body, 0),
        lambda: decode_response(api.key, version, body),
    ):
        try:
            decode()
        except Malformed as error:
            assert str(error)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(MESSAGES), st.binary(max_size=40), st.integers(0, 255), st.integers(0, 20_000))
@example((API[3], 1), b"\x7f\xff\xff\xff", 0, 20_000)
@example((API[16], 4), b"\xa1\x9c\x01", 1, 20_000)
@example((API[3], 12), b"\x91\x4e", 1, 20_000)
def test_a_frame_unfolds_to_bounded_memory(
    message: tuple[Api, int], start: bytes, fill: int, count: int
) -> None:
    api, version = message
    body = start + bytes([fill]) * count
    decode_quietly(api, version, body)  # compiles the decoder
    tracemalloc.start()
    try:
        decode_quietly(api, version, body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20_000 + UNFOLDING_MAX * len(body)


def decode_quietly(api: Api, version: int, body: bytes) -> None:
    """Read it, or have it refused."""
    try:
        decode_request(api.key, version, body, 0)
    except Malformed:
        return
