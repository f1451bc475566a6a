"""One direction of one connection: what is under way, bytes and signals mostly. Never touches a protocol."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Generic, TypeVar

from sim.hosts import Host

if TYPE_CHECKING:
    from sim.net import SimNet


class Signal(Enum):
    """What travels besides bytes."""

    EOF = "eof"
    RESET = "reset"


Item = bytes | Signal
ItemT = TypeVar("ItemT")


class Pipe(Generic[ItemT]):
    """Delivers items to `arrive` after a random delay, never out of order; waits while the network is cut."""

    def __init__(self, net: SimNet, source: Host, target: Host, arrive: Callable[[ItemT], None]) -> None:
        self._net = net
        self._arrive = arrive
        self.source = source
        self.target = target
        self.under_way_bytes = 0
        self._items: deque[tuple[float, ItemT]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._stalled = False

    def send(self, item: ItemT) -> None:
        if isinstance(item, bytes):
            self.under_way_bytes += len(item)
        net = self._net
        self._items.append((net.loop.time() + net.latency_s(), item))
        if self._timer is None:
            self._arm()

    def lose_some(self) -> None:
        """Forget a random tail of what is under way, as when the sender loses power."""
        for _ in range(self._net.chance.randint(0, len(self._items))):
            _, item = self._items.pop()
            if isinstance(item, bytes):
                self.under_way_bytes -= len(item)

    def retry(self) -> None:
        """Try again after a stall, a moment later."""
        self._stalled = False
        if self._items:
            _, item = self._items.popleft()
            self._items.appendleft((self._net.loop.time() + self._net.latency_s(), item))
        self._arm()

    def _arm(self) -> None:
        if self._timer is None and self._items and not self._stalled:
            net = self._net
            when = max(self._items[0][0], net.loop.time())
            self._timer = net.loop.call_at(when, self._deliver, context=net.context)

    def _deliver(self) -> None:
        self._timer = None
        if not self._items:
            return
        if self._net.blocks(self.source.name, self.target):
            self._stalled = True
            self._net.stall(self)
            return
        _, item = self._items.popleft()
        if isinstance(item, bytes):
            self.under_way_bytes -= len(item)
        self._arrive(item)
        if self._items:
            self._arm()
