"""How the metadata log is laid out in etcd: keys, and the values of the head, of entries and of snapshots. No I/O.

    <prefix>/cluster              the cluster's id
    <prefix>/head                 the end of the log: index and digest
    <prefix>/log/<index>          one append, by the index at which it was made
    <prefix>/snapshot             the whole state at an index; entries before it may be removed
    <prefix>/chunk/<id>/<number>  parts of an entry or snapshot that is too large for one value
    <prefix>/session/<name>       a live session, bound to a lease

The digest chains all appends, so two logs that share an index but not their history are told apart.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from penstock.core.errors import TornSegment
from penstock.wire.etcd.messages import prefix_end

CHUNK_BYTES = 1 << 20
"""etcd accepts requests of 1.5 MiB unless configured otherwise."""
CHUNKS_MAX = 64
"""Each chunk takes one comparison of the committing transaction; etcd allows 128."""
CHUNK_ID_BYTES = 16

_DIGEST_BYTES = 8
_VERSION = 1
_STORED = struct.Struct(f">BQ{_DIGEST_BYTES}sH")
_HEAD = re.compile(rb"([0-9]{1,20}) ([0-9a-f]{%d})" % (2 * _DIGEST_BYTES))


@dataclass(frozen=True, slots=True)
class LogPosition:
    """A place in one history of the log: the index, and the digest of all appends before it."""

    index: int
    digest: bytes

    def after(self, batch: bytes | bytearray, count: int) -> LogPosition:
        """The position behind an append of `count` events."""
        digest = blake2b(self.digest, digest_size=_DIGEST_BYTES)
        digest.update(batch)
        return LogPosition(self.index + count, digest.digest())


START = LogPosition(0, bytes(_DIGEST_BYTES))


class Stored(NamedTuple):
    """The value of an entry (at the position before its append) or of a snapshot (at the position that it describes).

    A large batch is in chunks; `batch` is empty then.
    """

    position: LogPosition
    batch: bytes
    chunk_count: int = 0
    chunk_id: bytes = b""


class Keys:
    """The keys of one cluster."""

    def __init__(self, prefix: str) -> None:
        self._root = root = prefix.encode("ascii") + b"/"
        self.cluster = root + b"cluster"
        self.head = root + b"head"
        self.snapshot = root + b"snapshot"
        self.log_start, self.log_end = root + b"log/", prefix_end(root + b"log/")
        self.chunks_start, self.chunks_end = root + b"chunk/", prefix_end(root + b"chunk/")
        self.sessions_start, self.sessions_end = root + b"session/", prefix_end(root + b"session/")

    def entry(self, index: int) -> bytes:
        return self.log_start + b"%020d" % index

    def chunk(self, chunk_id: bytes, number: int) -> bytes:
        return self.chunks_start + chunk_id.hex().encode() + b"/%06d" % number

    def chunk_range(self, chunk_id: bytes) -> tuple[bytes, bytes]:
        """The range of all chunks with this id."""
        start = self.chunks_start + chunk_id.hex().encode() + b"/"
        return start, prefix_end(start)

    def chunk_ids(self, keys: Sequence[bytes]) -> set[bytes]:
        """The ids in keys of chunks."""
        parts = (key.removeprefix(self.chunks_start).split(b"/")[0] for key in keys)
        return {bytes.fromhex(part.decode("ascii")) for part in parts}

    def session(self, name: str) -> bytes:
        return self.sessions_start + name.encode()

    def session_name(self, key: bytes) -> str:
        return key.removeprefix(self.sessions_start).decode()


def encode_head(position: LogPosition) -> bytes:
    return b"%d %s" % (position.index, position.digest.hex().encode())


def decode_head(value: bytes) -> LogPosition:
    """Raises TornSegment."""
    match = _HEAD.fullmatch(value)
    if match is None:
        raise TornSegment(
            f"the head of the metadata log in etcd is {value[:80]!r}, which this version cannot read"
        )
    return LogPosition(int(match[1]), bytes.fromhex(match[2].decode()))


def encode_stored(stored: Stored) -> bytes:
    fixed = _STORED.pack(_VERSION, stored.position.index, stored.position.digest, stored.chunk_count)
    return fixed + (stored.chunk_id if stored.chunk_count else stored.batch)


def decode_stored(key: bytes, value: bytes) -> Stored:
    """Raises TornSegment."""
    if len(value) < _STORED.size or value[0] != _VERSION:
        raise TornSegment(
            f"{key.decode(errors='replace')} in etcd has a format that this version cannot read"
        )
    _, index, digest, chunk_count = _STORED.unpack_from(value)
    rest, position = value[_STORED.size :], LogPosition(index, digest)
    if not chunk_count:
        return Stored(position, rest)
    if len(rest) != CHUNK_ID_BYTES or chunk_count > CHUNKS_MAX:
        raise TornSegment(f"{key.decode(errors='replace')} in etcd names its chunks wrongly")
    return Stored(position, b"", chunk_count, rest)
