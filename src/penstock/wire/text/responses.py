"""Encodes the text door's responses. Lines end in CR LF; an error is always one line."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote_from_bytes

from penstock.core.model import Record

END = b"\r\n"
BYE = b"BYE\r\n"

HELP = (
    "PUB <topic> <size> [partition=N] [key=K] [time=MS] [header.NAME=V] [value=none]  then <size> bytes",
    "FETCH <topic> <offset|first|next> [partition=N] [wait=MS] [isolation=uncommitted] [form=full]",
    "TOPICS",
    "HELP",
    "QUIT",
)


def encode_ok(offset: int, partition: int | None = None) -> bytes:
    """The offset of a stored message, and its partition if the broker chose it."""
    return b"OK %d\r\n" % offset if partition is None else b"OK %d partition=%d\r\n" % (offset, partition)


def encode_text_message(record: Record, partition: int | None = None) -> bytes:
    """A message; with a partition also its time, key and headers."""
    value = record.value or b""
    head = b"MSG %d %d" % (record.offset, len(value))
    if partition is not None:
        head += b" partition=%d time=%d" % (partition, record.timestamp_ms)
        if record.value is None:
            head += b" value=none"
        if record.key is not None:
            head += b" key=" + _quoted(record.key)
        for name, content in record.headers:
            head += b" header." + _quoted(name.encode())
            if content is not None:
                head += b"=" + _quoted(content)
    return b"".join((head, END, value, END))


def encode_error(code: str, message: str) -> bytes:
    """`ERR <code> <message>`, one line whatever the message are."""
    return f"ERR {code} {' '.join(message.split())}\r\n".encode("utf-8", "backslashreplace")


def encode_lines(name: str, lines: Sequence[str]) -> bytes:
    """A list: its name, the number of lines, and the lines."""
    return "".join(f"{line}\r\n" for line in (f"{name} {len(lines)}", *lines)).encode()


def _quoted(content: bytes) -> bytes:
    return quote_from_bytes(content, safe="").encode()
