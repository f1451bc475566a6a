"""Attributes are bounded, and the controller is the living peer with the latest claim."""

from __future__ import annotations

import pytest

from penstock.core.errors import TooLarge
from penstock.core.gossip.peer import (
    CONTROLLER,
    GossipPeer,
    PeerState,
    checked_attributes,
    controller_hint,
)
from penstock.core.model import Address


def claiming(number: int, claim: str | None, state: PeerState = PeerState.ALIVE) -> GossipPeer:
    attributes = () if claim is None else ((CONTROLLER, claim),)
    return GossipPeer(number, Address("10.0.0.1", 1), 1, attributes=attributes, state=state)


def test_the_latest_claim_of_a_living_peer_is_the_controller() -> None:
    peers = [
        claiming(1, "4"),
        claiming(2, "10"),
        claiming(3, "12", PeerState.DEAD),
        claiming(4, None),
        claiming(5, "nonsense"),
        claiming(6, "²"),
    ]
    hint = controller_hint(peers)
    assert hint is not None and hint.id == 2
    assert controller_hint([claiming(4, None)]) is None


def test_attributes_are_sorted_and_bounded() -> None:
    assert checked_attributes({"b": "1", "a": "2"}) == (("a", "2"), ("b", "1"))
    with pytest.raises(TooLarge, match="longer than 255 bytes"):
        checked_attributes({"load": "x" * 256})
    with pytest.raises(TooLarge, match="take 606 bytes, the limit is 512"):
        checked_attributes(dict.fromkeys("abc", "x" * 199))


def test_an_address_is_shown_as_in_an_url() -> None:
    assert (str(Address("10.0.0.1", 7)), str(Address("fd00::1", 7))) == ("10.0.0.1:7", "[fd00::1]:7")
