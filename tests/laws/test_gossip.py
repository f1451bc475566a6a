"""Laws of gossip: the order of updates does not matter; every packet comes back as it was sent; no packet counts
twice."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.gossip.messages import Ack, Alive, GossipMessage, Nack, Ping, PingRequest, Sync, Verdict
from penstock.core.gossip.peer import CONTENT_UNKNOWN, GossipPeer, PeerState
from penstock.core.gossip.peer_table import PeerTable
from penstock.core.gossip.profile import LAN
from penstock.core.model import Address
from penstock.wire.gossip.messages import decode_gossip_body, encode_gossip_body
from penstock.wire.gossip.packets import Packet, PacketSeal
from penstock.wire.gossip.replay import WINDOW_PACKETS, ReplayGuard

ids = st.integers(0, 2**31 - 1)
sequences = st.integers(0, 2**32 - 1)
texts = st.text(max_size=20).filter(lambda text: len(text.encode()) <= 60)
addresses = st.builds(
    Address,
    st.one_of(
        st.integers(1, 223).map(lambda first: f"{first}.0.0.9"),
        st.integers(1, 2**15).map(lambda part: f"fd00::{part:x}"),
    ),
    st.integers(1, 65_535),
)
states = st.sampled_from(PeerState)
attributes = st.dictionaries(texts, texts, max_size=4).map(lambda found: tuple(sorted(found.items())))
peers = st.builds(
    GossipPeer, ids, addresses, st.integers(0, 2**62), st.integers(0, 2**32 - 1), attributes, states
)
messages: st.SearchStrategy[GossipMessage] = st.one_of(
    st.builds(Ping, sequences, ids),
    st.builds(PingRequest, sequences, ids, addresses),
    st.builds(Ack, sequences),
    st.builds(Nack, sequences),
    st.builds(Alive, peers),
    st.builds(Verdict, ids, st.integers(0, 2**62), st.sampled_from(list(PeerState)[1:]), ids),
    st.builds(Sync, st.tuples(peers), st.booleans()),
)
bodies = st.lists(messages, min_size=1, max_size=2).map(tuple)

SEAL = PacketSeal("laws", b"a key of all brokers")


@given(bodies)
def test_a_body_comes_back(body: tuple[GossipMessage, ...]) -> None:
    assert decode_gossip_body(encode_gossip_body(body)) == body


@given(bodies, ids, st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_a_packet_comes_back(
    body: tuple[GossipMessage, ...], sender_id: int, run: int, sequence: int
) -> None:
    packet = Packet(sender_id, run, sequence, body)
    assert SEAL.open(SEAL.seal(packet)) == packet


@given(bodies, st.data())
def test_no_byte_of_a_packet_can_be_changed(body: tuple[GossipMessage, ...], data: st.DataObject) -> None:
    raw = bytearray(SEAL.seal(Packet(1, 2, 3, body)))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    assert not isinstance(SEAL.open(bytes(raw)), Packet)


# What a peer says about itself is a function of its age, as only the peer itself makes it.
updates = st.one_of(
    st.builds(
        lambda incarnation, version: Alive(
            GossipPeer(7, Address("10.0.0.7", 1), incarnation, version, (("v", f"{incarnation}.{version}"),))
        ),
        st.integers(1, 3),
        st.integers(1, 3),
    ),
    st.builds(
        Verdict, st.just(7), st.integers(1, 3), st.sampled_from(list(PeerState)[1:]), st.integers(1, 3)
    ),
)


@given(st.lists(updates, min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_updates_in_any_order_end_in_the_same_state(found: list[Alive | Verdict], chance: Random) -> None:
    first = Alive(GossipPeer(7, Address("10.0.0.7", 1), 1, 1, (("v", "1.1"),)))
    shuffled = list(found)
    chance.shuffle(shuffled)
    assert merged([first, *found]) == merged([first, *shuffled]) == merged([first, *found, *shuffled])


def merged(found: list[Alive | Verdict]) -> GossipPeer:
    table = PeerTable(LAN)
    for update in found:
        before = table.get(7)
        if isinstance(update, Alive):
            table.learn(update.peer, 0.0)
        else:
            table.judge(update, 0.0)
        after = table.get(7)
        assert before is None or after is None or after.age >= before.age or after.version == CONTENT_UNKNOWN
        assert after is None or (after.state is PeerState.SUSPECT) == (table.deadline_ms < 1e12)
    peer = table.get(7)
    assert peer is not None
    # The description of an earlier incarnation stands in until the peer's own arrives: any will do.
    return replace(peer, attributes=()) if peer.version == CONTENT_UNKNOWN else peer


@given(st.lists(st.integers(0, 600), max_size=200))
def test_a_packet_counts_once_and_a_new_one_always(sequences: list[int]) -> None:
    guard, seen, newest = ReplayGuard(), set(), -1
    for sequence in sequences:
        is_known = sequence in seen
        is_recent = newest < 0 or sequence > newest - WINDOW_PACKETS
        assert guard.is_new(1, 1, sequence) == (is_recent and not is_known)
        seen.add(sequence)
        newest = max(newest, sequence)
