"""Lines of the text door: what each part becomes, and where a frame ends."""

from __future__ import annotations

import pytest

from penstock.core.errors import Malformed, TooLarge
from penstock.core.model import Header, Isolation, NewRecord
from penstock.wire.text.commands import (
    LINE_BYTES_MAX,
    NAMES,
    BareCommand,
    Fetch,
    Pub,
    TextFraming,
    command_name,
    decode_command,
)


def size(content: bytes, bytes_max: int = 1_000) -> int:
    return TextFraming().size(bytearray(b"??" + content), 2, len(content) + 2, bytes_max)


def test_a_frame_is_a_line_and_behind_pub_its_payload() -> None:
    assert size(b"FETCH a 1\r\nFETCH a 2\r\n") == 11
    assert size(b"\r\n") == 2
    assert size(b"PUB a 5\r\nhel") == 9 + 5
    assert size(b"pub a 5 key=x\nhello") == 14 + 5
    assert size(b"PUBLISH a 5\r\n") == 13
    assert size(b"PUB a 5") == size(b"") == 0


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"PUB a 1001\r\n", TooLarge),
        (b"PUB a\r\n", Malformed),
        (b"PUB a 1x\r\n", Malformed),
        (b"x" * LINE_BYTES_MAX, TooLarge),
    ],
)
def test_a_frame_whose_end_cannot_be_known_is_refused(content: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        size(content)


@pytest.mark.parametrize(
    ("frame", "command"),
    [
        (b"PUB a 2\r\nhi", Pub("a", NewRecord(None, b"hi"), 0)),
        (b"PUB a 0 value=none key=%00\n", Pub("a", NewRecord(b"\0", None), None)),
        (b"PUB a 1 partition=3 key=k time=9\n\n", Pub("a", NewRecord(b"k", b"\n", (), 9), 3)),
        (
            b"PUB a 0 header.x=1 header.x\n",
            Pub("a", NewRecord(None, b"", (Header("x", b"1"), Header("x", None))), 0),
        ),
        (b"fetch a 007\n", Fetch("a", 7, "")),
        (b"FETCH a first wait=5 form=full partition=2", Fetch("a", 0, "first", 2, 5, is_full=True)),
        (b"FETCH a NEXT isolation=uncommitted", Fetch("a", 0, "next", isolation=Isolation.READ_UNCOMMITTED)),
        (b"quit\r\n", BareCommand("QUIT")),
        (b" \r\n", None),
    ],
)
def test_commands(frame: bytes, command: object) -> None:
    found = decode_command(frame)
    assert found == command
    assert found is None or command_name(found) in NAMES
