"""Frames of the metadata protocol: their exact bytes, and what is refused with which words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.core.errors import Malformed
from penstock.wire.metadata.frames import (
    MESSAGE_FIELDS,
    Append,
    Failed,
    ReadFrom,
    Renew,
    SessionEnded,
    decode,
    encode,
)

PAGE = Path(__file__).parents[4] / "docs/protocols/metadata.md"


def test_the_bytes_of_a_frame() -> None:
    assert encode(9, ReadFrom(258, True)).hex(" ", -4) == "0000000e 08000000 09000000 00000001 0201"
    assert encode(1, Renew((("b", 2, 3),))).hex() == "00000018" + "0c00000001" + "00000001" + "000162" + (
        "00000002" + "0000000000000003"
    )


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (b"", "0 bytes are too few"),
        (b"\x00\x00\x00\x00\x01", "unknown message type 0"),
        (b"\x7f\x00\x00\x00\x01", "unknown message type 127"),
        (encode(1, ReadFrom(1, True))[4:-1], "ends inside a field"),
        (encode(1, ReadFrom(1, True))[4:-1] + b"\x02", "a flag is 2"),
        (encode(1, SessionEnded())[4:] + b"x", "1 bytes follow the last field of SessionEnded"),
        (encode(1, Append(1, b"abc"))[4:-1], "a length of 3 exceeds the 2 bytes"),
        (encode(1, Failed("a", "b"))[4:-1] + b"\xff", "not UTF-8"),
        (encode(1, Renew(()))[4:-4] + b"\xff\xff\xff\xff", "a list of 4294967295 does not fit"),
    ],
)
def test_a_malformed_frame_is_refused_with_the_reason(frame: bytes, why: str) -> None:
    with pytest.raises(Malformed, match=why):
        decode(frame)


def test_the_page_lists_every_message_with_its_type_and_fields() -> None:
    listed = re.findall(r"^\| (\d+) \| `(\w+)` \|([^|]*)\|", PAGE.read_text(), re.MULTILINE)
    expected = [
        (str(number), kind.__name__, list(kind._fields))  # type: ignore[attr-defined]
        for number, kind in enumerate(MESSAGE_FIELDS, 1)
    ]
    found = [(number, name, re.findall(r"`(\w+)`", names)) for number, name, names in listed]
    assert found == expected
