"""Stores batches of any size in etcd. Large ones are written in chunks first; the transaction that names them commits
them.

Chunks that no entry and no snapshot names were left by a writer that died or lost a race. A batch that is just being
written looks the same. Both sides compare: a writer commits only if all of its chunks are still there, and they are
removed only if nothing was committed since the names were read. To spare writers the repetition, `remove_abandoned`
removes only what it has seen twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.core.errors import TooLarge, TornSegment
from penstock.core.ports import Rng
from penstock.node.cluster.etcd_layout import (
    CHUNK_BYTES,
    CHUNK_ID_BYTES,
    CHUNKS_MAX,
    Keys,
    LogPosition,
    Stored,
    encode_stored,
)
from penstock.node.etcd.client import CompactedAway, EtcdClient
from penstock.wire.etcd.messages import Comparison, delete, exists, put

LISTED_MAX = 10_000
"""Chunk keys that one clean-up looks at."""


class Staged(NamedTuple):
    """A batch ready to be committed: the value for its key, and what the committing transaction must compare."""

    value: bytes
    comparisons: list[Comparison]


class EtcdBatches:
    """The batches of one log."""

    def __init__(self, client: EtcdClient, keys: Keys, rng: Rng) -> None:
        self._client = client
        self._keys = keys
        self._rng = rng
        self._suspects: set[bytes] = set()
        """Chunk ids that nothing named at the last clean-up."""

    async def stage(self, position: LogPosition, batch: bytes) -> Staged:
        """Write the chunks of a large batch. Raises TooLarge."""
        if len(batch) <= CHUNK_BYTES:
            return Staged(encode_stored(Stored(position, batch)), [])
        chunks = [batch[start : start + CHUNK_BYTES] for start in range(0, len(batch), CHUNK_BYTES)]
        if len(chunks) > CHUNKS_MAX:
            raise TooLarge(
                f"a snapshot of the metadata has {len(batch)} bytes, at most {CHUNKS_MAX * CHUNK_BYTES} fit into etcd:"
                " delete topics, or settings of groups, that are not needed"
            )
        chunk_id = self._rng.bytes(CHUNK_ID_BYTES)
        keys = [self._keys.chunk(chunk_id, number) for number in range(len(chunks))]
        for key, chunk in zip(keys, chunks, strict=True):
            await self._client.txn([], [put(key, chunk)])
        stored = Stored(position, b"", len(chunks), chunk_id)
        return Staged(encode_stored(stored), [exists(key) for key in keys])

    async def load(self, stored: Stored, revision: int) -> bytes | CompactedAway:
        """The batch as it was at this revision. Raises TornSegment if chunks are missing."""
        if not stored.chunk_count:
            return stored.batch
        chunks = []
        for number in range(stored.chunk_count):
            found = await self._client.range(self._keys.chunk(stored.chunk_id, number), revision=revision)
            if isinstance(found, CompactedAway):
                return found
            if found.first is None:
                raise TornSegment(
                    f"chunk {number} of the metadata log's entry at index {stored.position.index} is missing in etcd:"
                    " restore etcd from a snapshot"
                )
            chunks.append(found.first.value)
        return b"".join(chunks)

    async def remove(self, stored: Iterable[Stored]) -> None:
        """Remove the chunks of batches that nothing names any more."""
        for one in stored:
            if one.chunk_count:
                await self._remove(one.chunk_id)

    async def remove_abandoned(self, named: Iterable[Stored], is_unchanged: Sequence[Comparison]) -> None:
        """Remove chunks that nothing named at the last clean-up, nor now.

        `is_unchanged` compares that nothing was committed since `named` was read.
        """
        found = await self._client.range(
            self._keys.chunks_start, self._keys.chunks_end, limit=LISTED_MAX, is_keys_only=True
        )
        assert not isinstance(found, CompactedAway), "the present cannot be compacted"
        listed = self._keys.chunk_ids([kv.key for kv in found.kvs])
        unnamed = listed - {one.chunk_id for one in named}
        for chunk_id in sorted(unnamed & self._suspects):
            await self._remove(chunk_id, is_unchanged)
        self._suspects = unnamed

    async def _remove(self, chunk_id: bytes, compare: Sequence[Comparison] = ()) -> None:
        await self._client.txn(compare, [delete(*self._keys.chunk_range(chunk_id))])
