"""Gossip machines on virtual time over a lossy network of datagrams. Never real time, never real chance.

Packets go through the real codec, so that every run also checks their size and their signature.
"""

from __future__ import annotations

import functools
import heapq
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from penstock.core.gossip.gossip import Gossip
from penstock.core.gossip.messages import (
    Envelope,
    GossipAction,
    IncarnationRaised,
    PeerChanged,
    SendPacket,
)
from penstock.core.gossip.peer import GossipPeer, PeerState
from penstock.core.gossip.profile import LAN, GossipProfile
from penstock.core.model import Address
from penstock.wire.gossip.messages import gossip_sizing
from penstock.wire.gossip.packets import BODY_BYTES_MAX, Packet, PacketSeal
from penstock.wire.gossip.replay import ReplayGuard
from sim.chance import SimRng

SEAL = PacketSeal("sim", b"a key of the simulation")
SIZING = gossip_sizing(BODY_BYTES_MAX)
PORT = 7946


@dataclass
class Wires:
    """What the network does to a packet."""

    delay_ms_min: float = 0.2
    delay_ms_max: float = 2.0
    loss: float = 0.0
    duplicate: float = 0.0


@dataclass(frozen=True)
class Fact:
    """What one node thought of another from this time on."""

    at_ms: float
    node: int
    peer: GossipPeer
    was: PeerState | None


class SimNode:
    """One process: its machine while it runs, its packets while it is stalled."""

    def __init__(self, world: GossipWorld, node_id: int) -> None:
        self.world = world
        self.id = node_id
        self.address = Address(f"10.0.{node_id // 250}.{node_id % 250 + 1}", PORT)
        self.machine: Gossip | None = None
        self.life = 0
        self.incarnation = 0
        """On its disk."""
        self.stalled_until_ms = 0.0
        self.waiting: list[tuple[bytes, Address]] = []
        self.sent = 0
        self.sent_bytes = 0
        self._guard = ReplayGuard()
        self._planned_ms = float("inf")

    @property
    def is_up(self) -> bool:
        return self.machine is not None

    def boot(self, seeds: Iterable[int] = (), *, forgets: bool = False) -> None:
        """Start it; `forgets`: with an empty disk."""
        assert self.machine is None
        world = self.world
        self.incarnation = 1 if forgets else self.incarnation + 1
        self.life += 1
        self._guard = ReplayGuard()
        self.machine = Gossip(
            GossipPeer(self.id, self.address, self.incarnation),
            SimRng(random.Random(f"{world.seed}/{self.id}/{self.life}")),
            SIZING,
            world.now_ms,
            seeds=[world.nodes[seed].address for seed in seeds],
            profile=world.profile,
        )
        self._plan()

    def crash(self) -> None:
        """kill -9."""
        self.machine = None
        self.waiting.clear()
        self.stalled_until_ms = 0.0
        self._planned_ms = float("inf")
        self.world.crashed_ms[self.id] = self.world.now_ms

    def leave(self) -> None:
        assert self.machine is not None
        self._carry_out(self.machine.leave(self.world.now_ms))
        self.crash()

    def publish(self, **attributes: str) -> None:
        assert self.machine is not None
        self._carry_out(self.machine.publish(attributes, self.world.now_ms))
        self._plan()

    def stall(self, for_ms: float) -> None:
        """SIGSTOP, and SIGCONT later. Packets wait in the socket."""
        self.stalled_until_ms = max(self.stalled_until_ms, self.world.now_ms + for_ms)
        self.world.at(self.stalled_until_ms, self._resume)

    def _resume(self) -> None:
        if self.machine is None or self.world.now_ms < self.stalled_until_ms:
            return
        waiting, self.waiting = self.waiting, []
        if self.world.timers_first:
            self._tick()
        for raw, source in waiting:
            self.receive(raw, source)
        self._tick()

    def receive(self, raw: bytes, source: Address) -> None:
        if self.machine is None:
            return
        if self.world.now_ms < self.stalled_until_ms:
            self.waiting.append((raw, source))
            return
        packet = SEAL.open(raw)
        assert isinstance(packet, Packet), packet
        if self._guard.is_new(packet.sender_id, packet.run, packet.sequence):
            envelope = Envelope(packet.sender_id, source, packet.messages)
            self._carry_out(self.machine.step(envelope, self.world.now_ms))
            self._plan()

    def _plan(self) -> None:
        assert self.machine is not None
        if self.machine.wake_ms < self._planned_ms:
            self._planned_ms = self.machine.wake_ms
            life = self.life
            self.world.at(self._planned_ms, lambda: self._wake(life))

    def _wake(self, life: int) -> None:
        if self.machine is None or life != self.life:
            return
        self._planned_ms = float("inf")
        if self.world.now_ms < self.stalled_until_ms:
            return  # the end of the stall ticks
        self._tick()

    def _tick(self) -> None:
        assert self.machine is not None
        if self.world.now_ms >= self.machine.wake_ms:
            self._carry_out(self.machine.tick(self.world.now_ms))
        self._plan()

    def _carry_out(self, actions: list[GossipAction]) -> None:
        for action in actions:
            match action:
                case SendPacket():
                    self.sent += 1
                    raw = SEAL.seal(Packet(self.id, self.life, self.sent, action.messages))
                    self.sent_bytes += len(raw)
                    self.world.send(self, action.target, raw)
                case PeerChanged():
                    was = None if action.before is None else action.before.state
                    if was != action.after.state:
                        self.world.facts.append(Fact(self.world.now_ms, self.id, action.after, was))
                case IncarnationRaised():
                    self.incarnation = max(self.incarnation, action.incarnation)

    def state_of(self, other: int) -> PeerState | None:
        assert self.machine is not None
        peer = self.machine.peer(other)
        return None if peer is None else peer.state


