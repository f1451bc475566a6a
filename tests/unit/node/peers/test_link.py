"""One link: deadlines, lost connections, limits, and what a caller may conclude from each error."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from link_world import (
    PEER_ID,
    TIMEOUT_MS,
    LinkWorld,
    ScriptedPeer,
    describe,
    failure,
    play,
    start,
    until,
)
from penstock.core.errors import BrokerError, PeerUnavailable, Throttled, TimedOut
from penstock.node.peers import pending_calls
from penstock.node.peers.link import BACK_OFF_S_MAX, CONNECT_S_MAX, SILENT_S_MAX
from penstock.node.peers.links import PeerLinks
from penstock.wire.kafka import messages
from sim.net import Farewell


def has_received(peer: ScriptedPeer, count: int) -> bool:
    return len(peer.requests) == count


def produce(content: bytes) -> messages.ProduceRequest:
    request = messages.ProduceRequest
    one = request.PartitionProduceData(index=0, records=memoryview(content))
    return request(acks=-1, topic_data=[request.TopicProduceData(topic_id=bytes(16), partition_data=[one])])


# -- deadlines


def test_a_call_without_an_answer_has_an_unknown_outcome() -> None:
    async def test(world: LinkWorld, links: PeerLinks) -> None:
        peer = await world.start_scripted()
        error = await failure(links, timeout_ms=100)
        assert isinstance(error, TimedOut) and "did not answer within 100 ms, the outcome is unknown" in str(
            error
        )
        peer.answer(peer.requests[0], messages.DescribeClusterResponse(brokers=[]))
        second = start(links)
        await until(lambda: len(peer.requests) == 2)
        peer.answer(peer.requests[1], messages.DescribeClusterResponse(cluster_id="later", brokers=[]))
        await until(lambda: second)
        assert second[0].cluster_id == "later" and peer.connections == 1, "the late answer did no harm"
        assert dict(world.meter.errors) == {"TimedOut": 1}

    play(test)


def test_a_call_that_was_not_sent_in_time_changed_nothing() -> None:
    async def test(world: LinkWorld, links: PeerLinks) -> None:
        peer = await world.start_scripted()
        peer.is_mute = True
        error = await failure(links, timeout_ms=100)
        assert isinstance(error, PeerUnavailable)
        assert "was not reached within 100 ms, nothing was sent" in str(error)
        slow = await failure(links, timeout_ms=60_000)
        assert f"no answer within {CONNECT_S_MAX:g} s" in str(slow)

    play(test)


def test_deadlines_are_kept_one_by_one() -> None:
    async def test(world: LinkWorld, links: PeerLinks) -> None:
        await world.start_scripted()
        start(links)
        await asyncio.sleep(1)
        begun_s = world.loop.time()
        calls = {timeout_ms: start(links, timeout_ms=timeout_ms) for timeout_ms in (700, 300, 500)}
        for timeout_ms in sorted(calls):
            await until(partial(len, calls[timeout_ms]))
            late_s = world.loop.time() - begun_s - timeout_ms / 1000
            assert 0 <= late_s < 0.1 and isinstance(calls[timeout_ms][0], TimedOut)

    play(test)


def test_a_silent_peer_gets_a_new_connection() -> None:
    async def test(world: LinkWorld, links: PeerLinks) -> None:
        peer = await world.start_scripted()
        waiting = start(links, timeout_ms=60_000)
        begun_s = world.loop.time()
        while not waiting:
            await failure(links, timeout_ms=400)
        assert isinstance(waiting[0], TimedOut) and "sent nothing for 3 s" in str(waiting[0])
        assert world.loop.time() - begun_s < SILENT_S_MAX + 1
        assert isinstance(await failure(links, timeout_ms=100), TimedOut)
        assert peer.connections == 2

    play(test)


def test_a_peer_that_answers_other_calls_keeps_its_connection() -> None:
    async def test(world: LinkWorld, links: PeerLinks) -> None:
        peer = await world.start_scripted()
        for number in range(10):
            slow, quick = start(links, timeout_ms=500), start(links)
            await until(partial(has_received, peer, 2 * number + 2))
            peer.answer(peer.requests[-1], messages.DescribeClusterResponse(brokers=[]))
            await until(partial(len, quick))
            await until(partial(len, slow))
            assert isinstance(slow[0], TimedOut) and not isinstance(quick[0], BrokerError)
        assert peer.connections == 1

    play(test)


# -- lost connections


def test_a_lost_connection_leaves_an_unknown_outcome_and_is_opened_again() -> None:
    async def test(world: LinkWorld, links: PeerLinks) -> None:
        peer = await world.start_scripted()
        outcomes = start(links)
        await until(lambda: peer.requests)
        peer.hang_up()
        await until(lambda: outcomes)
        assert isinstance(outcomes[0], TimedOut) and "was lost before it answered" in str(outcomes[0])
        assert not world.meter.is_open
        again = start(links)
        await until(lambda: len(peer.requests) == 2)
        assert again == [] and world.meter.is_open

    play(test)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x00\x00\x00\x04\x00\x00\x00\x63", "answered request 99, which is not pending"),
        (b"\xff\xff\xff\xff", "malformed"),
        (b"\x7f\xff\xff\xff", "malformed"),
        (b"\x00\x00\x00\x05\x00\x00\x00\x06\x00", "malformed"),
        (b"HTTP/1.1 200 OK\r\n\r\n", "malformed"),
    ],
    ids=["unasked", "negative", "huge", "truncated", "foreign"],
)
def test_nonsense_from_a_peer_ends_the_connection(content: bytes, words: str) -> None:
    async def test(world: LinkWorld, links: PeerLinks) -> None:
        peer = await world.start_scripted()
        outcomes = start(links)
        await until(lambda: peer.requests)
        assert peer.requests[0].number == 6
        peer.say(content)
        await until(lambda: outcomes)
        assert isinstance(outcomes[0], TimedOut) and words in str(outcomes[0])

    play(test)


def test_a_peer_that_hangs_up_during_the_handshake_is_tried_again_later() -> None:
    async def test(world: LinkWorld, links: PeerLinks) -> None:
        peer = await world.start_scripted()
        peer.is_mute = True
        outcomes = start(links)
        await until(lambda: peer.connections)
        peer.hang_up()
        await until(lambda: outcomes)
        assert isinstance(outcomes[0], PeerUnavailable)
        assert "connection lost during the handshake" in str(outcomes[0])

    play(test)


def test_a_broker_that_crashes_and_comes_back() -> None:
    async def test(world: LinkWorld, links: PeerLinks) -> None:
        await world.start_broker()
        await links.call(PEER_ID, describe(), timeout_ms=TIMEOUT_MS)
        world.machine.kill(Farewell.RESET)
        with pytest.raises((PeerUnavailable, TimedOut)):
            await links.call(PEER_ID, describe(), timeout_ms=TIMEOUT_MS)
        await world.start_broker()
        await asyncio.sleep(BACK_OFF_S_MAX)
        assert (await links.call(PEER_ID, describe(), timeout_ms=TIMEOUT_MS)).brokers

    play(test)


# -- limits


def test_too_many_calls_are_throttled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_calls, "LINK_REQUESTS_IN_FLIGHT_MAX", 50)

    async def test(world: LinkWorld, links: PeerLinks) -> None:
        peer = await world.start_scripted()
        outcomes = [start(links) for _ in range(50)]
        over = start(links)
        assert isinstance(over[0], Throttled) and "nothing was sent" in str(over[0])
        await until(lambda: len(peer.requests) == 50)
        peer.answer(peer.requests[0], messages.DescribeClusterResponse(brokers=[]))
        await until(lambda: outcomes[0])
        assert start(links) == [], "there is room again"

    play(test)


def test_too_many_bytes_are_throttled_but_one_request_always_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_calls, "LINK_BYTES_IN_FLIGHT_MAX", 50_000)

    async def test(world: LinkWorld, links: PeerLinks) -> None:
        peer = await world.start_scripted()
        large = bytes(100_000)
        first = start(links, produce(large))
        second = start(links, produce(b"x"))
        await until(lambda: second)
        assert isinstance(second[0], Throttled) and first == []
        await until(lambda: peer.requests)
        assert peer.requests[0].body.topic_data[0].partition_data[0].records == large

    play(test)


def test_a_response_larger_than_the_first_buffer_arrives_whole() -> None:
    async def test(world: LinkWorld, links: PeerLinks) -> None:
        peer = await world.start_scripted()
        outcomes = start(links, messages.FetchRequest(topics=[]))
        await until(lambda: peer.requests)
        response = messages.FetchResponse
        records = bytes(range(256)) * 2_000
        one = response.PartitionData(records=records, aborted_transactions=None)
        topic = response.FetchableTopicResponse(topic_id=bytes(16), partitions=[one])
        peer.answer(peer.requests[0], response(responses=[topic]))
        await until(lambda: outcomes)
        found = outcomes[0].responses[0].partitions[0].records
        follow = start(links, timeout_ms=50)
        await until(lambda: follow)
        assert bytes(found) == records, "it does not lie in a buffer that is used again"

    play(test)
