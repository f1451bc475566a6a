"""Updates are sent a limited number of times, the least known first."""

from __future__ import annotations

from penstock.core.gossip.broadcasts import BroadcastQueue
from penstock.core.gossip.messages import Alive, Verdict
from penstock.core.gossip.peer import GossipPeer, PeerState
from penstock.core.model import Address


def alive(peer_id: int, incarnation: int = 1, version: int = 1) -> Alive:
    return Alive(GossipPeer(peer_id, Address("10.0.0.1", 1), incarnation, version))


def suspect(peer_id: int, incarnation: int = 1, accuser_id: int = 9) -> Verdict:
    return Verdict(peer_id, incarnation, PeerState.SUSPECT, accuser_id)


def queue() -> BroadcastQueue:
    return BroadcastQueue(lambda message: 10)


def test_an_update_is_sent_so_often_and_then_dropped() -> None:
    updates = queue()
    updates.add(alive(1))
    assert [len(updates.take(100, 3)) for _ in range(4)] == [1, 1, 1, 0]
    assert len(updates) == 0


def test_updates_sent_less_often_go_first_and_then_the_newest() -> None:
    updates = queue()
    for peer_id in (1, 2, 3):
        updates.add(alive(peer_id))
    assert updates.take(20, 9) == [alive(3), alive(2)]
    assert updates.take(10, 9) == [alive(1)]
    assert updates.take(9, 9) == []


def test_a_later_update_about_a_peer_replaces_the_earlier() -> None:
    updates = queue()
    updates.add(alive(1))
    updates.add(suspect(1))
    updates.add(suspect(1, accuser_id=8))
    assert updates.take(100, 9) == [suspect(1, accuser_id=8), alive(1)]
    updates.add(alive(1, version=2))
    assert updates.take(100, 9) == [alive(1, version=2), suspect(1, accuser_id=8)]
    updates.add(alive(1, incarnation=2))
    assert updates.take(100, 9) == [alive(1, incarnation=2)], "a refuted suspicion is not passed on"
