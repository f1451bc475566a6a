"""Links under control: who is reached, who is refused, and what a caller may conclude from each error."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from link_world import KEY, MY_ID, PEER_ID, LinkWorld, play
from penstock.core.errors import BrokerError, PeerUnavailable, Throttled, TimedOut, UnsupportedVersion
from penstock.core.model import Address
from penstock.node.peers import pending_calls
from penstock.node.peers.link import BACK_OFF_S_MAX, CONNECT_S_MAX, SILENT_S_MAX
from penstock.node.peers.link_opening import LinkPeer
from penstock.node.peers.links import IDLE_S_MAX, SWEEP_S, PeerLinks
from penstock.wire.kafka import ApiKey, messages
from sim import node as sim_node
from sim.net import Farewell

TIMEOUT_MS = 10_000


def describe() -> messages.DescribeClusterRequest:
    return messages.DescribeClusterRequest(endpoint_type=1)


def produce(content: bytes) -> messages.ProduceRequest:
    request = messages.ProduceRequest
    one = request.PartitionProduceData(index=0, records=memoryview(content))
    return request(acks=-1, topic_data=[request.TopicProduceData(topic_id=bytes(16), partition_data=[one])])


async def failure(links: PeerLinks, timeout_ms: int = TIMEOUT_MS, broker_id: int = PEER_ID) -> BrokerError:
    """The error of a call that cannot succeed."""
    with pytest.raises(BrokerError) as raised:
        await links.call(broker_id, describe(), timeout_ms=timeout_ms)
    return raised.value


async def until(condition: Callable[[], object]) -> None:
    """Let virtual time pass until something has become so."""
    while not condition():
        await asyncio.sleep(0.01)


def start(links: PeerLinks, request: Any = None, timeout_ms: int = TIMEOUT_MS) -> list[Any]:
    """A call whose outcome will be in the list."""
    outcomes: list[Any] = []
    links.send(PEER_ID, request or describe(), outcomes.append, timeout_ms=timeout_ms)
    return outcomes


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
            await until(lambda calls=calls, timeout_ms=timeout_ms: calls[timeout_ms])
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
            await until(lambda number=number: len(peer.requests) == 2 * number + 2)
            peer.answer(peer.requests[-1], messages.DescribeClusterResponse(brokers=[]))
            await until(lambda slow=slow, quick=quick: slow and quick)
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
        (b"\x00\x00\x00\x05\x00\x00\x00\x05\x00", "malformed"),
        (b"HTTP/1.1 200 OK\r\n\r\n", "malformed"),
    ],
    ids=["unasked", "negative", "huge", "truncated", "foreign"],
)
def test_nonsense_from_a_peer_ends_the_connection(content: bytes, words: str) -> None:
    async def test(world: LinkWorld, links: PeerLinks) -> None:
        peer = await world.start_scripted()
        outcomes = start(links)
        await until(lambda: peer.requests)
        assert peer.requests[0].number == 5
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
        one = response.PartitionData(records=records, aborted_transactions=None)  # type: ignore[arg-type]
        topic = response.FetchableTopicResponse(topic_id=bytes(16), partitions=[one])
        peer.answer(peer.requests[0], response(responses=[topic]))
        await until(lambda: outcomes)
        found = outcomes[0].responses[0].partitions[0].records
        follow = start(links, timeout_ms=50)
        await until(lambda: follow)
        assert bytes(found) == records, "it does not lie in a buffer that is used again"

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
