"""The loops of `batch_builder` in plain Python and numpy.

`batch_builder_compiled` has the same functions and must give the same results.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from penstock.core.records.murmur2 import MULTIPLIER, SEED
from penstock.core.records.payload import RECORD_BYTES_MIN
from penstock.core.records.varint import encode as encode_varint

_WORD_BYTES = 4


def encode_rows(
    rows: Any, order: Any, begin: int, first_delta: int, base_ms: int, room: int, takes_one: bool
) -> tuple[bytes, int]:
    """Rows `order[begin:]` encoded as records while they fit into `room` bytes; with `takes_one` at least one.

    Returns the bytes and the next index in `order`.
    """
    chosen = order[begin : begin + max(room, 0) // RECORD_BYTES_MIN + 1]
    parts: list[bytes] = []
    used = 0
    keys, values = _framed(rows.keys, chosen), _framed(rows.values, chosen)
    headers = _cut(rows.headers, chosen)
    deltas_ms = (rows.times_ms[chosen] - base_ms).tolist()
    delta = first_delta
    for key, value, named, delta_ms in zip(keys, values, headers, deltas_ms, strict=True):
        body = b"\0%b%b%b%b%b" % (encode_varint(delta_ms), encode_varint(delta), key, value, named)
        record = encode_varint(len(body)) + body
        if used + len(record) > room and (parts or not takes_one):
            break
        parts.append(record)
        used += len(record)
        delta += 1
    return b"".join(parts), begin + len(parts)


def _cut(blobs: Any, chosen: Any) -> Iterator[bytes]:
    """The bytes of each of these rows; empty for nulls."""
    data = memoryview(blobs.data)
    for start, length in zip(blobs.starts[chosen].tolist(), blobs.lengths[chosen].tolist(), strict=True):
        yield bytes(data[start : start + max(length, 0)])


def _framed(blobs: Any, chosen: Any) -> Iterator[bytes]:
    """The same, each prefixed with its length."""
    for content, length in zip(_cut(blobs, chosen), blobs.lengths[chosen].tolist(), strict=True):
        yield encode_varint(length) + content


def hash_rows(data: Any, starts: Any, lengths: Any) -> Any:
    """Kafka's hash of each row, unsigned; all rows are hashed in parallel, word by word."""
    octets = np.frombuffer(data, np.uint8)
    by_length = np.argsort(-lengths, kind="stable")
    starts, lengths = starts[by_length], lengths[by_length]
    hashed = (np.uint32(SEED) ^ lengths.astype(np.uint32)).astype(np.uint32)
    words = lengths // _WORD_BYTES
    for word in range(int(words[0]) if len(words) else 0):
        active = int(np.searchsorted(-words, -word, side="left"))
        at = starts[:active] + word * _WORD_BYTES
        mixed = _little(octets, at, _WORD_BYTES) * np.uint32(MULTIPLIER)
        mixed = (mixed ^ mixed >> np.uint32(24)) * np.uint32(MULTIPLIER)
        hashed[:active] = hashed[:active] * np.uint32(MULTIPLIER) ^ mixed
    for rest in range(1, _WORD_BYTES):
        rows = np.flatnonzero(lengths % _WORD_BYTES == rest)
        tail = _little(octets, starts[rows] + lengths[rows] - rest, rest)
        hashed[rows] = (hashed[rows] ^ tail) * np.uint32(MULTIPLIER)
    hashed = (hashed ^ hashed >> np.uint32(13)) * np.uint32(MULTIPLIER)
    in_order = np.empty_like(hashed)
    in_order[by_length] = hashed ^ hashed >> np.uint32(15)
    return in_order


def _little(octets: Any, at: Any, count: int) -> Any:
    """Little-endian integers of `count` bytes at these positions."""
    number = octets[at].astype(np.uint32)
    for byte in range(1, count):
        number |= octets[at + byte].astype(np.uint32) << np.uint32(8 * byte)
    return number
