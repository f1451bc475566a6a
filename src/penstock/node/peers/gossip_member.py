"""The gossip of a broker: when it begins and ends, whom it contacts, and what it says about the broker.

The port is bound before the broker registers, so that the registration names an address that answers, and nothing is
sent before the broker has joined: a process that is refused must not speak for the broker. Failures are logged and
leave the broker without gossip; it works all the same.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import socket
from collections.abc import Callable, Mapping
from ipaddress import ip_address

from penstock.core.errors import TooLarge
from penstock.core.gossip.messages import PeerChanged
from penstock.core.gossip.peer import PeerState
from penstock.core.machines.cluster.state import ClusterState
from penstock.core.machines.cluster.values import GOSSIP_LISTENER
from penstock.core.model import Address
from penstock.node.connections.addresses import is_loopback, is_wildcard, own_address
from penstock.node.peers.gossip import GossipHost, GossipOptions, GossipSocket, bind_gossip
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.tasks import Tasks

logger = logging.getLogger("penstock.gossip")

PUBLISH_S = 2.0
"""How often the broker looks whether what it says about itself has changed."""
_KEY_LABEL = b"penstock gossip 1"


def gossip_key(link_key: bytes) -> bytes:
    """The key of gossip packets. Derived, so that a packet proves nothing on a link."""
    return hmac.digest(link_key, _KEY_LABEL, "sha256")


class GossipMember:
    """The part of one broker. `addresses` and `load` are what it tells the others about its doors and its load."""

    def __init__(
        self,
        runtime: Runtime,
        broker_id: int,
        cluster_id: str,
        cluster: ClusterState,
        addresses: Callable[[], Mapping[str, str]],
        load: Callable[[], Mapping[str, str]],
    ) -> None:
        self._runtime = runtime
        self._broker_id = broker_id
        self._cluster_id = cluster_id
        self._cluster = cluster
        self._addresses = addresses
        self._load = load
        self._socket: GossipSocket | None = None
        self.address = Address("", 0)
        """Where others reach it, once the port is bound."""
        self._published: Mapping[str, str] | None = None
        self._fits = True
        self._tasks = Tasks()
        self.host: GossipHost | None = None
        """None before `start`."""
        self.on_suspicion: Callable[[int], None] = lambda broker_id: None
        """Called when gossip suspects a broker or reports it as dead."""

    async def bind(self, bind: Address, advertised: Address) -> bool:
        """Bind the port, and find out the IP address of the advertised host. False, with a warning, if that fails."""
        try:
            self._socket = await bind_gossip(bind)
            host = await _reachable_ip(advertised.host, self._socket.bound.host)
        except OSError as error:
            self.close()
            logger.warning(
                "cannot use UDP %s for gossip, continuing without it: %s. Free the port and restart the broker, or turn"
                " gossip off (--no-gossip)",
                bind,
                error.strerror or error,
                extra={"port": bind.port},
            )
            return False
        self.address = Address(host, advertised.port)
        return True

    async def start(self) -> None:
        """Begin, once the broker has joined."""
        link_key = self._cluster.link_key
        assert self._socket is not None and link_key is not None, (
            "the broker has bound its port and registered"
        )
        options = GossipOptions(
            self._broker_id,
            self._cluster_id,
            gossip_key(link_key),
            self._socket.bound,
            advertised_host=self.address.host,
            advertised_port=self.address.port,
            seeds=self._seeds(),
        )
        host = GossipHost(options, self._runtime, self._socket)
        await host.start()
        self.host = host
        host.listeners.append(self._heard)
        self._publish(host)
        self._tasks.spawn(self._publish_forever(host))

    def follow_brokers(self) -> None:
        """Brokers have registered, changed or left."""
        if self.host is not None:
            self.host.set_seeds(self._seeds())

    async def stop(self) -> None:
        """Say goodbye."""
        await self._tasks.stop()
        host, self.host = self.host, None
        if host is not None:
            await host.stop()
        self.close()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _seeds(self) -> tuple[Address, ...]:
        """Brokers that are fenced are left out: the port of one that is gone may be somebody else's."""
        return tuple(
            one.listeners[GOSSIP_LISTENER]
            for one in self._cluster.brokers
            if GOSSIP_LISTENER in one.listeners and not one.is_fenced and one.broker_id != self._broker_id
        )

    def _heard(self, changed: PeerChanged) -> None:
        is_new = changed.before is None or changed.before.state is not changed.after.state
        if is_new and changed.after.state in (PeerState.SUSPECT, PeerState.DEAD):
            self.on_suspicion(changed.after.id)

    # -- attributes

    async def _publish_forever(self, host: GossipHost) -> None:
        while True:
            await asyncio.sleep(PUBLISH_S)
            self._publish(host)

    def _publish(self, host: GossipHost) -> None:
        load = self._load()
        attributes = {**self._addresses(), **load} if self._fits else load
        if attributes == self._published:
            return
        try:
            host.publish(attributes)
        except TooLarge as error:
            self._fits = False
            logger.warning("gossip does not tell the addresses of this broker's doors: %s", error)
            host.publish(load)
            attributes = load
        self._published = attributes


async def _reachable_ip(host: str, bound_host: str) -> str:
    """The IP address of an advertised host, of the same family as the bound address. Raises OSError."""
    family = socket.AF_INET6 if ":" in bound_host else socket.AF_INET
    loop = asyncio.get_running_loop()
    answers = await loop.getaddrinfo(host, None, family=family, type=socket.SOCK_DGRAM)
    found = [str(answer[4][0]) for answer in answers]
    outside = [one for one in found if not ip_address(one).is_loopback]
    if outside:
        return outside[0]
    # Debian maps a machine's own name to 127.0.1.1, where no other machine finds it.
    own = own_address() if is_wildcard(bound_host) and not is_loopback(host) else ""
    return own if _is_ip(own, family) else found[0]


def _is_ip(text: str, family: socket.AddressFamily) -> bool:
    try:
        return (ip_address(text).version == 6) == (family is socket.AF_INET6)
    except ValueError:
        return False