class GossipWorld:
    """Nodes 0..count-1, a network between them, and everything that they ever thought of each other."""

    def __init__(
        self, seed: int | str, count: int, *, profile: GossipProfile = LAN, wires: Wires | None = None
    ) -> None:
        self.seed = seed
        self.profile = profile
        self.wires = wires or Wires()
        self.now_ms = 0.0
        self.facts: list[Fact] = []
        self.crashed_ms: dict[int, float] = {}
        self.timers_first = False
        """Whether a process that was stalled runs its timers before it reads its packets."""
        self.chance = random.Random(f"{seed}/world")
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._cuts: set[tuple[int, int]] = set()
        self.nodes = [SimNode(self, node_id) for node_id in range(count)]
        self._by_address = {node.address: node for node in self.nodes}

    def at(self, when_ms: float, what: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (when_ms, self._count, what))

    def after(self, wait_ms: float, what: Callable[[], None]) -> None:
        self.at(self.now_ms + wait_ms, what)

    def run(self, for_ms: float) -> None:
        self.run_until(lambda: False, for_ms)

    def run_until(self, is_done: Callable[[], bool], within_ms: float) -> bool:
        """Let virtual time pass; True as soon as the condition holds."""
        end_ms = self.now_ms + within_ms
        while self._events and self._events[0][0] <= end_ms:
            if is_done():
                return True
            when_ms, _, what = heapq.heappop(self._events)
            self.now_ms = max(self.now_ms, when_ms)
            what()
        self.now_ms = end_ms
        return is_done()

    # -- network

    def cut(self, some: Iterable[int], others: Iterable[int], *, one_way: bool = False) -> None:
        """Packets from `some` to `others` are lost, and back unless one way."""
        others = list(others)
        for a in some:
            for b in others:
                self._cuts.add((a, b))
                if not one_way:
                    self._cuts.add((b, a))

    def heal(self) -> None:
        self._cuts.clear()

    def send(self, source: SimNode, target: Address, raw: bytes) -> None:
        node = self._by_address.get(target)
        if node is None or (source.id, node.id) in self._cuts or self.chance.random() < self.wires.loss:
            return
        for _ in range(2 if self.chance.random() < self.wires.duplicate else 1):
            delay_ms = self.chance.uniform(self.wires.delay_ms_min, self.wires.delay_ms_max)
            self.after(delay_ms, lambda: node.receive(raw, source.address))

    # -- the cluster

    def form(self, seeds: int = 2) -> None:
        """Boot all nodes; each knows the first ones. Returns when all know all."""
        for node in self.nodes:
            self.after(self.chance.uniform(0, 500), functools.partial(node.boot, range(seeds)))
        self.run(500)
        assert self.run_until(self.agree, 30_000), "the cluster did not form"
        self.run(5_000)
        self.facts.clear()

    @property
    def up(self) -> list[SimNode]:
        return [node for node in self.nodes if node.is_up]

    def agree(self) -> bool:
        """All running nodes think that exactly the running ones are alive, and know what those say of themselves."""
        running = {node.id: node.machine.me for node in self.up if node.machine is not None}
        for node in self.up:
            assert node.machine is not None
            alive = {peer.id: peer for peer in node.machine.peers if peer.state is PeerState.ALIVE}
            if alive != running:
                return False
        return True

    def all_think(self, other: int, *states: PeerState) -> bool:
        return all(node.state_of(other) in states for node in self.up if node.id != other)

    def false_verdicts(self) -> list[Fact]:
        """Deaths of nodes that were running."""
        return [
            fact
            for fact in self.facts
            if fact.peer.state is PeerState.DEAD
            and fact.at_ms < self.crashed_ms.get(fact.peer.id, float("inf"))
        ]
