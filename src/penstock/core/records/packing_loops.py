"""The loops over rows that packing spends its time in. Never decides anything; compiled and plain do the same."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.core.records.murmur2 import MULTIPLIER, SEED
from penstock.core.records.varint import encode as encode_varint

_WORD_BYTES = 4


def encode_rows(
    rows: Any, order: Any, begin: int, first_delta: int, base_ms: int, room: int, takes_one: bool
) -> tuple[bytes, int]:
    """Rows `order[begin:]` as records, as long as they fit into `room` bytes; the first one even if it does not.

    Returns the bytes and where in `order` to go on.
    """
    out = bytearray()
    at = begin
    keys, values, headers, times_ms = rows
    for at, row in enumerate(order[begin:].tolist(), begin):
        body = b"\0%b%b%b%b%b" % (
            encode_varint(int(times_ms[row]) - base_ms),
            encode_varint(first_delta + at - begin),
            _nullable(keys, row),
            _nullable(values, row),
            bytes(headers.data[headers.starts[row] : headers.starts[row] + headers.lengths[row]]),
        )
        record = encode_varint(len(body)) + body
        if len(out) + len(record) > room and (out or not takes_one):
            return bytes(out), at
        out += record
    return bytes(out), at + 1


def _nullable(blobs: Any, row: int) -> bytes:
    length = int(blobs.lengths[row])
    start = int(blobs.starts[row])
    return b"\x01" if length < 0 else encode_varint(length) + bytes(blobs.data[start : start + length])


def hash_rows(data: Any, starts: Any, lengths: Any) -> Any:
    """Kafka's hash of the bytes of each row, unsigned; all rows are hashed word by word at the same time."""
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
    """Numbers of `count` bytes, the lowest first, that begin at these places."""
    number = octets[at].astype(np.uint32)
    for byte in range(1, count):
        number |= octets[at + byte].astype(np.uint32) << np.uint32(8 * byte)
    return number
