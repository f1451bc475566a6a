"""Which partition each row goes to: the one it names, that of its key, or for rows without either the one of the hour.

Never looks at values, and never keeps rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.core.records.batch_builder import NULL, BatchBuilderLoops, Blobs

_POSITIVE = 0x7FFFFFFF


class PartitionRouter:
    """The partitions of one topic. Rows without a key stay with one partition until `turn` is called."""

    __slots__ = ("_loops", "_partitions", "_sticky")

    def __init__(self, loops: BatchBuilderLoops, partitions: int, start: int) -> None:
        self._loops = loops
        self._partitions = partitions
        self._sticky = start % partitions

    def turn(self) -> None:
        """Let the next partition have the rows without a key."""
        self._sticky = (self._sticky + 1) % self._partitions

    @property
    def sticky(self) -> int:
        """The partition that has the rows without a key now."""
        return self._sticky

    def route(self, keys: Blobs, named: Any | None = None) -> Any:
        """A partition for each row. `named` are those that rows ask for; negative is no wish."""
        chosen = np.full(len(keys.lengths), self._sticky, np.int64)
        keyed = np.flatnonzero(keys.lengths != NULL)
        if len(keyed):
            hashed = self._loops.hash_rows(keys.data, keys.starts[keyed], keys.lengths[keyed])
            chosen[keyed] = (hashed & np.uint32(_POSITIVE)) % np.uint32(self._partitions)
        if named is not None:
            np.copyto(chosen, named, where=named >= 0)
        return chosen

    def is_there(self, partition: int) -> bool:
        """Does the topic have this partition?"""
        return 0 <= partition < self._partitions


def grouped(partitions: Any) -> list[tuple[int, Any]]:
    """The rows of each partition, in their order."""
    if not len(partitions):
        return []
    order = np.argsort(partitions, kind="stable")
    in_order = partitions[order]
    cuts = np.flatnonzero(np.diff(in_order)) + 1
    return [(int(partitions[rows[0]]), rows) for rows in np.split(order, cuts)]
