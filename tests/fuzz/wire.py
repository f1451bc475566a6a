"""Kafka frames as a broker reads them and as a client does; and the stream of frames itself.

What was read must be writable and come back the same.
"""

from __future__ import annotations

from random import Random
from typing import Any

from fuzz.target import Target
from kafka_samples import message_versions, sample
from penstock.core.errors import InvalidRequest, Malformed, TooLarge
from penstock.node.connections.framing import Framing, LengthPrefixed
from penstock.node.connections.intake import Budget, Intake
from penstock.wire.kafka import (
    API,
    UNSUPPORTED,
    ApiKey,
    ErrorCode,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from penstock.wire.queue.frames import Frame as QueueFrame
from penstock.wire.queue.frames import MessageType
from penstock.wire.queue.frames import decode as decode_queue_frame
from penstock.wire.queue.frames import encode as encode_queue_frame
from penstock.wire.queue.properties import headers_in, key_in
from penstock.wire.queue.request_properties import KNOWN, read_request_properties

MESSAGES = tuple(message_versions())
FRAME_BYTES_MAX = 50_000
BUDGET_BYTES = 200_000
_SIZE_BYTES = 4


def make_request(rng: Random) -> bytes:
    api, version = rng.choice(MESSAGES)
    message = sample(api.request, version, rng)
    return encode_request(api.key, version, rng.getrandbits(31), rng.choice((None, "", "me")), message)[
        _SIZE_BYTES:
    ]


def read_request(frame: bytes) -> str:
    """As a broker reads it."""
    try:
        header = decode_request_header(frame)
        if header.body_position == UNSUPPORTED:
            return "unsupported"
        read = decode_request(header.api_key, header.version, frame, header.body_position)
    except Malformed:
        return "malformed"
    api = API[header.api_key]
    first = encode_request(api.key, header.version, 1, None, read)
    position = decode_request_header(first[_SIZE_BYTES:]).body_position
    again = decode_request(api.key, header.version, first[_SIZE_BYTES:], position)
    assert encode_request(api.key, header.version, 1, None, again) == first
    return f"request {api.key}"


def make_response(rng: Random) -> bytes:
    """Two bytes that say which API and version is expected, then the frame."""
    at = rng.randrange(len(MESSAGES))
    api, version = MESSAGES[at]
    message = sample(api.response, version, rng)
    parts = encode_response(api.key, version, rng.getrandbits(31), message)
    return at.to_bytes(2, "big") + joined(parts)[_SIZE_BYTES:]


def read_response(content: bytes) -> str:
    """As a client reads it."""
    api, version = MESSAGES[int.from_bytes(content[:2], "big") % len(MESSAGES)]
    try:
        _, read = decode_response(api.key, version, content[2:])
    except Malformed:
        return "malformed"
    if api.key == ApiKey.API_VERSIONS and read.error_code == ErrorCode.UNSUPPORTED_VERSION:
        version = 0
    first = joined(encode_response(api.key, version, 1, read))
    _, again = decode_response(api.key, version, first[_SIZE_BYTES:])
    assert joined(encode_response(api.key, version, 1, again)) == first
    return f"response {api.key}"


def make_stream(rng: Random) -> bytes:
    """A byte that seeds how the stream is cut, then frames."""
    frames = [rng.randbytes(rng.choice((0, 1, 30, 5_000, 40_000))) for _ in range(rng.randint(1, 5))]
    return rng.randbytes(1) + b"".join(len(one).to_bytes(_SIZE_BYTES, "big") + one for one in frames)


def read_stream(content: bytes) -> str:
    """Frames are the same however the stream is cut, and memory stays within the budget."""
    frames, end = cut_any_way(content, LengthPrefixed())
    return f"{end} after {min(len(frames), 5)}"


def cut_any_way(content: bytes, framing: Framing) -> tuple[list[bytes], str]:
    """(the frames, how the stream ended), which are the same however it is cut; its first byte seeds that."""
    whole = cut(content[1:], None, framing)
    assert cut(content[1:], Random(content[:1]), framing) == whole
    return whole


def cut(content: bytes, rng: Random | None, framing: Framing) -> tuple[list[bytes], str]:
    """(the frames, how the stream ended)"""
    budget = Budget(BUDGET_BYTES)
    intake = Intake(budget, FRAME_BYTES_MAX, framing)
    frames: list[bytes] = []
    while content:
        room = intake.room()
        assert len(room) > 0
        count = min(len(room), len(content), rng.randint(1, 9_000) if rng else len(content))
        room[:count], content = content[:count], content[count:]
        intake.received(count)
        try:
            while (frame := intake.take()) is not None:
                frames.append(bytes(frame))
        except (Malformed, TooLarge) as error:
            return frames, type(error).__name__
        assert intake.make_room(), "one connection alone is never over the budget"
        assert not budget.fits(BUDGET_BYTES + 1)
    held = intake.held_bytes
    intake.close()
    assert budget.fits(BUDGET_BYTES), "everything was given back"
    return frames, "open" if held else "whole"


def joined(parts: list[Any]) -> bytes:
    return b"".join(parts)


def make_queue_frame(rng: Random) -> bytes:
    kind = rng.choice(list(MessageType))
    names = [*sorted(KNOWN.get(kind, ())), "color"]
    properties = tuple(
        (name, rng.choice(("", "t", "1", "true", "YQ=="))) for name in names if rng.random() < 0.5
    )
    body = rng.randbytes(rng.choice((0, 5))) if kind is MessageType.PUBLISH else b""
    return encode_queue_frame(QueueFrame(kind, rng.getrandbits(63), rng.getrandbits(63), properties, body))


def read_queue_frame(content: bytes) -> str:
    """As the broker reads it; what was read comes back the same."""
    try:
        frame = decode_queue_frame(content)
        assert encode_queue_frame(frame) == content
        headers_in(frame.properties)
        key_in(frame.properties)
        read_request_properties(frame)
    except (Malformed, InvalidRequest) as error:
        return type(error).__name__
    return frame.type.name


TARGETS = (
    Target("queue-frame", make_queue_frame, read_queue_frame),
    Target("kafka-request", make_request, read_request),
    Target("kafka-response", make_response, read_response),
    Target("frames", make_stream, read_stream),
)
