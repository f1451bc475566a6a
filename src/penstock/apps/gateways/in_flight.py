"""Bounds the records that wait for their acknowledgement: callers wait for room, in the order in which they came."""

from __future__ import annotations

import asyncio
from collections import deque


class InFlight:
    """Records and bytes in flight. A request that is larger than the limit passes when nothing else is in flight."""

    def __init__(self, records_max: int, bytes_max: int) -> None:
        self._records_max = records_max
        self._bytes_max = bytes_max
        self.records = 0
        self.bytes = 0
        self._waiting: deque[tuple[int, int, asyncio.Future[None]]] = deque()

    async def reserve(self, records: int, size: int) -> None:
        """Wait until there is room. Cancelling the wait reserves nothing."""
        if not self._waiting and self._fits(records, size):
            self._add(records, size)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((records, size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release(records, size)
            else:
                self._waiting = deque(one for one in self._waiting if one[2] is not turn)
                self._admit()
            raise

    def release(self, records: int, size: int) -> None:
        """Give room back."""
        self._add(-records, -size)
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._fits(*self._waiting[0][:2]):
            records, size, turn = self._waiting.popleft()
            self._add(records, size)
            turn.set_result(None)

    def _fits(self, records: int, size: int) -> bool:
        if not self.records:
            return True
        return self.records + records <= self._records_max and self.bytes + size <= self._bytes_max

    def _add(self, records: int, size: int) -> None:
        self.records += records
        self.bytes += size
