"""Encodes long JSON lists row by row, yielding in between. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any

UNITS_PER_YIELD = 32
"""A unit is about ten microseconds, as for all sliced work."""

ROWS_PER_UNIT = 2
BYTES_PER_UNIT = 1 << 10

Encode = Callable[[Any], bytes]


def encode_list(rows: Iterable[Any], encode: Encode) -> Generator[int, None, bytes]:
    """A list. Yields the cost so far."""
    pieces: list[bytes] = []
    cost = 0
    for row in rows:
        piece = encode(row)
        pieces.append(piece)
        cost += BYTES_PER_UNIT // ROWS_PER_UNIT + len(piece)
        if cost >= UNITS_PER_YIELD * BYTES_PER_UNIT:
            yield cost // BYTES_PER_UNIT
            cost = 0
    return b"".join((b"[", b",".join(pieces), b"]"))


def encode_listing(
    head: Mapping[str, Any],
    name: str,
    rows: Iterable[Any],
    encode: Encode,
    tail: Mapping[str, Any] | None = None,
) -> Generator[int, None, bytes]:
    """An object: the fields of `head`, the list `name`, the fields of `tail`."""
    listed = yield from encode_list(rows, encode)
    before = encode(dict(head))[1:-1]
    after = encode(dict(tail or {}))[1:-1]
    field = b":".join((encode(name), listed))
    return b"".join((b"{", b",".join(filter(None, (before, field, after))), b"}"))
