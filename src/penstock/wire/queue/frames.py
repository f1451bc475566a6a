"""The frame of the queue door. Validates every length; no I/O.

    [4 total_length][4 message_type][8 sequence_number][8 timestamp]
    [4 properties_length][properties][4 body_length][body]

Numbers are big-endian. `total_length` counts the whole frame, its own four bytes included.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from penstock.core.errors import Malformed, TooLarge
from penstock.wire.foreign_protocol import FOREIGN_LENGTH_MIN, foreign_length
from penstock.wire.queue.properties import Properties, check_bounds, decode_properties, encode_properties

LENGTH_BYTES = 4
FRAME_BYTES_MIN = 32
"""A frame without properties and body."""

NO_SEQUENCE = -1

_HEAD = Struct(">IIqqI")
_LENGTH = Struct(">I")
_START = Struct(">Iq")
"""Message type and sequence number."""
_REPEATED_AT = _HEAD.size - _LENGTH.size
_BODY_HEAD_BYTES = _LENGTH.size

assert _HEAD.size + _BODY_HEAD_BYTES == FRAME_BYTES_MIN


class MessageType(IntEnum):
    """Frame types. From 10 to 12 they are for admin tools, from 13 on for brokers that relay a client."""

    CREATE_TOPIC = 1
    PUBLISH = 2
    CREATE_SUBSCRIPTION = 3
    DELETE_SUBSCRIPTION = 4
    SUBSCRIBE = 5
    UNSUBSCRIBE = 6
    HEARTBEAT = 7
    ACK = 8
    DATA = 9
    LIST_SUBSCRIPTIONS = 10
    DESCRIBE_SUBSCRIPTION = 11
    REDRIVE = 12
    LINK = 13
    LOST = 14


BETWEEN_BROKERS = frozenset({MessageType.LINK, MessageType.LOST})
"""Only brokers of a cluster send these."""

_TYPES = {int(one): one for one in MessageType}
_ACK = int(MessageType.ACK)


class Frame(NamedTuple):
    """One message of the protocol."""

    type: MessageType
    sequence: int = NO_SEQUENCE
    timestamp_ms: int = 0
    properties: Properties = ()
    body: bytes = b""


def encode(frame: Frame) -> bytes:
    """Encode a frame. Raises Malformed for a property that cannot be encoded."""
    raw = encode_properties(frame.properties)
    return encode_parts(frame.type, frame.sequence, frame.timestamp_ms, raw, frame.body)


def encode_parts(kind: int, sequence: int, timestamp_ms: int, properties: bytes, body: bytes) -> bytes:
    """The same with encoded properties."""
    total_bytes = FRAME_BYTES_MIN + len(properties) + len(body)
    head = _HEAD.pack(total_bytes, kind, sequence, timestamp_ms, len(properties))
    return b"".join((head, properties, _LENGTH.pack(len(body)), body))


def frame_bytes(buffer: bytes | bytearray, position: int, bytes_max: int) -> int:
    """The size of the frame at `position`. Raises if it is invalid or too large."""
    total_bytes: int = _LENGTH.unpack_from(buffer, position)[0]
    if total_bytes < FRAME_BYTES_MIN:
        raise Malformed(
            f"total_length is {total_bytes}; it counts the whole frame, so it is {FRAME_BYTES_MIN} at least"
        )
    if total_bytes >= FOREIGN_LENGTH_MIN and (foreign := foreign_length(total_bytes)) is not None:
        raise foreign
    if total_bytes > bytes_max:
        raise TooLarge(f"a frame of {total_bytes} bytes is over the limit of {bytes_max}")
    return total_bytes


def decode(raw: bytes | memoryview, *, is_bounded: bool = False) -> Frame:
    """Decode one complete frame, including its length. Raises Malformed if it is inconsistent.

    `is_bounded` applies the broker's limits on properties, which do not apply to frames that the broker sends.
    """
    size = len(raw)
    if size < FRAME_BYTES_MIN:
        raise Malformed(f"{size} bytes are too few for a frame")
    total_bytes, number, sequence, timestamp_ms, properties_bytes = _HEAD.unpack_from(raw)
    if total_bytes != size:
        raise Malformed(f"total_length is {total_bytes}, the frame has {size} bytes")
    kind = _TYPES.get(number)
    if kind is None:
        raise unknown_type(number)
    body_at = FRAME_BYTES_MIN + properties_bytes
    if body_at > size:
        raise Malformed(
            f"properties_length {properties_bytes} does not fit into {size - FRAME_BYTES_MIN} bytes"
        )
    (body_bytes,) = _LENGTH.unpack_from(raw, body_at - _BODY_HEAD_BYTES)
    if body_at + body_bytes != size:
        raise Malformed(f"body_length is {body_bytes}, {size - body_at} bytes are left for the body")
    packed = bytes(raw[_HEAD.size : body_at - _BODY_HEAD_BYTES])
    if is_bounded:
        check_bounds(packed)
    properties = decode_properties(packed)
    return Frame(kind, sequence, timestamp_ms, properties, bytes(raw[body_at:]))


def unknown_type(number: int) -> Malformed:
    """The error for a frame of a type that clients do not send."""
    known = ", ".join(f"{one.value} {one.name}" for one in MessageType if one not in BETWEEN_BROKERS)
    return Malformed(f"unknown message type {number}; known types are {known}")


def type_of(raw: bytes | memoryview) -> int:
    """The message type of a complete frame, without decoding it."""
    number: int = _START.unpack_from(raw, LENGTH_BYTES)[0]
    return number


def split_ack(raw: bytes | memoryview) -> tuple[int, bytes] | None:
    """An ACK's sequence number and the undecoded bytes after its timestamp; None for other frames.

    Acknowledgements of a member differ only in that number, so the decoded rest can be cached.
    """
    if len(raw) < FRAME_BYTES_MIN:
        return None
    number, sequence = _START.unpack_from(raw, LENGTH_BYTES)
    return (sequence, bytes(raw[_REPEATED_AT:])) if number == _ACK else None


class FrameStream:
    """Splits a byte stream into frames."""

    def __init__(self, frame_bytes_max: int) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._waiting = bytearray()

    def feed(self, content: bytes) -> Iterator[Frame]:
        """The frames completed by these bytes. Raises if the stream is invalid, after which it is unusable."""
        self._waiting += content
        position = 0
        try:
            while len(self._waiting) - position >= LENGTH_BYTES:
                end = position + frame_bytes(self._waiting, position, self._frame_bytes_max)
                if end > len(self._waiting):
                    break
                raw = bytes(self._waiting[position:end])
                position = end
                yield decode(raw)
        finally:
            del self._waiting[:position]
