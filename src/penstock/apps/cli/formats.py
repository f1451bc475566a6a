"""Formats records for `sub`: the `%` template of --format, and JSON lines. Returns bytes; never writes."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import NamedTuple

from penstock.core.printable import escape

ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}

_CONTROLS = re.compile("[\x7f-\x9f]")
"""Control characters that JSON does not escape but terminals interpret."""

_PIECE = re.compile(r"%(?P<token>[A-Za-z%])(?:\{(?P<coding>[^}]*)\})?|\\(?P<escape>.)", re.DOTALL)


class RecordView(NamedTuple):
    """The fields of a record that a template can use."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


Piece = Callable[[RecordView], bytes]
Template = Callable[[RecordView], bytes]


def compile_template(
    template: str, *, for_terminal: bool = False, show_value: Piece | None = None
) -> Template:
    """`'%p %o %v\\n'` to a function. For a terminal, unprintable characters are escaped. Raises ValueError.

    `show_value` formats %v in place of the plain bytes; %v{hex} stays what was stored.
    """
    pieces: list[Piece] = []
    end = 0
    for match in _PIECE.finditer(template):
        pieces.append(_literal(template[end : match.start()]))
        is_value = show_value is not None and match["token"] == "v" and match["coding"] is None
        pieces.append(show_value if is_value and show_value is not None else _piece(match, for_terminal))
        end = match.end()
    pieces.append(_literal(template[end:]))
    return lambda record: b"".join([piece(record) for piece in pieces])


def unescape(text: str) -> str:
    """`'\\t'` as typed in a shell to a tab. Raises ValueError."""
    return _PIECE.sub(lambda match: _escaped(match) if match["escape"] else match[0], text)


def json_line(record: RecordView) -> bytes:
    """One JSON object and a line break. Keys and values that are not UTF-8 become `key_base64` and `value_base64`."""
    return record_json(record_content(record))


def record_json(content: dict[str, object], indent: int | None = None) -> bytes:
    """The content of a record, and a line break. Control characters are escaped."""
    line = json.dumps(content, ensure_ascii=False, indent=indent)
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", line).encode() + b"\n"


def record_content(record: RecordView) -> dict[str, object]:
    """The fields of a record for JSON and YAML."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        **_json_bytes("key", record.key),
        **_json_bytes("value", record.value),
        "headers": [{"name": name, **_json_bytes("value", value)} for name, value in record.headers],
    }


def _json_bytes(name: str, value: bytes | None) -> dict[str, str | None]:
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}


def _literal(text: str) -> Piece:
    encoded = text.encode()
    return lambda _record: encoded


def _escaped(match: re.Match[str]) -> str:
    letter = match["escape"]
    if letter not in ESCAPES:
        known = " ".join("\\" + name for name in ESCAPES)
        raise ValueError(f"'\\{letter}' is not an escape; allowed: {known}")
    return ESCAPES[letter]


def _piece(match: re.Match[str], for_terminal: bool) -> Piece:
    if match["escape"]:
        return _literal(_escaped(match))
    token, coding = match["token"], match["coding"]
    if token in _PLAIN and coding is None:
        return _PLAIN[token]
    if token not in ("k", "v", "h") or (token == "h" and coding is not None):
        raise ValueError(f"unknown token {match[0]!r}; allowed: {TOKENS}.")
    if coding not in (None, "hex", "base64"):
        raise ValueError(f"{match[0]!r}: unknown encoding {coding!r}; allowed: hex or base64.")
    show_name = _printable if for_terminal else bytes
    show = _SHOWN[coding] if coding else show_name
    if token == "k":
        return lambda record: show(record.key or b"")
    if token == "v":
        return lambda record: show(record.value or b"")
    return lambda record: b",".join(
        show_name(name.encode()) + b"=" + show(value or b"") for name, value in record.headers
    )


def _printable(value: bytes) -> bytes:
    return escape(value.decode("utf-8", "backslashreplace")).encode()


_SHOWN: dict[str, Callable[[bytes], bytes]] = {
    "hex": lambda value: value.hex().encode(),
    "base64": base64.b64encode,
}

_PLAIN: dict[str, Piece] = {
    "%": lambda _record: b"%",
    "t": lambda record: record.topic.encode(),
    "p": lambda record: str(record.partition).encode(),
    "o": lambda record: str(record.offset).encode(),
    "T": lambda record: str(record.timestamp_ms).encode(),
    "s": lambda record: str(len(record.value or b"")).encode(),
}

TOKENS = (
    "%t topic, %p partition, %o offset, %k key, %v value, %h headers, %T timestamp in ms, %s size of the value, "
    "%% a percent sign; %k and %v also as %v{hex} or %v{base64}"
)
