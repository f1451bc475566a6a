"""Properties and the headers in them: plain where they can be, packed where they must be, refused where they cannot."""

from __future__ import annotations

import pytest

from penstock.core.errors import Malformed, TooLarge
from penstock.core.limits import DOOR_HEADERS_MAX, DOOR_PROPERTIES_BYTES_MAX
from penstock.core.model import Header
from penstock.wire.queue.frames import MessageType, decode, encode_parts
from penstock.wire.queue.properties import (
    Properties,
    decode_properties,
    encode_properties,
    headers_in,
    key_in,
    properties_of,
)


def test_plain_headers_are_plain_properties_and_the_rest_is_packed() -> None:
    headers = (
        Header("color", b"red"),
        Header("color", b"a=b"),
        Header("empty", b""),
        Header("none", None),
        Header("zero", b"a\0b"),
        Header("raw", b"\xff"),
        Header("@topic", b"not ours"),
        Header("a=b", b"c"),
        Header("", b"nameless"),
    )
    properties = properties_of(b"k", headers, is_null=True)
    assert properties[:5] == (
        ("@key", "k"),
        ("@null", "true"),
        ("color", "red"),
        ("color", "a=b"),
        ("empty", ""),
    )
    assert {name for name, _ in properties[5:]} == {"@header"}
    assert properties[5:7] == (("@header", "bm9uZQ=="), ("@header", "emVybw==:YQBi"))
    assert headers_in(decode_properties(encode_properties(properties))) == headers


def test_a_key_of_no_text_is_packed() -> None:
    properties = properties_of(b"\xff\0", (), is_null=False)
    assert properties == (("@key64", "/wA="),)
    assert key_in(properties) == b"\xff\0"
    assert key_in(()) is None


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        (("", "x"), "needs a name"),
        (("a=b", "x"), "may not contain '='"),
        (("a\0b", "x"), "zero byte"),
        (("a", "x\0"), "send it as @header"),
        (("a", "\ud800"), "UTF-8"),
    ],
)
def test_what_cannot_be_said_is_refused(pair: tuple[str, str], words: str) -> None:
    with pytest.raises(Malformed, match=words):
        encode_properties([pair])


@pytest.mark.parametrize(
    "properties",
    [
        (("@header", "*"),),
        (("@header", "YQ==:*"),),
        (("@header", "/w==:YQ=="),),
        (("@key64", "*"),),
        (("@key", "a"), ("@key64", "YQ==")),
    ],
)
def test_what_was_packed_wrong_is_refused(properties: Properties) -> None:
    with pytest.raises(Malformed):
        headers_in(properties)
        key_in(properties)


@pytest.mark.parametrize(
    "raw", [b"a=b\0" * (DOOR_HEADERS_MAX + 1), b"a=" + b"b" * DOOR_PROPERTIES_BYTES_MAX + b"\0"]
)
def test_what_a_client_sends_is_bounded_and_what_the_broker_sends_is_not(raw: bytes) -> None:
    frame = encode_parts(MessageType.PUBLISH, 1, 0, raw, b"")
    with pytest.raises(TooLarge, match=r"at most|over the limit"):
        decode(frame, is_bounded=True)
    assert decode(frame).properties
