"""All relays of the door: clients of this broker that are members elsewhere, and clients of other brokers here.

Once a second, while there are any, relays whose other end is fenced or silent are closed: a machine that lost its power
sends no farewell.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from penstock.core.errors import NotCoordinator
from penstock.doors.queue.peer_handshake import PeerHandshake
from penstock.node.connections.connection import Connection
from penstock.node.waist.peers import PeerVerbs

if TYPE_CHECKING:
    from penstock.doors.queue.membership import Membership
    from penstock.doors.queue.relays import ClientRelays

SWEEP_S = 1.0
STOPPING = "the broker is stopping"


class Relaying:
    """The relays of one door."""

    def __init__(self, peers: PeerVerbs) -> None:
        self._peers = peers
        self._relays: dict[ClientRelays, None] = {}
        self._served: dict[Connection, PeerHandshake] = {}
        self._timer: asyncio.TimerHandle | None = None

    def start(self, connection: Connection, membership: Membership) -> ClientRelays:
        """Begin to relay a client of this broker."""
        from penstock.doors.queue.relays import ClientRelays  # a single broker needs none of it

        relays = ClientRelays(self._peers, connection, membership, self._forget)
        self._relays[relays] = None
        self._sweep_later()
        return relays

    def _forget(self, relays: ClientRelays) -> None:
        self._relays.pop(relays, None)

    def serve(self, connection: Connection, handshake: PeerHandshake) -> None:
        """Another broker relays a client to this one."""
        self._served[connection] = handshake
        connection.on_close(partial(self._unserve, connection))
        self._sweep_later()

    def _unserve(self, connection: Connection) -> None:
        self._served.pop(connection, None)

    def _sweep_later(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        self._timer = None
        now_s = asyncio.get_running_loop().time()
        for relays in list(self._relays):
            relays.sweep(now_s)
        for connection, handshake in list(self._served.items()):
            broker_id = handshake.peer_id
            if broker_id is not None and not self._peers.is_running(connection.session, broker_id):
                connection.close(f"broker {broker_id}, which relays this client, is fenced")
        if self._relays or self._served:
            self._sweep_later()

    def release(self) -> None:
        """The doors are closing: end the memberships at other brokers."""
        for relays in list(self._relays):
            relays.release(NotCoordinator(STOPPING))
