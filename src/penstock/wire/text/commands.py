"""Decodes requests of the text door: a line of words and, after PUB, a payload. Validates every length; no I/O.

    PUB <topic> <size> [partition=N] [key=K] [time=MS] [header.NAME=V] [value=none]
    FETCH <topic> <offset|first|next> [partition=N] [wait=MS] [isolation=uncommitted] [form=full]
    TOPICS    HELP    QUIT

Keys and header names and values are URL-encoded: `%20` is a space.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, TypeVar
from urllib.parse import unquote_to_bytes

from penstock.core.errors import Malformed, TooLarge
from penstock.core.model import NO_TIMESTAMP, Header, Isolation, NewRecord
from penstock.wire.foreign_protocol import foreign_line

T = TypeVar("T")

LINE_BYTES_MAX = 8_000
"""Maximum length of a request line."""

START_BYTES = 8
"""Enough to detect a TLS handshake, which may never end the line."""

_UNKNOWN = 0
_NUMBER = re.compile(rb"[0-9]{1,19}")
_INT64_MAX = 2**63 - 1
_INT32_MAX = 2**31 - 1
_HEADER = b"header."
FIRST, NEXT = "first", "next"


class Pub(NamedTuple):
    """Store one message; without a partition or key it goes to partition 0."""

    topic: str
    record: NewRecord
    partition: int | None


class Fetch(NamedTuple):
    """Read one message: the first at or after `offset`. `place` is a named position instead of a number."""

    topic: str
    offset: int
    place: str
    partition: int = 0
    wait_ms: int = 0
    isolation: Isolation = Isolation.READ_COMMITTED
    is_full: bool = False


class BareCommand(NamedTuple):
    """TOPICS, HELP or QUIT."""

    name: str


class Unknown(NamedTuple):
    """An unknown command. Nothing after it may be executed: a web page controls the body that a browser sends after an
    HTTP request line."""

    shown: str


Command = Pub | Fetch | BareCommand
NAMES = ("PUB", "FETCH", "TOPICS", "HELP", "QUIT")
_NAMES = frozenset(name.encode() for name in NAMES)


def command_name(command: Command) -> str:
    """The first word of a request."""
    if isinstance(command, BareCommand):
        return command.name
    return "PUB" if isinstance(command, Pub) else "FETCH"


class TextFraming:
    """A frame is a line with its terminator and, for PUB, the payload."""

    prefix_bytes = 0

    def size(self, buffer: bytearray, start: int, end: int, bytes_max: int) -> int:
        """The size of the frame at `start`; 0 while the line is incomplete."""
        at = buffer.find(b"\n", start, min(end, start + LINE_BYTES_MAX))
        if at < 0:
            if (foreign := foreign_line(bytes(buffer[start : min(end, start + START_BYTES)]))) is not None:
                raise foreign
            if end - start >= LINE_BYTES_MAX:
                raise TooLarge(f"a line is over the limit of {LINE_BYTES_MAX} bytes")
            return _UNKNOWN
        length = at + 1 - start
        if buffer[start] not in b"Pp":
            return length
        words = bytes(buffer[start:at]).split(None, 3)
        if words[0].upper() != b"PUB":
            return length
        size = _payload_bytes(words)
        if size > bytes_max:
            raise TooLarge(f"a message of {size} bytes is over the limit of {bytes_max}")
        return length + size


def _payload_bytes(words: list[bytes]) -> int:
    """The payload size. If it is invalid the connection must be closed: the start of the next request is unknown."""
    if len(words) < 3 or not _NUMBER.fullmatch(words[2]):
        raise Malformed("PUB needs a topic and the size of its payload: PUB <topic> <size>")
    return int(words[2])


def decode_command(frame: bytes) -> Command | Unknown | None:
    """Decode one request, or None for an empty line. Raises Malformed for invalid arguments."""
    line, _, payload = frame.partition(b"\n")
    words = line.split()
    if not words:
        return None
    name = words[0].upper()
    if (name not in _NAMES or words[-1].startswith(b"HTTP/")) and (foreign := foreign_line(line)) is not None:
        raise foreign
    if name == b"PUB":
        return _decode_pub(words, payload)
    if name == b"FETCH":
        return _decode_fetch(words)
    if name not in _NAMES:
        return Unknown(_shown(words[0]))
    if len(words) > 1:
        raise Malformed(f"{name.decode()} takes no arguments")
    return BareCommand(name.decode())


def _decode_pub(words: list[bytes], payload: bytes) -> Pub:
    topic = _text(words[1])
    if len(words) == 3:
        return Pub(topic, NewRecord(None, payload), 0)
    options = _RawOptions(words[3:])
    value: bytes | None = payload
    if options.take("value", _choice("value", "none")) is not None:
        if payload:
            raise Malformed("value=none requires size 0")
        value = None
    key = options.take("key", unquote_to_bytes)
    partition = options.take("partition", _number("partition", _INT32_MAX))
    time_ms = options.take("time", _number("time", _INT64_MAX))
    record = NewRecord(key, value, options.headers(), NO_TIMESTAMP if time_ms is None else time_ms)
    options.check_empty("PUB")
    return Pub(topic, record, 0 if partition is None and key is None else partition)


def _decode_fetch(words: list[bytes]) -> Fetch:
    if len(words) < 3:
        raise Malformed("FETCH needs a topic and an offset: FETCH <topic> <offset>")
    topic, wanted = _text(words[1]), words[2]
    place = wanted.decode("ascii", "replace").lower()
    if place in (FIRST, NEXT):
        offset = 0
    else:
        place, offset = "", _number("the offset", _INT64_MAX)(wanted)
    if len(words) == 3:
        return Fetch(topic, offset, place)
    options = _RawOptions(words[3:])
    partition = options.take("partition", _number("partition", _INT32_MAX)) or 0
    wait_ms = options.take("wait", _number("wait", _INT32_MAX)) or 0
    isolation = options.take("isolation", _choice("isolation", "committed", "uncommitted"))
    form = options.take("form", _choice("form", "short", "full"))
    options.check_empty("FETCH")
    level = Isolation.READ_UNCOMMITTED if isolation == "uncommitted" else Isolation.READ_COMMITTED
    return Fetch(topic, offset, place, partition, wait_ms, level, form == "full")


class _RawOptions:
    """The `name=value` arguments of one line, removed as they are read."""

    def __init__(self, words: list[bytes]) -> None:
        self._values: dict[str, bytes] = {}
        self._headers: list[Header] = []
        for word in words:
            name, equals, value = word.partition(b"=")
            if name.startswith(_HEADER):
                header = _text(unquote_to_bytes(name.removeprefix(_HEADER)))
                self._headers.append(Header(header, unquote_to_bytes(value) if equals else None))
                continue
            if not equals:
                raise Malformed(f"{_shown(word)}: arguments after the second must be name=value")
            if _text(name) in self._values:
                raise Malformed(f"{_shown(name)} is given twice")
            self._values[_text(name)] = value

    def take(self, name: str, read: Callable[[bytes], T]) -> T | None:
        value = self._values.pop(name, None)
        return None if value is None else read(value)

    def headers(self) -> tuple[Header, ...]:
        headers, self._headers = self._headers, []
        return tuple(headers)

    def check_empty(self, command: str) -> None:
        for name in [*self._values, *(f"header.{one.key}" for one in self._headers)]:
            raise Malformed(f"{command} takes no {name}; HELP lists its arguments")


def _number(name: str, high: int) -> Callable[[bytes], int]:
    def read(word: bytes) -> int:
        if not _NUMBER.fullmatch(word) or int(word) > high:
            raise Malformed(f"{name} must be an integer from 0 to {high}, not {_shown(word)}")
        return int(word)

    return read


def _choice(name: str, *allowed: str) -> Callable[[bytes], str]:
    def read(word: bytes) -> str:
        if (chosen := word.decode("ascii", "replace").lower()) not in allowed:
            raise Malformed(f"{name} must be {' or '.join(allowed)}, not {_shown(word)}")
        return chosen

    return read


def _text(word: bytes) -> str:
    try:
        return word.decode()
    except UnicodeDecodeError:
        raise Malformed(f"{_shown(word)} is not UTF-8") from None


def _shown(word: bytes) -> str:
    """A client's word for an error message: printable and truncated."""
    return ascii(word[:60].decode("utf-8", "backslashreplace"))
