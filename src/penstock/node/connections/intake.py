"""The bytes that came in on one connection, cut into frames.

Never trusts a length; asks the shared budget before it grows.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.node.connections.framing import HEAD_BYTES_MAX, Framing

FIRST_BYTES = 1 << 14
ORDINARY_BYTES = 1 << 18
AT_ONCE_BYTES = 2 << 20
"""Frames up to this size get their room at once, larger ones as their bytes arrive; all do when memory is tight."""

assert HEAD_BYTES_MAX < FIRST_BYTES, "a frame whose size is not known yet has room to go on"


class Budget:
    """Bytes that all connections together may hold in buffers beyond their first few."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._used_bytes = 0
        self._waiting: dict[Callable[[], None], None] = {}

    def fits(self, count: int) -> bool:
        return self._used_bytes + count <= self.bytes_max

    def change(self, count: int) -> None:
        """Account for a buffer that grew, or shrank; whoever waits for room then tries again."""
        self._used_bytes += count
        if count < 0 and self._waiting:
            waiting, self._waiting = self._waiting, {}
            for try_again in waiting:
                try_again()

    def wait(self, try_again: Callable[[], None]) -> None:
        self._waiting[try_again] = None

    @property
    def is_tight(self) -> bool:
        return self._used_bytes * 2 > self.bytes_max


class Intake:
    """One buffer: bytes are received behind `_end`, frames are taken from `_start`."""

    __slots__ = (
        "_budget",
        "_buffer",
        "_end",
        "_frame_bytes_max",
        "_prefix_bytes",
        "_size",
        "_start",
        "_view",
        "taken",
    )

    def __init__(self, budget: Budget, frame_bytes_max: int, framing: Framing) -> None:
        self._budget = budget
        self._size = framing.size
        self._prefix_bytes = framing.prefix_bytes
        self._frame_bytes_max = min(frame_bytes_max, budget.bytes_max)
        self._buffer = bytearray(FIRST_BYTES)
        self._view = memoryview(self._buffer)
        self._start = 0
        self._end = 0
        self.taken = 0
        """How many frames were taken so far: tells one unfinished frame from the next."""

    def room(self) -> memoryview:
        """Where the next bytes go; never empty."""
        return self._view[self._end :]

    def received(self, count: int) -> None:
        self._end += count

    @property
    def held_bytes(self) -> int:
        """Bytes that have come in and are not yet a handled frame."""
        return self._end - self._start

    @property
    def is_large(self) -> bool:
        """Whether the frame that has begun is larger than what is given room at once."""
        return self._begun_bytes() > AT_ONCE_BYTES

    def _begun_bytes(self) -> int:
        """The size of the frame that has begun, if it can be told."""
        return self._size(self._buffer, self._start, self._end, self._frame_bytes_max)

    def take(self) -> memoryview | None:
        """The next whole frame, or None. It is valid until the next call."""
        start, end = self._start, self._end
        if start == end:
            return None
        size = self._size(self._buffer, start, end, self._frame_bytes_max)
        if not 0 < size <= end - start:
            return None
        self._start = start + size
        self.taken += 1
        return self._view[start + self._prefix_bytes : start + size]

    def make_room(self) -> bool:
        """Move or grow so that more can be received; False when the budget does not allow it now."""
        held = self._end - self._start
        if held == 0:
            self._start = self._end = 0
            if len(self._buffer) > ORDINARY_BYTES and self._budget.is_tight:
                self._resize(FIRST_BYTES)
            return True
        wanted = self._wanted_bytes(held)
        if wanted > len(self._buffer):
            return self._grow(wanted)
        if self._start and (self._end == len(self._buffer) or self._start + wanted > len(self._buffer)):
            self._view[:held] = bytes(self._view[self._start : self._end])
            self._start, self._end = 0, held
        return True

    def _wanted_bytes(self, held: int) -> int:
        """How large the buffer should be for the frame that has begun."""
        frame = self._begun_bytes() or FIRST_BYTES
        at_once = FIRST_BYTES if self._budget.is_tight else AT_ONCE_BYTES
        return frame if frame <= at_once else min(frame, max(at_once, held * 2))

    def widen(self) -> None:
        """The sender fills the buffer in one go: give it an ordinary one if there is room."""
        if len(self._buffer) < ORDINARY_BYTES and not self._budget.is_tight:
            self._grow(ORDINARY_BYTES)

    def shrink(self) -> None:
        """Nothing big came lately: give back what is not needed."""
        if self.held_bytes == 0 and len(self._buffer) > FIRST_BYTES:
            self._resize(FIRST_BYTES)

    def _grow(self, wanted: int) -> bool:
        if not self._budget.fits(wanted - len(self._buffer)):
            return False
        self._resize(wanted)
        return True

    def _resize(self, size: int) -> None:
        """Move what is held into a buffer of another size, and settle with the budget."""
        held = self._view[self._start : self._end]
        grown = bytearray(size)
        grown[: len(held)] = held
        change = size - len(self._buffer)
        self._buffer, self._view = grown, memoryview(grown)
        self._start, self._end = 0, len(held)
        self._budget.change(change)

    def close(self) -> None:
        """The connection is gone: give the room back."""
        self._start = self._end = 0
        self._resize(FIRST_BYTES)

    def drop(self) -> None:
        """Nothing will come any more: not even the first bytes are kept. Dead connections may lie about for a while."""
        self.close()
        self._buffer = bytearray()
        self._view = memoryview(self._buffer)
