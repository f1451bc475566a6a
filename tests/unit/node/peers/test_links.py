"""Links to other brokers: who is reached, who is refused, and what changes of the cluster do to them."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from link_world import (
    KEY,
    MY_ID,
    PEER_ID,
    TIMEOUT_MS,
    LinkWorld,
    describe,
    failure,
    play,
    start,
    until,
)
from penstock.core.errors import PeerUnavailable, TimedOut, UnsupportedVersion
from penstock.core.model import Address
from penstock.node.peers.link import BACK_OFF_S_MAX
from penstock.node.peers.link_opening import LinkPeer
from penstock.node.peers.links import IDLE_S_MAX, SWEEP_S, PeerLinks
from penstock.wire.kafka import ApiKey, messages
from sim import node as sim_node

# -- calls


def test_calls_share_one_connection_that_is_opened_with_the_first() -> None:
    async def test(world: LinkWorld, links: PeerLinks) -> None:
        broker = await world.start_broker()
        assert world.loop.net.connections(sim_node.NAME) == 0
        answers = await asyncio.gather(
            *(links.call(PEER_ID, describe(), timeout_ms=TIMEOUT_MS) for _ in range(20))
        )
        assert {answer.cluster_id for answer in answers} == {broker.identity.cluster_id}
        assert world.loop.net.connections(sim_node.NAME) == 1
        assert (world.meter.calls, world.meter.is_open, dict(world.meter.errors)) == (20, True, {})
        assert sum(world.meter.round_trips.counts) == 20
        assert all(world.meter.bytes.values())

    play(test)


def test_responses_find_their_callers_in_any_order() -> None:
    async def test(world: LinkWorld, links: PeerLinks) -> None:
        peer = await world.start_scripted()
        first, second = start(links), start(links)
        await until(lambda: len(peer.requests) == 2)
        peer.answer(peer.requests[1], messages.DescribeClusterResponse(cluster_id="second", brokers=[]))
        await until(lambda: second)
        assert second[0].cluster_id == "second" and first == []
        peer.answer(peer.requests[0], messages.DescribeClusterResponse(cluster_id="first", brokers=[]))
        await until(lambda: first)
        assert first[0].cluster_id == "first"

    play(test)


def test_a_call_that_is_cancelled_disturbs_no_other() -> None:
    async def test(world: LinkWorld, links: PeerLinks) -> None:
        await world.start_broker()
        cancelled = asyncio.create_task(links.call(PEER_ID, describe(), timeout_ms=TIMEOUT_MS))
        await asyncio.sleep(0)
        cancelled.cancel()
        assert (await links.call(PEER_ID, describe(), timeout_ms=TIMEOUT_MS)).brokers

    play(test)


def test_a_call_that_the_peer_does_not_serve_is_not_sent() -> None:
    async def test(world: LinkWorld, links: PeerLinks) -> None:
        peer = await world.start_scripted()
        only = messages.ApiVersionsResponse.ApiVersion(
            api_key=ApiKey.DESCRIBE_CLUSTER, min_version=50, max_version=60
        )
        versions = peer._versions()
        peer._versions = lambda: [*(one for one in versions if one.api_key != only.api_key), only]  # type: ignore[method-assign]
        error = await failure(links)
        assert isinstance(error, UnsupportedVersion)
        assert "supports versions 50 to 60 of DescribeCluster" in str(error) and peer.requests == []

    play(test)


# -- who is not reached


def test_a_broker_that_is_unknown_or_fenced_is_not_called() -> None:
    async def test(world: LinkWorld, links: PeerLinks) -> None:
        error = await failure(links, broker_id=55)
        assert isinstance(error, PeerUnavailable) and "broker 55 is unknown or fenced" in str(error)

    play(test)


def test_a_broker_that_does_not_listen_is_tried_again_after_a_pause() -> None:
    async def test(world: LinkWorld, links: PeerLinks) -> None:
        world.loop.host(sim_node.NAME)
        error = await failure(links)
        assert isinstance(error, PeerUnavailable)
        assert f"broker {PEER_ID} at broker:9092 cannot be reached, nothing was sent" in str(error)
        assert "refused the connection" in str(error)
        await world.start_broker()
        links.refresh()
        await asyncio.sleep(BACK_OFF_S_MAX)
        assert (await links.call(PEER_ID, describe(), timeout_ms=TIMEOUT_MS)).brokers

    play(test)


def test_calls_during_the_pause_fail_without_an_attempt() -> None:
    async def test(world: LinkWorld, links: PeerLinks) -> None:
        peer = await world.start_scripted()
        peer.hides = True
        await failure(links)
        begun_s = world.loop.time()
        attempts = 0
        while world.loop.time() < begun_s + 5:
            attempts += 1
            await failure(links)
            await asyncio.sleep(0.001)
        assert 4 < peer.connections < 20, "pauses grow, up to a second"
        assert attempts > 1_000 and world.meter.errors["PeerUnavailable"] == attempts + 1

    play(test)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"link_key": b"x" * 32}, "does not know the link key"),
        ({"cluster_id": "elsewhere"}, "belongs to cluster 'elsewhere'"),
    ],
)
def test_a_broker_of_another_cluster_is_refused(
    change: dict[str, Any], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(world: LinkWorld, links: PeerLinks) -> None:
        await world.start_broker()
        assert world.peer is not None
        world.peer = world.peer._replace(**change)
        with caplog.at_level(logging.ERROR, "penstock.links"):
            error = await failure(links)
        assert isinstance(error, PeerUnavailable) and words in str(error)
        assert words in caplog.text and (KEY.hex() not in caplog.text)

    play(test)


def test_an_impostor_that_listens_at_the_address_is_refused() -> None:
    async def test(world: LinkWorld, links: PeerLinks) -> None:
        peer = await world.start_scripted()
        peer.identity = peer.identity._replace(link_key=b"x" * 32)
        error = await failure(links)
        assert "whoever listens there does not know the link key" in str(error)
        assert peer.requests == []

    play(test)


def test_a_single_node_accepts_no_links() -> None:
    async def test(world: LinkWorld, links: PeerLinks) -> None:
        peer = await world.start_scripted()
        peer.hides = True
        assert "it accepts no links" in str(await failure(links))

    play(test)


def test_another_broker_at_the_address_is_refused() -> None:
    async def test(world: LinkWorld, links: PeerLinks) -> None:
        await world.start_broker()
        moved = PeerLinks(world.runtime, MY_ID, lambda broker_id: world.peer)
        error = await failure(moved, broker_id=4)
        assert "wants to reach broker 4, but this is broker 3" in str(error)
        await moved.close()

    play(test)


def test_two_brokers_with_one_id_refuse_each_other() -> None:
    async def test(world: LinkWorld, links: PeerLinks) -> None:
        await world.start_broker()
        twin = PeerLinks(world.runtime, PEER_ID, lambda broker_id: world.peer)
        with pytest.raises(AssertionError, match="does not call itself"):
            await twin.call(PEER_ID, describe(), timeout_ms=TIMEOUT_MS)
        await twin.close()

    play(test)


# -- changes of the cluster


def test_a_fenced_peer_is_disconnected_at_once() -> None:
    async def test(world: LinkWorld, links: PeerLinks) -> None:
        peer = await world.start_scripted()
        outcomes = start(links)
        await until(lambda: peer.requests)
        links.refresh()
        assert outcomes == [], "nothing changed"
        world.peer = None
        links.refresh()
        assert isinstance(outcomes[0], TimedOut) and "it is fenced or gone" in str(outcomes[0])
        assert not world.meter.is_open
        assert isinstance((await failure(links)), PeerUnavailable)

    play(test)


def test_a_peer_that_moved_is_called_at_its_new_address() -> None:
    async def test(world: LinkWorld, links: PeerLinks) -> None:
        peer = await world.start_scripted()
        right = world.peer
        assert right is not None
        world.peer = right._replace(address=Address("broker", 1))
        outcomes = start(links)
        world.peer = right
        links.refresh()
        assert isinstance(outcomes[0], PeerUnavailable) and "it is at broker:9092 now" in str(outcomes[0])
        again = start(links)
        await until(lambda: peer.requests)
        assert again == []

    play(test)


def test_a_change_that_nobody_reported_is_noticed_by_the_sweep() -> None:
    async def test(world: LinkWorld, links: PeerLinks) -> None:
        peer = await world.start_scripted()
        outcomes = start(links, timeout_ms=60_000)
        await until(lambda: peer.requests)
        world.peer = None
        await asyncio.sleep(2 * SWEEP_S)
        assert isinstance(outcomes[0], TimedOut)

    play(test)


def test_an_idle_link_is_closed_and_opened_again() -> None:
    async def test(world: LinkWorld, links: PeerLinks) -> None:
        await world.start_broker()
        await links.call(PEER_ID, describe(), timeout_ms=TIMEOUT_MS)
        await asyncio.sleep(IDLE_S_MAX + 2 * SWEEP_S)
        assert world.loop.net.connections(sim_node.NAME) == 0 and not world.meter.is_open
        assert (await links.call(PEER_ID, describe(), timeout_ms=TIMEOUT_MS)).brokers

    play(test)


def test_a_link_with_a_waiting_call_is_not_idle() -> None:
    async def test(world: LinkWorld, links: PeerLinks) -> None:
        peer = await world.start_scripted()
        outcomes = start(links, timeout_ms=600_000)
        await asyncio.sleep(IDLE_S_MAX + 2 * SWEEP_S)
        assert outcomes == [] and peer.connections == 1

    play(test)


# -- the end


@pytest.mark.parametrize("is_mute", [True, False])
def test_closing_settles_every_call(is_mute: bool) -> None:
    async def test(world: LinkWorld, links: PeerLinks) -> None:
        peer = await world.start_scripted()
        peer.is_mute = is_mute
        outcomes = start(links)
        await until(lambda: peer.connections and (is_mute or peer.requests))
        await links.close()
        assert isinstance(outcomes[0], PeerUnavailable if is_mute else TimedOut)
        assert "this broker is stopping" in str(outcomes[0])
        after = start(links)
        assert isinstance(after[0], PeerUnavailable)

    play(test)


def test_secrets_are_not_printed() -> None:
    assert KEY.decode() not in repr(LinkPeer(Address("a", 1), "north", KEY))
