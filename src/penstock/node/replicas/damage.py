"""Reports places of a log that cannot be read, each once. Never decides what a reader does about one."""

from __future__ import annotations

import logging

logger = logging.getLogger("penstock.partition")

REPORTED_MAX = 1_000
"""Places of one partition that are remembered; beyond it the oldest may be reported again."""


class Damage:
    """The unreadable places of one partition that were reported."""

    __slots__ = ("_partition", "_reported", "_topic")

    def __init__(self, topic: str, partition: int) -> None:
        self._topic = topic
        self._partition = partition
        self._reported: dict[object, None] = {}

    def skip(self, offset: int, next_offset: int, why: object) -> None:
        """A reader passes over records because their batch cannot be opened."""
        if self._is_new(offset):
            logger.error(
                "records %d to %d cannot be read, readers skip them: %s",
                offset,
                next_offset - 1,
                why,
                extra=self._fields(offset),
            )

    def refuse(self, offset: int, why: object) -> None:
        """A read of whole batches is refused because one does not match its checksum."""
        if self._is_new(("checksum", offset)):
            logger.error("a damaged batch was not served: %s", why, extra=self._fields(offset))

    def retain(self, why: str) -> None:
        """Compaction leaves something as it is because it cannot be opened."""
        if self._is_new(why):
            logger.warning("compaction: %s", why, extra={"topic": self._topic, "partition": self._partition})

    def _fields(self, offset: int) -> dict[str, str | int]:
        return {"topic": self._topic, "partition": self._partition, "offset": offset}

    def _is_new(self, place: object) -> bool:
        if place in self._reported:
            return False
        self._reported[place] = None
        if len(self._reported) > REPORTED_MAX:
            del self._reported[next(iter(self._reported))]
        return True
