"""Descriptions and verdicts move a peer forward, and the table stays bounded."""

from __future__ import annotations

from penstock.core.gossip.messages import Verdict
from penstock.core.gossip.peer import GossipPeer, PeerState
from penstock.core.gossip.peer_table import PeerTable
from penstock.core.gossip.profile import LAN
from penstock.core.limits import GOSSIP_PEERS_MAX
from penstock.core.model import Address


def peer(peer_id: int, incarnation: int = 1, version: int = 1, port: int = 1) -> GossipPeer:
    return GossipPeer(peer_id, Address("10.0.0.1", port), incarnation, version)


def dead(peer_id: int, incarnation: int = 1) -> Verdict:
    return Verdict(peer_id, incarnation, PeerState.DEAD, 9)


def test_a_description_of_the_same_incarnation_does_not_revive() -> None:
    table = PeerTable(LAN)
    table.learn(peer(1), 0)
    table.judge(dead(1), 1)
    table.learn(peer(1, version=2, port=5), 2)
    found = table.get(1)
    assert found is not None and (found.state, found.address.port) == (PeerState.DEAD, 5)
    table.learn(peer(1, incarnation=2), 3)
    found = table.get(1)
    assert found is not None and found.state is PeerState.ALIVE


def test_verdicts_on_unknown_peers_and_old_incarnations_are_ignored() -> None:
    table = PeerTable(LAN)
    assert table.judge(dead(1), 0) == (False, None)
    table.learn(peer(1, incarnation=5), 0)
    assert table.judge(dead(1, incarnation=4), 0) == (False, None)


def test_the_oldest_dead_makes_room_and_the_living_do_not() -> None:
    table = PeerTable(LAN)
    for number in range(GOSSIP_PEERS_MAX):
        table.learn(peer(number), 0)
    assert table.learn(peer(5_000), 1) is None
    table.judge(dead(8), 2)
    table.judge(dead(7), 3)
    assert table.learn(peer(5_000), 4) is not None
    assert table.get(8) is None and table.get(7) is not None
    assert len(table) == GOSSIP_PEERS_MAX


def test_the_dead_are_shared_for_half_the_retention_and_then_forgotten() -> None:
    table = PeerTable(LAN)
    table.learn(peer(1), 0)
    table.judge(dead(1), 0)
    half_ms = LAN.dead_retention_ms / 2
    assert [one.id for one in table.shareable(half_ms)] == [1]
    assert table.shareable(half_ms + 1) == []
    assert table.forget_dead(2 * half_ms) == []
    assert [one.id for one in table.forget_dead(2 * half_ms + 1)] == [1]
    assert table.peers == []
