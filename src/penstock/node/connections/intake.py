"""The receive buffer of one connection, split into frames.

Validates every length, and asks the shared budget before it grows.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.node.connections.framing import HEAD_BYTES_MAX, Framing

FIRST_BYTES = 1 << 14
ORDINARY_BYTES = 1 << 18
AT_ONCE_BYTES = 2 << 20
"""Buffers for frames up to this size are allocated at once, larger ones as bytes arrive; all do when memory is
tight."""

assert HEAD_BYTES_MAX < FIRST_BYTES, "the first buffer must hold the head of any frame"


class Budget:
    """Shared limit of buffer memory beyond each connection's first buffer."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._used_bytes = 0
        self._waiting: dict[Callable[[], None], None] = {}

    def fits(self, count: int) -> bool:
        return self._used_bytes + count <= self.bytes_max

    def change(self, count: int) -> None:
        """Account for a buffer that grew or shrank; a decrease wakes the connections that wait for memory."""
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
    """One buffer: bytes are received at `_end`, frames are taken from `_start`."""

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
        """Number of frames taken: distinguishes one incomplete frame from the next."""

    def room(self) -> memoryview:
        """Space for the next bytes; never empty."""
        return self._view[self._end :]

    def received(self, count: int) -> bool:
        """Account for received bytes; True if they fill the buffer."""
        self._end += count
        return self._end == len(self._buffer)

    @property
    def held_bytes(self) -> int:
        """Bytes received and not yet taken as a frame."""
        return self._end - self._start

    def held(self) -> bytes:
        """The bytes that are not taken as a frame."""
        return bytes(self._view[self._start : self._end])

    @property
    def is_large(self) -> bool:
        """Whether the incomplete frame is larger than what is allocated at once."""
        return self._begun_bytes() > AT_ONCE_BYTES

    def _begun_bytes(self) -> int:
        """Size of the incomplete frame, if known."""
        return self._size(self._buffer, self._start, self._end, self._frame_bytes_max)

    def take(self) -> memoryview | None:
        """The next complete frame, or None. It is valid until the next call."""
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
        """Move or grow the buffer so that more can be received; False if the budget does not allow it now."""
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
        """Wanted buffer size for the incomplete frame."""
        frame = self._begun_bytes() or FIRST_BYTES
        at_once = FIRST_BYTES if self._budget.is_tight else AT_ONCE_BYTES
        return frame if frame <= at_once else min(frame, max(at_once, held * 2))

    def widen(self) -> None:
        """The sender filled the buffer in one read: grow to the ordinary size if the budget allows."""
        if len(self._buffer) < ORDINARY_BYTES and not self._budget.is_tight:
            self._grow(ORDINARY_BYTES)

    def shrink(self) -> None:
        """The connection is quiet: return to the first buffer size."""
        if self.held_bytes == 0 and len(self._buffer) > FIRST_BYTES:
            self._resize(FIRST_BYTES)

    def _grow(self, wanted: int) -> bool:
        if not self._budget.fits(wanted - len(self._buffer)):
            return False
        self._resize(wanted)
        return True

    def _resize(self, size: int) -> None:
        """Copy the held bytes into a buffer of another size and adjust the budget."""
        held = self._view[self._start : self._end]
        grown = bytearray(size)
        grown[: len(held)] = held
        change = size - len(self._buffer)
        self._buffer, self._view = grown, memoryview(grown)
        self._start, self._end = 0, len(held)
        self._budget.change(change)

    def close(self) -> None:
        """Discard the held bytes and return the memory to the budget."""
        self._start = self._end = 0
        self._resize(FIRST_BYTES)

    def drop(self) -> None:
        """Release the buffer entirely: closed connections may stay referenced for a while."""
        self.close()
        self._buffer = bytearray()
        self._view = memoryview(self._buffer)
