"""One machine and what it is told, step by step."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from penstock.core.errors import TooLarge
from penstock.core.gossip.gossip import Gossip
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
from penstock.core.gossip.peer import GossipPeer, PeerState
from penstock.core.gossip.profile import LAN
from penstock.core.limits import GOSSIP_RELAYS_MAX
from penstock.core.machine import NEVER_MS
from penstock.core.model import Address
from penstock.wire.gossip.messages import gossip_sizing
from penstock.wire.gossip.packets import BODY_BYTES_MAX
from sim.chance import SimRng

ME = 1


def address(number: int) -> Address:
    return Address(f"10.0.0.{number}", 7946)


def peer(number: int, incarnation: int = 1, **more: object) -> GossipPeer:
    return GossipPeer(number, address(number), incarnation, **more)  # type: ignore[arg-type]


class Hand:
    """A machine whose time the test sets."""

    def __init__(self, *others: int, seeds: Iterable[int] = ()) -> None:
        self.now_ms = 0.0
        self.machine = Gossip(
            peer(ME),
            SimRng(random.Random(1)),
            gossip_sizing(BODY_BYTES_MAX),
            self.now_ms,
            seeds=[address(seed) for seed in seeds],
        )
        for other in others:
            self.tell(other, Alive(peer(other)))
        self.drain()

    def tell(self, sender: int, *messages: GossipMessage) -> list[GossipAction]:
        return self.machine.step(Envelope(sender, address(sender), messages), self.now_ms)

    def drain(self) -> None:
        """Let the first news be passed on, so that they are not in the way."""
        self.machine._broadcasts.clear()

    def pass_ms(self, time_ms: float) -> list[GossipAction]:
        """Tick whenever it is due."""
        end_ms = self.now_ms + time_ms
        done: list[GossipAction] = []
        while self.machine.wake_ms <= end_ms:
            self.now_ms = self.machine.wake_ms
            done += self.machine.tick(self.now_ms)
        self.now_ms = end_ms
        return done

    def probe(self) -> tuple[int, Ping]:
        """Up to the moment in which the next probe starts: whom it is for, and its ping."""
        while not (pings := sent(self.machine.tick(self.now_ms), Ping)):
            self.now_ms = self.machine.wake_ms
        [(target, ping)] = pings
        assert isinstance(ping, Ping) and ping.target_id == target
        return target, ping

    def state_of(self, number: int) -> PeerState | None:
        found = self.machine.peer(number)
        return None if found is None else found.state


def sent(actions: list[GossipAction], kind: type) -> list[tuple[int, GossipMessage]]:
    """(last part of the address, message)"""
    return [
        (int(action.target.host.split(".")[-1]), message)
        for action in actions
        if isinstance(action, SendPacket)
        for message in action.messages
        if isinstance(message, kind)
    ]


def test_a_peer_without_others_sleeps() -> None:
    assert Hand().machine.wake_ms == NEVER_MS


def test_seeds_are_contacted_until_one_answers() -> None:
    hand = Hand(seeds=(1, 2, 3))
    asked = sent(hand.pass_ms(2_500), Sync)
    assert {number for number, _ in asked} == {2, 3}, "never itself"
    assert len(asked) == 6
    hand.machine._sync_at_ms = NEVER_MS  # which is another reason to sync
    hand.tell(2, Sync((peer(2), peer(3)), False))
    assert sent(hand.pass_ms(3_000), Sync) == []


def test_a_ping_is_answered_and_one_for_somebody_else_is_not() -> None:
    hand = Hand(2)
    assert sent(hand.tell(2, Ping(77, ME)), Ack) == [(2, Ack(77))]
    assert hand.tell(2, Ping(78, 3)) == []


def test_a_probe_goes_direct_then_indirect_then_the_peer_is_suspected() -> None:
    hand = Hand(2, 3, 4, 5, 6)
    target, ping = hand.probe()
    actions = hand.pass_ms(500)
    requests = sent(actions, PingRequest)
    assert len(requests) == 3 and target not in [number for number, _ in requests]
    assert {message for _, message in requests} == {PingRequest(ping.sequence, target, address(target))}
    for number, _ in requests:
        hand.tell(number, Nack(ping.sequence))
    hand.pass_ms(500)
    assert hand.state_of(target) is PeerState.SUSPECT
    assert hand.machine.health.score == 0, "others could not reach it either: not our fault"


def test_missing_nacks_count_against_ourselves() -> None:
    hand = Hand(2, 3, 4, 5, 6)
    hand.probe()
    hand.pass_ms(1_000)
    assert hand.machine.health.score == 3
    assert len(sent(hand.pass_ms(3_000), Ping)) <= 1, "and probes become slower"


def test_an_answer_through_another_peer_counts() -> None:
    hand = Hand(2, 3, 4)
    target, ping = hand.probe()
    hand.pass_ms(500)
    helper = next(number for number in (2, 3, 4) if number != target)
    [answered] = hand.tell(helper, Ack(ping.sequence))
    assert isinstance(answered, ProbeAnswered) and answered.peer_id == target
    hand.pass_ms(400)
    assert hand.state_of(target) is PeerState.ALIVE
    assert hand.tell(helper, Ack(ping.sequence)) == [], "an answer counts once"


def test_a_ping_request_is_relayed_and_denied_if_unanswered() -> None:
    hand = Hand(2, 3)
    [(number, ping)] = sent(hand.tell(2, PingRequest(500, 3, address(3))), Ping)
    assert isinstance(ping, Ping) and number == 3 and ping.target_id == 3
    assert sent(hand.tell(3, Ack(ping.sequence)), Ack) == [(2, Ack(500))]
    hand.tell(2, PingRequest(501, 3, address(3)))
    assert sent(hand.pass_ms(400), Nack) == [(2, Nack(501))]


def test_relays_are_bounded() -> None:
    hand = Hand(2, 3)
    relayed = [hand.tell(2, PingRequest(number, 3, address(3))) for number in range(GOSSIP_RELAYS_MAX + 5)]
    assert len([actions for actions in relayed if sent(actions, Ping)]) == GOSSIP_RELAYS_MAX


def test_a_suspicion_becomes_a_death_after_confirmations() -> None:
    hand = Hand(2, 3, 4, 5)
    for accuser in (3, 4, 5):
        hand.tell(accuser, Verdict(2, 1, PeerState.SUSPECT, accuser))
    hand.machine._probe_at_ms = NEVER_MS
    hand.pass_ms(3_999)
    assert hand.state_of(2) is PeerState.SUSPECT
    actions = hand.pass_ms(1)
    assert hand.state_of(2) is PeerState.DEAD
    assert [one.after.state for one in actions if isinstance(one, PeerChanged)] == [PeerState.DEAD]


def test_a_suspicion_is_refuted_with_a_higher_incarnation_and_told_to_all() -> None:
    hand = Hand(2, 3)
    actions = hand.tell(2, Verdict(ME, 1, PeerState.SUSPECT, 2))
    assert actions == [IncarnationRaised(2)]
    assert hand.machine.health.score == 1
    assert hand.tell(2, Verdict(ME, 1, PeerState.DEAD, 2)) == [], "that is refuted already"
    told = sent(hand.pass_ms(1_000), Alive)
    assert {number for number, _ in told} == {2, 3}
    assert {message.peer.incarnation for _, message in told if isinstance(message, Alive)} == {2}


def test_a_suspect_hears_of_it_with_the_next_packet() -> None:
    hand = Hand(2, 3)
    hand.tell(3, Verdict(2, 1, PeerState.SUSPECT, 3))
    hand.drain()
    assert (2, Verdict(2, 1, PeerState.SUSPECT, ME)) in sent(hand.tell(2, Ping(1, ME)), Verdict)
    pinged = [action for action in hand.pass_ms(2_000) if sent([action], Ping)]
    to_two = [action for action in pinged if sent([action], Ping)[0][0] == 2]
    assert all(sent([action], Verdict) for action in to_two) and to_two


def test_a_death_in_the_view_of_another_is_only_a_suspicion_here() -> None:
    hand = Hand(2, 3)
    hand.tell(3, Sync((peer(2, state=PeerState.DEAD),), False))
    assert hand.state_of(2) is PeerState.SUSPECT
    hand.tell(3, Sync((peer(4, state=PeerState.DEAD),), False))
    assert hand.state_of(4) is PeerState.DEAD, "a peer that was dead before this one came"


def test_a_sync_is_answered_with_the_whole_view_in_packets_that_fit() -> None:
    hand = Hand()
    attributes = (("door", "x" * 200),)
    for number in range(2, 42):
        hand.tell(number, Alive(peer(number, attributes=attributes)))
    hand.drain()
    parts = sent(hand.tell(2, Sync((), True)), Sync)
    assert len(parts) > 5
    told = [one.id for _, part in parts if isinstance(part, Sync) for one in part.peers]
    assert sorted(told) == list(range(1, 42))
    assert not any(part.wants_reply for _, part in parts if isinstance(part, Sync))


def test_a_forgotten_earlier_life_is_overtaken() -> None:
    hand = Hand(2)
    assert hand.tell(2, Alive(peer(ME, incarnation=7, version=9))) == [IncarnationRaised(8)]
    assert hand.tell(2, Alive(peer(ME, incarnation=7, version=9))) == []
    assert hand.tell(2, Alive(hand.machine.me)) == [], "its own words"


def test_a_second_process_with_this_id_is_reported_and_starts_no_war() -> None:
    hand = Hand(2)
    elsewhere = GossipPeer(ME, address(99), 5)
    assert hand.tell(2, Alive(elsewhere)) == [AddressDisputed(address(99)), IncarnationRaised(6)]
    assert hand.tell(2, Alive(GossipPeer(ME, address(99), 7))) == []
    hand.now_ms += 10_000
    assert hand.tell(2, Alive(GossipPeer(ME, address(99), 7))) == [
        AddressDisputed(address(99)),
        IncarnationRaised(8),
    ]


def test_attributes_are_published_at_once_and_then_at_most_every_second() -> None:
    hand = Hand(2, 3)

    def loads(actions: list[GossipAction]) -> list[str | None]:
        return [
            one.after.attribute("load")
            for one in actions
            if isinstance(one, PeerChanged) and one.after.id == ME
        ]

    assert loads(hand.machine.publish({"load": "1"}, hand.now_ms)) == ["1"]
    assert loads(hand.machine.publish({"load": "2"}, hand.now_ms)) == []
    assert loads(hand.machine.publish({"load": "3"}, hand.now_ms)) == []
    assert loads(hand.pass_ms(999)) == []
    assert loads(hand.pass_ms(1)) == ["3"]
    with pytest.raises(TooLarge):
        hand.machine.publish({"load": "x" * 300}, hand.now_ms)


def test_who_leaves_says_so_and_falls_silent() -> None:
    hand = Hand(2, 3, 4)
    farewells = sent(hand.machine.leave(hand.now_ms), Verdict)
    assert {number for number, _ in farewells} == {2, 3, 4}
    assert {message for _, message in farewells} == {Verdict(ME, 1, PeerState.LEFT, ME)}
    assert hand.machine.leave(hand.now_ms) == []
    assert hand.tell(2, Ping(1, ME)) == [] and hand.machine.wake_ms == NEVER_MS
    assert hand.machine.tick(5_000) == []


def test_a_peer_that_left_is_not_contacted_and_is_forgotten_in_the_end() -> None:
    hand = Hand(2, 3)
    hand.tell(2, Verdict(2, 1, PeerState.LEFT, 2))
    hand.tell(3, Verdict(3, 1, PeerState.LEFT, 3))
    assert sent(hand.pass_ms(60_000), Sync) == []
    assert hand.machine.wake_ms == NEVER_MS
    hand.now_ms = LAN.dead_retention_ms + 1
    forgotten = [one.peer.id for one in hand.machine.tick(hand.now_ms) if isinstance(one, PeerForgotten)]
    assert forgotten == [2, 3]


def test_news_for_nobody_are_dropped() -> None:
    hand = Hand()
    hand.machine.publish({"load": "1"}, hand.now_ms)
    assert hand.pass_ms(1_000) == []
    assert hand.machine.wake_ms == NEVER_MS
