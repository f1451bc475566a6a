"""Hosts the gossip machine on a UDP socket: packets in and out, one timer, the incarnation on disk, metrics.

The view of the cluster that it offers is a hint; see `core/gossip`. Gossip keeps running when the disk fails.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from penstock.core.errors import BrokerError, InvalidConfig
from penstock.core.gossip.gossip import Gossip
from penstock.core.gossip.messages import (
    AddressDisputed,
    Envelope,
    GossipAction,
    IncarnationRaised,
    PeerChanged,
    PeerForgotten,
    ProbeAnswered,
    SendPacket,
)
from penstock.core.gossip.peer import GossipPeer, PeerState
from penstock.core.gossip.profile import LAN, GossipProfile
from penstock.core.machine import NEVER_MS
from penstock.core.model import Address
from penstock.node.peers.incarnation import IncarnationFile
from penstock.node.peers.packet_rejects import PacketRejects
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.tasks import Tasks
from penstock.node.runtime.workers import run_blocking
from penstock.wire.gossip.messages import gossip_sizing
from penstock.wire.gossip.packets import BODY_BYTES_MAX, Packet, PacketSeal, Rejected, RejectReason
from penstock.wire.gossip.replay import ReplayGuard

logger = logging.getLogger("penstock.gossip")

RESOLVE_INTERVAL_S = 30.0
"""Seeds that are names are looked up this often: containers change their address when they restart."""

_REPLAYED = Rejected(RejectReason.REPLAY, "the packet was received before")
_FLOODED = Rejected(
    RejectReason.RATE, "too many bad packets arrive; strangers are ignored for up to a second"
)


@dataclass(frozen=True, slots=True)
class GossipOptions:
    """What a broker must know to take part."""

    broker_id: int
    cluster_id: str
    key: bytes
    """Shared by all brokers of the cluster."""
    bind: Address
    """Port 0: any free port."""
    advertised_host: str | None = None
    """The IP address at which others reach this broker, if it is not the bound one."""
    advertised_port: int = 0
    """0: the bound port."""
    seeds: tuple[Address, ...] = ()
    """Some other brokers, by host name or IP address."""
    profile: GossipProfile = LAN


class GossipSocket(asyncio.DatagramProtocol):
    """A bound port. Datagrams that arrive before somebody receives are dropped. Errors of single packets are ordinary:
    a peer that is down refuses them."""

    def __init__(self) -> None:
        self.received: Callable[[bytes, Address], None] | None = None
        self.transport: asyncio.DatagramTransport | None = None

    @property
    def bound(self) -> Address:
        assert self.transport is not None
        host, port = self.transport.get_extra_info("sockname")[:2]
        return Address(host, port)

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self.transport = transport

    def datagram_received(self, data: bytes, addr: tuple[Any, ...]) -> None:
        if self.received is not None:
            self.received(data, Address(addr[0], addr[1]))

    def close(self) -> None:
        if self.transport is not None:
            self.transport.close()
            self.transport = None


async def bind_gossip(address: Address) -> GossipSocket:
    """Bind a UDP port. Raises OSError."""
    loop = asyncio.get_running_loop()
    _, bound = await loop.create_datagram_endpoint(GossipSocket, local_addr=address)
    return bound


class GossipHost:
    """One broker in the gossip of its cluster. `bound` is its port; without it `start` binds `options.bind`."""

    def __init__(self, options: GossipOptions, runtime: Runtime, bound: GossipSocket | None = None) -> None:
        self._options = options
        self._bound = bound
        self._runtime = runtime
        self._meter = runtime.meters.gossip
        self._seal = PacketSeal(options.cluster_id, options.key)
        self._guard = ReplayGuard()
        self._rejects = PacketRejects(self._meter)
        self._run = int.from_bytes(runtime.rng.bytes(8), "big")
        self._sequence = 0
        self._incarnations = range(0)
        self._tasks = Tasks()
        self._socket: GossipSocket | None = None
        self._timer: asyncio.Handle | None = None
        self._timer_s = 0.0
        """When it fires. uvloop's handle does not tell for times that have passed."""
        self._machine: Gossip | None = None
        self.listeners: list[Callable[[PeerChanged], None]] = []
        """Called on every change of a peer."""

    # -- view

    @property
    def peers(self) -> list[GossipPeer]:
        """All known peers, this broker included, by id."""
        return [] if self._machine is None else self._machine.peers

    @property
    def address(self) -> Address:
        """Where others reach this broker."""
        assert self._machine is not None
        return self._machine.me.address

    # -- lifecycle

    async def start(self) -> None:
        """Bind the socket and join. Raises OSError if the address cannot be bound."""
        await self._reserve(1)
        bound = self._bound or await bind_gossip(self._options.bind)
        try:
            address = self._advertised(bound.bound)
        except InvalidConfig:
            bound.close()
            raise
        self._socket = bound
        bound.received = self._received
        seeds = [(_literal(host), port) for host, port in self._options.seeds]
        literals = [Address(host, port) for host, port in seeds if host is not None]
        me = GossipPeer(self._options.broker_id, address, self._incarnations.start)
        self._machine = Gossip(
            me,
            self._runtime.rng,
            gossip_sizing(BODY_BYTES_MAX),
            self._now_ms(),
            seeds=literals,
            profile=self._options.profile,
        )
        self._count_peers()
        self._arm()
        if len(literals) < len(seeds):
            self._tasks.spawn(self._resolve_names(self._machine, literals))

    def _advertised(self, bound: Address) -> Address:
        host = self._options.advertised_host or bound.host
        try:
            found = ip_address(host)
        except ValueError:
            raise InvalidConfig(f"the gossip address {host!r} must be an IP address, not a name") from None
        if found.is_unspecified:
            raise InvalidConfig(
                f"gossip listens on all addresses ({host}): configure the one at which other brokers reach this one"
            )
        return Address(str(found), self._options.advertised_port or bound.port)

    async def stop(self) -> None:
        """Leave the cluster and close the socket."""
        if self._machine is not None:
            self._perform(self._machine.leave(self._now_ms()))
        self.close()
        await self._tasks.stop()

    def close(self) -> None:
        """Close the socket without a word, as a crash does."""
        self._tasks.cancel()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def set_seeds(self, seeds: Sequence[Address]) -> None:
        """Replace the seeds, which are IP addresses here: brokers come and go."""
        assert self._machine is not None
        self._machine.set_seeds(seeds)
        self._arm()

    async def _resolve_names(self, machine: Gossip, literals: list[Address]) -> None:
        """Look up the seeds that are names, again and again."""
        loop = asyncio.get_running_loop()
        family = socket.AF_INET6 if ":" in self.address.host else socket.AF_INET
        while True:
            found = dict.fromkeys(literals)
            for host, port in self._options.seeds:
                if _literal(host) is not None:
                    continue
                try:
                    answers = await loop.getaddrinfo(host, port, family=family, type=socket.SOCK_DGRAM)
                except OSError as error:
                    logger.warning(
                        "cannot look up the gossip seed %s, retrying in %.0f s: %s",
                        host,
                        RESOLVE_INTERVAL_S,
                        error,
                        extra={"peer": host},
                    )
                    continue
                found.update({Address(str(one[4][0]), port): None for one in answers})
            machine.set_seeds(tuple(found))
            self._arm()
            await asyncio.sleep(RESOLVE_INTERVAL_S)

    # -- attributes

    def publish(self, attributes: Mapping[str, str]) -> None:
        """Replace what this broker tells about itself: addresses of its doors, health, load, controller session.
        Raises TooLarge."""
        assert self._machine is not None
        self._perform(self._machine.publish(attributes, self._now_ms()))

    # -- packets and time

    def _received(self, raw: bytes, source: Address) -> None:
        machine, meter = self._machine, self._meter
        if machine is None or self._socket is None:
            return
        meter.packets["in"] += 1
        meter.packets_bytes["in"] += len(raw)
        now_s = asyncio.get_running_loop().time()
        if self._rejects.is_flooded(now_s) and not machine.knows(source):
            self._rejects.reject(_FLOODED, source, now_s)
            return
        packet = self._seal.open(raw)
        if isinstance(packet, Rejected):
            self._rejects.reject(packet, source, now_s)
            return
        if not self._guard.is_new(packet.sender_id, packet.run, packet.sequence):
            self._rejects.reject(_REPLAYED, source, now_s)
            return
        self._perform(machine.step(Envelope(packet.sender_id, source, packet.messages), now_s * 1000))

    def _now_ms(self) -> float:
        return asyncio.get_running_loop().time() * 1000

    def _fire(self) -> None:
        self._timer = None
        assert self._machine is not None
        self._perform(self._machine.tick(self._now_ms()))

    def _arm(self) -> None:
        """A timer that fires too early costs less than cancelling it for every packet."""
        assert self._machine is not None
        wake_ms = self._machine.wake_ms
        if wake_ms >= NEVER_MS or self._socket is None:
            return
        wake_s = wake_ms / 1000
        if self._timer is not None:
            if self._timer_s <= wake_s:
                return
            self._timer.cancel()
        self._timer_s = wake_s
        self._timer = asyncio.get_running_loop().call_at(wake_s, self._fire)

    def _perform(self, actions: list[GossipAction]) -> None:
        assert self._machine is not None
        for action in actions:
            match action:
                case SendPacket():
                    self._send(action)
                case PeerChanged():
                    self._report(action)
                case PeerForgotten():
                    self._count_peers()
                case ProbeAnswered():
                    self._meter.round_trips.observe(action.round_trip_ms / 1000)
                case IncarnationRaised():
                    if action.incarnation >= self._incarnations.stop:
                        self._tasks.spawn(self._reserve(action.incarnation + 1))
                case AddressDisputed():
                    logger.warning(
                        "%s claims to be broker %d as well; if this broker was not moved here from there, stop one of"
                        " the two",
                        action.address,
                        self._options.broker_id,
                        extra={"peer": str(action.address)},
                    )
        self._meter.health = self._machine.health.score
        self._arm()

    def _send(self, action: SendPacket) -> None:
        transport = None if self._socket is None else self._socket.transport
        if transport is None or (":" in action.target.host) != (":" in self.address.host):
            return  # an IPv4 socket cannot send to an IPv6 address
        self._sequence += 1
        raw = self._seal.seal(Packet(self._options.broker_id, self._run, self._sequence, action.messages))
        self._meter.packets["out"] += 1
        self._meter.packets_bytes["out"] += len(raw)
        transport.sendto(raw, action.target)

    def _report(self, changed: PeerChanged) -> None:
        before, after = changed.before, changed.after
        if before is None or before.state is not after.state:
            self._count_peers()
            logger.info(
                "gossip reports broker %d at %s as %s",
                after.id,
                after.address,
                after.state.name.lower(),
                extra={"peer": after.id, "state": after.state.name.lower(), "incarnation": after.incarnation},
            )
        for listener in self.listeners:
            listener(changed)

    def _count_peers(self) -> None:
        counts = {state.name.lower(): 0 for state in PeerState}
        for peer in self.peers:
            counts[peer.state.name.lower()] += 1
        self._meter.peers = counts

    async def _reserve(self, least: int) -> None:
        file = IncarnationFile(self._runtime.files)
        try:
            self._incarnations = await run_blocking(self._runtime.workers, lambda: file.reserve(least))
        except BrokerError as error:
            self._incarnations = range(least, least + 1)
            logger.warning(
                "cannot persist the gossip incarnation; after a restart this broker may be called dead until it"
                " refutes: %s",
                error,
            )


def _literal(host: str) -> str | None:
    """The IP address in its usual form, or None for a name."""
    try:
        return str(ip_address(host))
    except ValueError:
        return None
