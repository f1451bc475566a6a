"""Writes of transactional producers that are not in the log yet although somebody has vouched for their transaction.

A marker that arrives before such a write makes it void: it has ended that transaction, no other marker will come for
it, and the write would begin one that never ends.
"""

from __future__ import annotations


class MarkerGuard:
    """One write on its way, in the producer's given epoch."""

    __slots__ = ("epoch", "is_void")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.is_void = False


class MarkerGuards:
    """The writes that are on their way to one partition, by producer."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: dict[int, list[MarkerGuard]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._open.values()))

    def begin(self, producer_id: int, epoch: int) -> MarkerGuard:
        """Before the coordinator is asked. Every guard must be ended."""
        guard = MarkerGuard(epoch)
        self._open.setdefault(producer_id, []).append(guard)
        return guard

    def end(self, producer_id: int, guard: MarkerGuard) -> None:
        """The write was made or given up."""
        found = self._open.get(producer_id, [])
        if guard in found:
            found.remove(guard)
            if not found:
                del self._open[producer_id]

    def void(self, producer_id: int, marker_epoch: int, *, is_bumped: bool) -> None:
        """A marker has ended the producer's transaction here. `is_bumped`: its epoch is one above that of the
        transaction, and may be that of the next one."""
        ended_epoch = marker_epoch - 1 if is_bumped else marker_epoch
        for guard in self._open.get(producer_id, ()):
            guard.is_void |= guard.epoch <= ended_epoch

    def void_all(self) -> None:
        """Somebody else may write markers now."""
        for guards in self._open.values():
            for guard in guards:
                guard.is_void = True
