"""The Kafka door.

Listens, admits connections within the limits, closes idle ones, drains before it shuts. Never reads a
request.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter

from penstock.doors.kafka.connection import Connection
from penstock.doors.kafka.dispatch import Dispatch
from penstock.doors.kafka.intake import Budget
from penstock.node.addresses import Address
from penstock.node.broker import Broker

logger = logging.getLogger("penstock.kafka")

BACKLOG = 1024
SWEEP_S_MAX = 5.0
SWEEP_S_MIN = 0.05
DRAIN_STEP_S = 0.01


class KafkaDoor:
    """One listening address."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._settings = broker.settings
        self._loop = asyncio.get_running_loop()
        self._budget = Budget(self._settings.inflight_bytes_max)
        self._connections: dict[Connection, None] = {}
        self._by_address: Counter[str] = Counter()
        self._server: asyncio.Server | None = None
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._dispatch = Dispatch(broker)

    async def open(self) -> Address:
        """Start listening; returns the address with its real port. OSError when it cannot."""
        self._server = await self._loop.create_server(
            self._make_connection,
            self._settings.host,
            self._settings.port,
            backlog=BACKLOG,
            start_serving=False,
        )
        listening = self._server.sockets[0]
        self._apply_buffer_sizes()
        return Address(self._settings.host, listening.getsockname()[1])

    async def serve(self, advertised: Address) -> None:
        """Accept connections; clients are told to come to `advertised`."""
        assert self._server is not None
        self._dispatch.advertise(advertised)
        await self._server.start_serving()
        self._sweep_soon()

    def _make_connection(self) -> Connection:
        return Connection(self._loop, self._settings, self._budget, self._dispatch.handle, self)

    def _apply_buffer_sizes(self) -> None:
        """Sizes set on the listening socket pass to every connection that it accepts."""
        assert self._server is not None
        sizes = {
            socket.SO_RCVBUF: self._settings.socket_receive_bytes,
            socket.SO_SNDBUF: self._settings.socket_send_bytes,
        }
        for listening in self._server.sockets:
            for option, size in sizes.items():
                if size:
                    listening.setsockopt(socket.SOL_SOCKET, option, size)

    # -- connections

    def admit(self, connection: Connection) -> bool:
        """Take a connection in, unless there are too many."""
        settings = self._settings
        why = None
        if len(self._connections) >= settings.connections_max:
            why = f"there are {settings.connections_max} connections already (connections_max)"
        elif self._by_address[connection.address] >= settings.connections_per_address_max:
            why = (
                f"there are {settings.connections_per_address_max} connections from that address already"
                " (connections_per_address_max)"
            )
        if why is not None:
            logger.warning("refusing a connection: %s", why, extra={"peer": connection.peer})
            return False
        self._connections[connection] = None
        self._by_address[connection.address] += 1
        return True

    def forget(self, connection: Connection) -> None:
        if connection in self._connections:
            del self._connections[connection]
            self._by_address[connection.address] -= 1
            if not self._by_address[connection.address]:
                del self._by_address[connection.address]

    def _sweep_soon(self) -> None:
        """Look often enough for the shortest of the limits."""
        shortest_s = min(self._settings.idle_ms_max, self._settings.frame_ms_max) / 1000
        self._sweep_timer = self._loop.call_later(
            min(SWEEP_S_MAX, max(SWEEP_S_MIN, shortest_s / 2)), self._sweep
        )

    def _sweep(self) -> None:
        """Close connections on which nothing has moved for too long, or that never finish a request; take back large
        buffers from quiet ones."""
        now = self._loop.time()
        idle_s_max = self._settings.idle_ms_max / 1000
        overdue = self._overdue(now)
        for connection in list(self._connections):
            silent_s = now - connection.active_at
            if connection in overdue:
                unfinished_s = connection.unfinished_s(now)
                connection.close(f"a request was not complete after {unfinished_s:.1f} s (frame_ms_max)")
            elif silent_s > idle_s_max:
                connection.close(f"nothing moved for {silent_s:.1f} s (idle_ms_max)")
            elif silent_s > SWEEP_S_MAX:
                connection.shrink()
        self._sweep_soon()

    def _overdue(self, now: float) -> set[Connection]:
        """The connections whose request has been coming in for too long. Those that wait for shared memory are spared
        while others go, and then the older half goes first: the room that is given back may be all they need."""
        frame_s_max = self._settings.frame_ms_max / 1000
        late = [one for one in self._connections if one.unfinished_s(now) > frame_s_max]
        late.sort(key=lambda one: one.unfinished_s(now), reverse=True)
        waiting = [one for one in late if one.is_waiting_for_room]
        going = 0 if len(waiting) < len(late) else (len(waiting) + 1) // 2
        return set(late) - set(waiting[going:])

    async def close(self) -> None:
        """Stop listening, let what is in flight finish within the limit, then end every connection."""
        if self._server is None:
            return
        self._server.close()
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        self._dispatch.release_waiting()
        deadline = self._loop.time() + self._settings.drain_ms_max / 1000
        while self._loop.time() < deadline and not all(one.is_quiet for one in self._connections):
            await asyncio.sleep(DRAIN_STEP_S)
        for connection in list(self._connections):
            connection.hang_up()
