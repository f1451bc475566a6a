"""Decodes the name of a certificate from DER, with the type of every string: formatting as Java does depends on it."""

from __future__ import annotations

from penstock.core.authentication.distinguished_name import NameAttribute
from penstock.core.authentication.failure import AuthFailureKind, NotAuthenticated

NAME_BYTES_MAX = 16 * 1024
_SEQUENCE, _SET, _OID = 0x30, 0x31, 0x06
_STRINGS = {
    0x0C: "utf-8",
    0x13: "ascii",
    0x14: "latin-1",
    0x16: "ascii",
    0x1B: "ascii",
    0x1E: "utf-16-be",
}
"""Tags of the strings that Java shows as text, and their encodings: UTF8, Printable, T61, IA5, General, BMP."""


def decode_rdns(der: bytes) -> list[list[NameAttribute]]:
    """The parts of a name in the order of the encoding. Raises NotAuthenticated."""
    if len(der) > NAME_BYTES_MAX:
        raise _malformed()
    return [
        [_attribute(one) for one in _children(rdn, _SEQUENCE)]
        for rdn in _children(_only(der, _SEQUENCE), _SET)
    ]


def _attribute(content: bytes) -> NameAttribute:
    tag, oid, end = _element(content, 0)
    value_tag, value, value_end = _element(content, end)
    if tag != _OID or value_end != len(content):
        raise _malformed()
    return NameAttribute(_dotted(oid), _text(value_tag, value), content[end:])


def _text(tag: int, value: bytes) -> str | None:
    if tag not in _STRINGS:
        return None
    try:
        return value.decode(_STRINGS[tag])
    except UnicodeDecodeError:
        raise _malformed() from None


def _only(content: bytes, expected: int) -> bytes:
    tag, value, end = _element(content, 0)
    if tag != expected or end != len(content):
        raise _malformed()
    return value


def _children(content: bytes, expected: int) -> list[bytes]:
    found, position = [], 0
    while position < len(content):
        tag, value, position = _element(content, position)
        if tag != expected:
            raise _malformed()
        found.append(value)
    return found


def _element(content: bytes, position: int) -> tuple[int, bytes, int]:
    """Tag, value and end of the element at this position."""
    if position + 2 > len(content):
        raise _malformed()
    tag, length = content[position], content[position + 1]
    start = position + 2
    if length >= 0x80:
        count = length & 0x7F
        if not 1 <= count <= 3 or start + count > len(content):
            raise _malformed()
        length = int.from_bytes(content[start : start + count])
        start += count
    if start + length > len(content):
        raise _malformed()
    return tag, content[start : start + length], start + length


def _dotted(oid: bytes) -> str:
    if not oid or oid[-1] & 0x80:
        raise _malformed()
    arcs, value = [], 0
    for byte in oid:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            arcs.append(value)
            value = 0
    first = min(arcs[0] // 40, 2)
    return ".".join(map(str, (first, arcs[0] - 40 * first, *arcs[1:])))


def _malformed() -> NotAuthenticated:
    return NotAuthenticated(AuthFailureKind.MALFORMED, "the name in the certificate is not valid DER")
