"""Laws of the queue door's codec: what is said is understood, whole or in pieces; any bytes are a frame or refused."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import BrokerError
from penstock.core.model import Header
from penstock.wire.queue.frames import Frame, FrameStream, MessageType, decode, encode
from penstock.wire.queue.properties import headers_in, key_in, properties_of

INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0="), min_size=1, max_size=20)
FRAMES = st.builds(
    Frame,
    st.sampled_from(MessageType),
    INT64,
    INT64,
    st.lists(st.tuples(NAMES, TEXT), max_size=5).map(tuple),
    st.binary(max_size=50),
)
HEADERS = st.lists(
    st.builds(
        Header,
        st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
        | st.sampled_from(["@topic", "@header", "a=b"]),
        st.none() | st.binary(max_size=8) | st.just(b"plain"),
    ),
    max_size=5,
).map(tuple)


@given(st.lists(FRAMES, min_size=1, max_size=4), st.integers(1, 60))
def test_frames_come_out_as_they_went_in_however_they_are_cut(frames: list[Frame], step: int) -> None:
    raw = b"".join(map(encode, frames))
    stream = FrameStream(1 << 20)
    found = [frame for start in range(0, len(raw), step) for frame in stream.feed(raw[start : start + step])]
    assert found == frames


@given(st.none() | st.binary(max_size=9), HEADERS, st.booleans())
def test_every_key_and_header_can_be_said(
    key: bytes | None, headers: tuple[Header, ...], is_null: bool
) -> None:
    frame = Frame(MessageType.DATA, 0, 0, properties_of(key, headers, is_null=is_null))
    heard = decode(encode(frame)).properties
    assert (key_in(heard), headers_in(heard)) == (key, headers)
    assert (("@null", "true") in heard) == is_null


@settings(max_examples=300)
@given(st.binary(max_size=80) | FRAMES.map(encode), st.integers(0, 79), st.integers(0, 255))
def test_any_bytes_are_a_frame_or_refused(raw: bytes, position: int, value: int) -> None:
    damaged = bytearray(raw)
    if position < len(damaged):
        damaged[position] = value
    try:
        frame = decode(bytes(damaged))
    except BrokerError as error:
        assert error.code == "Malformed" and str(error)
    else:
        assert encode(frame) == bytes(damaged)
