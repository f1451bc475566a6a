"""Damaged parts of a partition: logs each once. Readers decide how to continue."""

from __future__ import annotations

import logging
from typing import TypeGuard

from penstock.core.errors import CorruptBatch, TornSegment

logger = logging.getLogger("penstock.partition")

REPORTED_MAX = 1_000
"""Reported parts remembered per partition; beyond it the oldest may be reported again."""


def is_damage(error: object) -> TypeGuard[CorruptBatch | TornSegment]:
    """Whether bytes of a log are wrong or missing, rather than its disk out of order."""
    return isinstance(error, CorruptBatch | TornSegment)


class Damage:
    """The unreadable parts of one partition that were reported."""

    __slots__ = ("_partition", "_reported", "_topic")

    def __init__(self, topic: str, partition: int) -> None:
        self._topic = topic
        self._partition = partition
        self._reported: dict[object, None] = {}

    def skip(self, offset: int, next_offset: int, why: object) -> None:
        """A reader skips records because their batch cannot be decoded."""
        if self._is_new(offset):
            logger.error(
                "cannot decode records %d to %d, readers skip them: %s",
                offset,
                next_offset - 1,
                why,
                extra=self._fields(offset),
            )

    def refuse(self, offset: int, why: object) -> None:
        """A read of whole batches fails because a batch does not match its checksum."""
        if self._is_new(("checksum", offset)):
            logger.error(
                "batch does not match its checksum, reads of it fail: %s", why, extra=self._fields(offset)
            )

    def retain(self, why: str) -> None:
        """Compaction retains a batch unchanged because it cannot be decoded."""
        if self._is_new(why):
            logger.warning(
                "compaction retained a damaged batch: %s",
                why,
                extra={"topic": self._topic, "partition": self._partition},
            )

    def _fields(self, offset: int) -> dict[str, str | int]:
        return {"topic": self._topic, "partition": self._partition, "offset": offset}

    def _is_new(self, place: object) -> bool:
        if place in self._reported:
            return False
        self._reported[place] = None
        if len(self._reported) > REPORTED_MAX:
            del self._reported[next(iter(self._reported))]
        return True
