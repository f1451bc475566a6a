"""Selects a partition for each row: the one it names, that of its key, or else the current sticky partition.

Never reads values or buffers rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.core.records.batch_builder import NULL, BatchBuilderLoops, Blobs

_POSITIVE = 0x7FFFFFFF


class PartitionRouter:
    """The partitions of one topic. Rows without a key go to one sticky partition until `turn` is called."""

    __slots__ = ("_loops", "_partitions", "_sticky")

    def __init__(self, loops: BatchBuilderLoops, partitions: int, start: int) -> None:
        self._loops = loops
        self._partitions = partitions
        self._sticky = start % partitions

    def turn(self) -> None:
        """Switch rows without a key to the next partition."""
        self._sticky = (self._sticky + 1) % self._partitions

    @property
    def sticky(self) -> int:
        """The current partition for rows without a key."""
        return self._sticky

    def route(self, keys: Blobs, named: Any | None = None) -> Any:
        """A partition for each row. `named` are the partitions that rows name; negative means none."""
        chosen = np.full(len(keys.lengths), self._sticky, np.int64)
        keyed = np.flatnonzero(keys.lengths != NULL)
        if len(keyed):
            hashed = self._loops.hash_rows(keys.data, keys.starts[keyed], keys.lengths[keyed])
            chosen[keyed] = (hashed & np.uint32(_POSITIVE)) % np.uint32(self._partitions)
        if named is not None:
            np.copyto(chosen, named, where=named >= 0)
        return chosen

    def is_there(self, partition: int) -> bool:
        """Whether the topic has this partition."""
        return 0 <= partition < self._partitions


def grouped(partitions: Any) -> list[tuple[int, Any]]:
    """The rows of each partition, in order."""
    if not len(partitions):
        return []
    order = np.argsort(partitions, kind="stable")
    in_order = partitions[order]
    cuts = np.flatnonzero(np.diff(in_order)) + 1
    return [(int(partitions[rows[0]]), rows) for rows in np.split(order, cuts)]
