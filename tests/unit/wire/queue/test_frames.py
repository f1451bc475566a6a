"""Frames of the queue door, byte by byte: what is taken, what is refused and in which words."""

from __future__ import annotations

import pytest

from penstock.core.errors import Malformed, TooLarge
from penstock.wire.queue.frames import (
    FRAME_BYTES_MIN,
    Frame,
    FrameStream,
    MessageType,
    decode,
    encode,
    frame_bytes,
    split_ack,
)

PUBLISH = Frame(MessageType.PUBLISH, -1, 1_700_000_000_000, (("@topic", "events"), ("color", "red")), b"hi")
RAW = encode(PUBLISH)


def test_the_frame_is_the_one_of_the_document_field_for_field() -> None:
    properties = b"@topic=events\0color=red\0"
    assert (
        b"".join(
            (
                (32 + len(properties) + 2).to_bytes(4, "big"),
                (2).to_bytes(4, "big"),
                b"\xff" * 8,
                (1_700_000_000_000).to_bytes(8, "big"),
                len(properties).to_bytes(4, "big"),
                properties,
                (2).to_bytes(4, "big"),
                b"hi",
            )
        )
        == RAW
    )
    assert decode(RAW) == PUBLISH
    assert len(encode(Frame(MessageType.HEARTBEAT))) == FRAME_BYTES_MIN


def test_acknowledgements_differ_in_their_number_and_time_alone() -> None:
    words = (("@subscription", "s"), ("@partition", "3"))
    one, two = (encode(Frame(MessageType.ACK, number, number * 7, words)) for number in (5, -1))
    assert split_ack(one) == (5, one[24:])
    assert split_ack(memoryview(two)) == (-1, one[24:])
    assert split_ack(encode(Frame(MessageType.ACK, 5, 0, (*words, ("@outcome", "reject"))))) != (5, one[24:])
    assert split_ack(RAW) is None
    assert split_ack(one[:20]) is None


def test_frames_come_whole_however_they_are_cut() -> None:
    raw = RAW + encode(Frame(MessageType.HEARTBEAT)) + RAW
    for step in (1, 3, 31, len(raw)):
        stream = FrameStream(1_000)
        found = [
            frame for start in range(0, len(raw), step) for frame in stream.feed(raw[start : start + step])
        ]
        assert found == [PUBLISH, Frame(MessageType.HEARTBEAT), PUBLISH]


def changed(position: int, *content: int) -> bytes:
    raw = bytearray(RAW)
    raw[position : position + len(content)] = bytes(content)
    return bytes(raw)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (RAW[:31], "31 bytes are too few"),
        (RAW[:-1], "total_length is 58, the frame has 57"),
        (changed(7, 99), "unknown message type 99"),
        (changed(27, 0xFF), "properties_length 255 does not fit"),
        (changed(27, 23), "body_length is"),
        (changed(28 + 24 + 3, 3), "body_length is 3, 2 bytes are left"),
        (changed(28 + 23, 0x41), "does not end with a zero byte"),
        (changed(28 + 6, 0x41), "not of the form key=value"),
        (changed(28, 0xFF), "not UTF-8"),
        (changed(28, 0x3D), "not of the form key=value"),
    ],
)
def test_what_contradicts_itself_is_refused_in_words(raw: bytes, words: str) -> None:
    with pytest.raises(Malformed, match=words):
        decode(raw)


def test_a_length_is_judged_before_anything_is_kept() -> None:
    with pytest.raises(Malformed, match="32 at least"):
        frame_bytes(b"\0\0\0\x1f", 0, 100)
    with pytest.raises(TooLarge, match="over the limit of 100"):
        list(FrameStream(100).feed(b"\xff\xff\xff\xff"))
