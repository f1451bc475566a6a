"""Limits shared by all doors: number of connections, memory, idle time. Does not listen or read.

One gate per node: connections of all doors count together.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

from penstock.core.errors import TimedOut
from penstock.node.connections.connection import Connection
from penstock.node.connections.connection_settings import ConnectionSettings
from penstock.node.connections.crowd import Crowd
from penstock.node.connections.heap import trim_heap
from penstock.node.connections.intake import Budget
from penstock.node.runtime.meters import Meters

SWEEP_S_MAX = 5.0
SWEEP_S_MIN = 0.05
DRAIN_STEP_S = 0.01

DEPARTURES_MANY = 500
"""After this many connections have closed, the freed memory of their buffers is returned to the system."""
DEPARTURES_FEW = 50
"""Fewer between two sweeps mean that a wave of departures is over."""


class Gate:
    """Every connection of a node."""

    def __init__(self, settings: ConnectionSettings, meters: Meters | None = None) -> None:
        self.limits = settings
        self._meters = meters or Meters()
        self.budget = Budget(settings.inflight_bytes_max)
        self.crowd = Crowd()
        self.connections: dict[Connection, None] = {}
        self._by_address: Counter[str] = Counter()
        self._departed = 0
        """Connections closed since the heap was last trimmed."""
        self._departed_before = 0
        """Those of them that were closed before the last sweep."""
        self._loop = asyncio.get_running_loop()
        self._sweep_timer: asyncio.TimerHandle | None = None

    # -- admission

    def admit(self, connection: Connection) -> bool:
        """Register a connection; False if a limit is reached."""
        settings = self.limits
        meter = self._meters.door(connection.dialect_name)
        why = None
        if len(self.connections) >= settings.connections_max:
            why = f"the limit of {settings.connections_max} connections is reached (connections_max)"
        elif self._by_address[connection.address] >= settings.connections_per_address_max:
            why = (
                f"the limit of {settings.connections_per_address_max} connections per address is reached"
                " (connections_per_address_max)"
            )
        if why is not None:
            logging.getLogger(f"penstock.{connection.dialect_name}").warning(
                "rejecting connection: %s", why, extra=connection.context
            )
            meter.refused += 1
            return False
        meter.opened += 1
        meter.connections += 1
        self.connections[connection] = None
        self._by_address[connection.address] += 1
        return True

    def forget(self, connection: Connection) -> None:
        if connection in self.connections:
            del self.connections[connection]
            self._departed += 1
            self._meters.door(connection.dialect_name).connections -= 1
            self._by_address[connection.address] -= 1
            if not self._by_address[connection.address]:
                del self._by_address[connection.address]

    # -- sweep

    def watch(self) -> None:
        """Schedule the next sweep, often enough for the shortest time limit."""
        shortest_s = min(self.limits.idle_ms_max, self.limits.frame_ms_max) / 1000
        self._sweep_timer = self._loop.call_later(
            min(SWEEP_S_MAX, max(SWEEP_S_MIN, shortest_s / 2)), self._sweep
        )

    def _sweep(self) -> None:
        """Close idle connections and those with overdue requests; shrink the buffers of quiet ones."""
        now = self._loop.time()
        idle_s_max = self.limits.idle_ms_max / 1000
        overdue = self._overdue(now)
        for connection in list(self.connections):
            silent_s = now - connection.active_at
            if connection in overdue:
                unfinished_s = connection.unfinished_s(now)
                connection.fail(
                    TimedOut(f"the request was incomplete after {unfinished_s:.1f} s (frame_ms_max)")
                )
            elif silent_s > idle_s_max:
                connection.close(f"idle for {silent_s:.1f} s (idle_ms_max)")
            elif silent_s > SWEEP_S_MAX:
                connection.shrink()
        self._trim_after_wave()
        self.watch()

    def _trim_after_wave(self) -> None:
        """Return freed memory once a wave of departures is over. Earlier, the memory of its rest would stay: too few to
        count as many again."""
        lately = self._departed - self._departed_before
        self._departed_before = self._departed
        if self._departed >= DEPARTURES_MANY and lately < DEPARTURES_FEW:
            self._departed = self._departed_before = 0
            trim_heap()

    def _overdue(self, now: float) -> set[Connection]:
        """Connections whose request has been incomplete for too long. Those waiting for shared memory are spared while
        others are closed; otherwise the older half is closed first, since the memory it frees may be all the rest
        needs."""
        frame_s_max = self.limits.frame_ms_max / 1000
        late = [one for one in self.connections if one.unfinished_s(now) > frame_s_max]
        late.sort(key=lambda one: one.unfinished_s(now), reverse=True)
        waiting = [one for one in late if one.is_waiting_for_room]
        going = 0 if len(waiting) < len(late) else (len(waiting) + 1) // 2
        return set(late) - set(waiting[going:])

    # -- shutdown

    async def drain(self) -> None:
        """Wait for requests in flight, up to the limit, then close every connection."""
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        deadline = self._loop.time() + self.limits.drain_ms_max / 1000
        while self._loop.time() < deadline and not all(one.is_quiet for one in self.connections):
            await asyncio.sleep(DRAIN_STEP_S)
        for connection in list(self.connections):
            connection.hang_up()
