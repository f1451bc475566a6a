"""The membership machine of one peer: `step` takes a packet, `tick` the time; both return what the host must do.

SWIM with Lifeguard: one peer is probed per interval, directly and then through others. A peer that does not answer is
suspected, and dead if it does not refute in time. Updates travel with other packets. Peers exchange their whole state
now and then, which also heals a cluster that was split. Same inputs, same outputs: time and randomness are arguments.

The result is a hint. A peer that is slow, or cut off in one direction, can be called dead while it works; leases and
epochs decide who may act.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.core.gossip.broadcasts import BroadcastQueue
from penstock.core.gossip.health import LocalHealth
from penstock.core.gossip.messages import (
    Ack,
    AddressDisputed,
    Alive,
    Envelope,
    GossipAction,
    GossipMessage,
    IncarnationRaised,
    Nack,
    PeerChanged,
    PeerForgotten,
    Ping,
    PingRequest,
    ProbeAnswered,
    SendPacket,
    Sync,
    Verdict,
)
from penstock.core.gossip.peer import GossipPeer, PeerState, checked_attributes
from penstock.core.gossip.peer_table import PeerTable
from penstock.core.gossip.prober import Prober
from penstock.core.gossip.profile import LAN, GossipProfile
from penstock.core.gossip.selection import chosen
from penstock.core.machine import NEVER_MS
from penstock.core.model import Address
from penstock.core.ports import Rng

FAREWELLS_MAX = 32
"""Peers that are told directly when this one leaves; they tell the others."""


@dataclass(frozen=True, slots=True)
class Sizing:
    """How large messages are on the wire, and how much fits into one packet."""

    size_of: Callable[[GossipMessage], int]
    body_bytes_max: int
    sync_head_bytes: int
    """A Sync without peers."""
    size_of_peer: Callable[[GossipPeer], int]


class Gossip:
    """One peer. Feed it every packet and call `tick` at `wake_ms`."""

    def __init__(
        self,
        me: GossipPeer,
        rng: Rng,
        sizing: Sizing,
        now_ms: float,
        *,
        seeds: Sequence[Address] = (),
        profile: GossipProfile = LAN,
    ) -> None:
        self.me = me
        self._rng = rng
        self._sizing = sizing
        self._profile = profile
        self._seeds = tuple(seeds)
        self.health = LocalHealth()
        self._table = PeerTable(profile)
        self._prober = Prober(profile, self.health, rng)
        self._broadcasts = BroadcastQueue(sizing.size_of)
        self._out: list[GossipAction] = []
        self._has_left = False
        self._pending_attributes = me.attributes
        self._disputed_until_ms = now_ms
        # Random phases: peers that start together must not probe and sync together.
        self._probe_at_ms = now_ms + self._random_ms(profile.probe_ms)
        self._sync_at_ms = now_ms + self._random_ms(profile.sync_ms)
        self._gossip_at_ms = now_ms
        self._rejoin_at_ms = now_ms
        self._published_ms = now_ms - profile.publish_ms
        self._silent: tuple[object, list[Address]] = None, []
        self.wake_ms = self._next_wake_ms()
        """When `tick` is due. A peer without others and without seeds sleeps."""

    # -- view

    @property
    def peers(self) -> list[GossipPeer]:
        """All peers, this one included, by id."""
        return sorted([self.me, *self._table.peers], key=lambda peer: peer.id)

    def peer(self, peer_id: int) -> GossipPeer | None:
        return self.me if peer_id == self.me.id else self._table.get(peer_id)

    def knows(self, address: Address) -> bool:
        """Whether a living peer has this address."""
        return any(peer.address == address for peer in self._table.living)

    # -- commands of the host

    def set_seeds(self, seeds: Sequence[Address]) -> None:
        """Addresses to contact until a living peer is known there."""
        self._seeds = tuple(seeds)
        self._silent = None, []
        self.wake_ms = min(self.wake_ms, self._rejoin_at_ms)

    def publish(self, attributes: Mapping[str, str], now_ms: float) -> list[GossipAction]:
        """Replace this peer's attributes. Frequent changes are spread together. Raises TooLarge."""
        self._pending_attributes = checked_attributes(attributes)
        self._publish(now_ms)
        return self._take_actions(now_ms)

    def leave(self, now_ms: float) -> list[GossipAction]:
        """Say good-bye; afterwards this peer neither answers nor probes."""
        if not self._has_left:
            self._has_left = True
            self.me = replace(self.me, state=PeerState.LEFT)
            farewell = Verdict(self.me.id, self.me.incarnation, PeerState.LEFT, self.me.id)
            for peer in chosen(self._rng, self._table.living, FAREWELLS_MAX):
                self._out.append(SendPacket(peer.address, (farewell,)))
        return self._take_actions(now_ms)

    def step(self, envelope: Envelope, now_ms: float) -> list[GossipAction]:
        """Process one packet."""
        if not self._has_left:
            for message in envelope.messages:
                self._receive(message, envelope, now_ms)
        return self._take_actions(now_ms)

    def tick(self, now_ms: float) -> list[GossipAction]:
        """Do what is due."""
        if not self._has_left:
            self._tick_probe(now_ms)
            for relay in self._prober.expired_relays(now_ms):
                self._send(relay.requester, Nack(relay.sequence))
            for peer in self._table.expired(now_ms):
                self._judge(Verdict(peer.id, peer.incarnation, PeerState.DEAD, self.me.id), now_ms)
            self._publish(now_ms)
            self._tick_gossip(now_ms)
            self._tick_sync(now_ms)
            self._tick_rejoin(now_ms)
        return self._take_actions(now_ms)

    def _take_actions(self, now_ms: float) -> list[GossipAction]:
        self.wake_ms = max(now_ms, self._next_wake_ms())
        taken, self._out = self._out, []
        return taken

    def _next_wake_ms(self) -> float:
        if self._has_left:
            return NEVER_MS
        wake = min(self._table.deadline_ms, self._prober.deadline_ms)
        if self._pending_attributes != self.me.attributes:
            wake = min(wake, self._published_ms + self._profile.publish_ms)
        if self._table.living:
            wake = min(wake, self._sync_at_ms)
            if self._prober.probe is None:
                wake = min(wake, self._probe_at_ms)
        if self._broadcasts:
            wake = min(wake, self._gossip_at_ms)
        return min(wake, self._rejoin_at_ms) if self._silent_addresses() else wake

    # -- time

    def _tick_probe(self, now_ms: float) -> None:
        probe = self._prober.probe
        if probe is not None:
            target = self._table.get(probe.target_id)
            if target is None or not target.is_living:
                self._prober.probe = None
            elif now_ms >= probe.ends_ms:
                self.health.change(self._prober.failed_points())
                self._prober.probe = None
                self._judge(Verdict(target.id, target.incarnation, PeerState.SUSPECT, self.me.id), now_ms)
            elif now_ms >= probe.indirect_ms:
                others = [peer for peer in self._table.living if peer.id != target.id]
                asked = chosen(self._rng, others, self._profile.indirect_probes)
                for peer in asked:
                    self._send(peer.address, PingRequest(probe.sequence, target.id, target.address))
                self._prober.asked(len(asked))
        if self._prober.probe is None and now_ms >= self._probe_at_ms:
            self._start_probe(now_ms)

    def _start_probe(self, now_ms: float) -> None:
        self._probe_at_ms = now_ms + self.health.stretched_ms(self._profile.probe_ms)
        target = self._prober.next_target(self._table.living)
        if target is not None:
            self._send(target.address, self._prober.start(target, now_ms), *self._accusation(target))

    def _accusation(self, peer: GossipPeer | None) -> tuple[Verdict, ...]:
        """Tells a peer that it is thought to be failing, so that it can refute at once."""
        if peer is None or peer.state is PeerState.ALIVE:
            return ()
        return (Verdict(peer.id, peer.incarnation, peer.state, self.me.id),)

    def _tick_gossip(self, now_ms: float) -> None:
        if not self._broadcasts or now_ms < self._gossip_at_ms:
            return
        self._gossip_at_ms = now_ms + self._profile.gossip_ms
        if not self._table.living:
            self._broadcasts.clear()  # whoever joins gets the whole state
            return
        reachable = [
            *self._table.living,
            *self._table.died_after(now_ms - self._profile.gossip_to_dead_ms),
        ]
        for peer in chosen(self._rng, reachable, self._profile.gossip_fanout):
            if self._broadcasts:
                self._send(peer.address)

    def _tick_sync(self, now_ms: float) -> None:
        if now_ms < self._sync_at_ms:
            return
        self._sync_at_ms = now_ms + self._profile.sync_ms
        self._out += map(PeerForgotten, self._table.forget_dead(now_ms))
        for peer in chosen(self._rng, self._table.living, 1):
            self._send_state(peer.address, now_ms, wants_reply=True)

    def _silent_addresses(self) -> list[Address]:
        """Where a peer should be, but none is known to be alive."""
        living = self._table.living
        if self._silent[0] is not living:  # a change of any peer makes a new tuple
            known = {peer.address for peer in living} | {self.me.address}
            wanted = dict.fromkeys((*self._seeds, *(peer.address for peer in self._table.dead)))
            self._silent = living, [address for address in wanted if address not in known]
        return self._silent[1]

    def _tick_rejoin(self, now_ms: float) -> None:
        if now_ms < self._rejoin_at_ms:
            return
        is_alone = not self._table.living
        self._rejoin_at_ms = now_ms + (self._profile.probe_ms if is_alone else self._profile.rejoin_ms)
        count = self._profile.gossip_fanout if is_alone else 1
        for address in chosen(self._rng, self._silent_addresses(), count):
            self._send_state(address, now_ms, wants_reply=True)

    def _publish(self, now_ms: float) -> None:
        if self._pending_attributes == self.me.attributes:
            return
        if now_ms < self._published_ms + self._profile.publish_ms:
            return
        self._published_ms = now_ms
        before = self.me
        self.me = replace(before, version=before.version + 1, attributes=self._pending_attributes)
        self._broadcasts.add(Alive(self.me))
        self._out.append(PeerChanged(before, self.me))

    # -- packets

    def _receive(self, message: GossipMessage, envelope: Envelope, now_ms: float) -> None:
        match message:
            case Ping():
                if message.target_id == self.me.id:
                    sender = self._table.get(envelope.sender_id)
                    self._send(envelope.source, Ack(message.sequence), *self._accusation(sender))
            case PingRequest():
                ping = self._prober.relay(envelope.source, message.sequence, message.target_id, now_ms)
                if ping is not None:
                    self._send(message.target, ping)
            case Ack():
                self._receive_ack(message.sequence, now_ms)
            case Nack():
                self._prober.nacked(message.sequence)
            case Alive():
                self._learn(message.peer, now_ms)
            case Verdict():
                self._judge(message, now_ms)
            case Sync():
                for peer in message.peers:
                    self._merge(peer, envelope.sender_id, now_ms)
                if message.wants_reply:
                    self._send_state(envelope.source, now_ms, wants_reply=False)

    def _receive_ack(self, sequence: int, now_ms: float) -> None:
        probe = self._prober.probe
        if probe is not None and probe.sequence == sequence:
            self._prober.probe = None
            self.health.change(-1)
            self._out.append(ProbeAnswered(probe.target_id, now_ms - probe.started_ms))
            return
        relay = self._prober.take_relay(sequence)
        if relay is not None:
            self._send(relay.requester, Ack(relay.sequence))

    def _merge(self, peer: GossipPeer, sender_id: int, now_ms: float) -> None:
        """One peer of another's view. Its deaths are suspicions here: they may be old, and the peer may have refuted
        them since."""
        if peer.id != self.me.id and self._table.get(peer.id) is None and peer.state >= PeerState.DEAD:
            self._changed(self._table.add(peer, now_ms))
            return
        self._learn(peer, now_ms)
        if peer.state is not PeerState.ALIVE:
            state = PeerState.LEFT if peer.state is PeerState.LEFT else PeerState.SUSPECT
            self._judge(Verdict(peer.id, peer.incarnation, state, sender_id), now_ms)

    def _learn(self, peer: GossipPeer, now_ms: float) -> None:
        if peer.id == self.me.id:
            self._defend_description(peer, now_ms)
            return
        changed = self._table.learn(peer, now_ms)
        if changed is not None:
            self._broadcasts.add(Alive(changed.after))
            self._changed(changed)

    def _judge(self, verdict: Verdict, now_ms: float) -> None:
        if verdict.peer_id == self.me.id:
            if verdict.incarnation >= self.me.incarnation:
                self.health.change(1)
                self._raise_incarnation(verdict.incarnation)
            return
        is_news, changed = self._table.judge(verdict, now_ms)
        if is_news:
            self._broadcasts.add(verdict)
        self._changed(changed)

    def _changed(self, changed: PeerChanged | None) -> None:
        if changed is None:
            return
        if changed.before is None:
            self._prober.insert(changed.after.id)
        self._out.append(changed)

    # -- this peer in the eyes of others

    def _defend_description(self, peer: GossipPeer, now_ms: float) -> None:
        """Others know a later life of this id: its counter was lost, or a second process uses the id."""
        mine = self.me
        is_same = (peer.address, peer.attributes) == (mine.address, mine.attributes)
        if peer.age < mine.age or (peer.age == mine.age and is_same):
            return
        if peer.address != mine.address:
            # Two processes of one id would refute each other in every packet.
            if now_ms < self._disputed_until_ms:
                return
            self._disputed_until_ms = now_ms + self._profile.suspicion_factor * self._profile.probe_ms
            self._out.append(AddressDisputed(peer.address))
        self._raise_incarnation(peer.incarnation)

    def _raise_incarnation(self, refuted: int) -> None:
        self.me = replace(self.me, incarnation=refuted + 1, version=1)
        self._out.append(IncarnationRaised(self.me.incarnation))
        self._broadcasts.add(Alive(self.me))

    # -- sending

    def _send(self, target: Address, *messages: GossipMessage) -> None:
        """Fill the rest of the packet with updates."""
        room_bytes = self._sizing.body_bytes_max - sum(map(self._sizing.size_of, messages))
        sent_max = self._profile.retransmits(self._table.cluster_size)
        updates = self._broadcasts.take(room_bytes, sent_max)
        self._out.append(SendPacket(target, (*messages, *updates)))

    def _send_state(self, target: Address, now_ms: float, *, wants_reply: bool) -> None:
        """This peer's view, in as many packets as it takes; only the last asks for a reply."""
        part: list[GossipPeer] = []
        left_bytes = room_bytes = self._sizing.body_bytes_max - self._sizing.sync_head_bytes
        for peer in (self.me, *self._table.shareable(now_ms)):
            size = self._sizing.size_of_peer(peer)
            if size > left_bytes:
                self._out.append(SendPacket(target, (Sync(tuple(part), False),)))
                part, left_bytes = [], room_bytes
            part.append(peer)
            left_bytes -= size
        self._out.append(SendPacket(target, (Sync(tuple(part), wants_reply),)))

    def _random_ms(self, period_ms: float) -> float:
        return period_ms * self._rng.below(1000) / 1000
