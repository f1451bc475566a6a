"""Typed calls against a whole broker, and the errors that come back from it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from link_world import PEER_ID, LinkWorld, ScriptedPeer, play
from log_samples import filled_batch
from penstock.core.errors import (
    BrokerError,
    CorruptBatch,
    NotLeader,
    OffsetOutOfRange,
    TimedOut,
    UnknownEpoch,
    UnknownTopic,
    UnknownTopicId,
    WrongProducer,
)
from penstock.core.model import Isolation, PartitionId, TopicPartition
from penstock.core.records.build import open_batches
from penstock.core.records.control import Marker
from penstock.node.broker import Broker
from penstock.node.peers import peer_calls
from penstock.node.peers.links import PeerLinks
from penstock.node.peers.peer_calls import CoordinatorKeyType, RemoteAppend, WantedBatches
from penstock.node.peers.peer_queries import EARLIEST, LATEST, list_many_offsets
from penstock.wire.kafka import ErrorCode, messages

TIMEOUT_MS = 10_000
TOPIC = "orders"
PLACE = TopicPartition(TOPIC, 0)
Test = Callable[["Stage"], Coroutine[Any, Any, None]]


class Stage:
    """A broker with a topic, and links to it."""

    def __init__(self, broker: Broker, links: PeerLinks, world: LinkWorld) -> None:
        self.broker = broker
        self.links = links
        self.world = world
        self.partition = PartitionId(broker.catalog.topic(TOPIC).id, 0)

    def batch(self, count: int = 1, **more: int) -> bytes:
        return bytes(filled_batch(count, b"value", **{"time_ms": self.world.here.clock.now_ms(), **more}))

    async def append(self, batch: bytes, partition: PartitionId | None = None) -> RemoteAppend:
        outcome: asyncio.Future[RemoteAppend | BrokerError] = asyncio.get_running_loop().create_future()
        peer_calls.send_batch(
            self.links,
            PEER_ID,
            partition or self.partition,
            batch,
            outcome.set_result,
            timeout_ms=TIMEOUT_MS,
        )
        found = await outcome
        if isinstance(found, BrokerError):
            raise found
        return found

    async def fetch(self, offset: int, **more: Any) -> peer_calls.RemoteBatches:
        options: dict[str, Any] = {"bytes_max": 1_000_000, "wait_ms": 0, "timeout_ms": TIMEOUT_MS, **more}
        return await peer_calls.fetch(self.links, PEER_ID, self.partition, offset, **options)


def staged(test: Test) -> None:
    async def main(world: LinkWorld, links: PeerLinks) -> None:
        broker = await world.start_broker()
        await world.loop.spawn(world.machine.name, broker.auto_create_topic(TOPIC))
        await test(Stage(broker, links, world))

    play(main)


# -- produce and fetch


def test_a_batch_is_appended_and_read_back() -> None:
    async def test(stage: Stage) -> None:
        assert await stage.append(stage.batch(3)) == RemoteAppend(0, -1, 0)
        assert (await stage.append(stage.batch(2))).base_offset == 3
        found = await stage.fetch(0)
        assert (found.high_watermark, found.last_stable_offset, found.start_offset) == (5, 5, 0)
        assert [(one.offset, one.value) for one in open_batches(found.records)] == [
            (offset, b"value") for offset in range(5)
        ]

    staged(test)


def test_a_large_batch_arrives_unchanged() -> None:
    async def test(stage: Stage) -> None:
        batch = bytes(filled_batch(20, b"x" * 10_000, time_ms=stage.world.here.clock.now_ms()))
        await stage.append(batch)
        found = await stage.fetch(0)
        assert [one.value for one in open_batches(found.records)] == [b"x" * 10_000] * 20

    staged(test)


def test_batches_of_one_link_are_appended_in_order() -> None:
    async def test(stage: Stage) -> None:
        found = await asyncio.gather(*(stage.append(stage.batch()) for _ in range(50)))
        assert [one.base_offset for one in found] == list(range(50))

    staged(test)


def test_a_fetch_waits_for_data_and_holds_nobody_up() -> None:
    async def test(stage: Stage) -> None:
        waiting = asyncio.create_task(stage.fetch(0, wait_ms=60_000))
        await asyncio.sleep(1)
        assert not waiting.done()
        await stage.append(stage.batch())
        assert (await waiting).high_watermark == 1
        assert stage.world.loop.time() < 10

    staged(test)


def test_a_fetch_without_data_returns_empty_after_its_wait() -> None:
    async def test(stage: Stage) -> None:
        found = await stage.fetch(0, wait_ms=100)
        assert (bytes(found.records), found.high_watermark) == (b"", 0)

    staged(test)


def test_errors_of_the_other_broker_come_back_as_they_were() -> None:
    async def test(stage: Stage) -> None:
        with pytest.raises(UnknownTopicId, match="broker 3: "):
            await stage.append(stage.batch(), PartitionId(b"n" * 16, 0))
        with pytest.raises(UnknownTopic, match="there is no partition 7"):
            await stage.append(stage.batch(), stage.partition._replace(partition=7))
        with pytest.raises(CorruptBatch):
            await stage.append(stage.batch()[:-1] + b"?")
        with pytest.raises(OffsetOutOfRange):
            await stage.fetch(99)
        with pytest.raises(UnknownEpoch):
            await stage.fetch(0, leader_epoch=99)

    staged(test)


def test_offsets_are_looked_up() -> None:
    async def test(stage: Stage) -> None:
        await stage.append(stage.batch(4))
        nowhere = TopicPartition("nowhere", 0)
        wanted = [(PLACE, EARLIEST), (PLACE, LATEST), (nowhere, LATEST), (PLACE, 2**50)]
        found = await list_many_offsets(
            stage.links, PEER_ID, wanted, isolation=Isolation.READ_COMMITTED, timeout_ms=TIMEOUT_MS
        )
        offsets = [type(one) if isinstance(one, BrokerError) else one.offset for one in found]
        assert offsets == [0, 4, UnknownTopic, -1]

    staged(test)


def test_several_places_are_fetched_at_once_in_any_order() -> None:
    async def test(stage: Stage) -> None:
        await stage.world.loop.spawn(stage.world.machine.name, stage.broker.auto_create_topic("payments"))
        await stage.append(stage.batch())
        await stage.append(stage.batch(2))
        payments = PartitionId(stage.broker.catalog.topic("payments").id, 0)
        wanted = [
            WantedBatches(stage.partition, 1),
            WantedBatches(payments, 0),
            WantedBatches(stage.partition, 0),
            WantedBatches(payments, 99),
        ]
        found = await peer_calls.fetch_each(
            stage.links,
            PEER_ID,
            wanted,
            partition_bytes_max=1_000_000,
            bytes_max=1_000_000,
            wait_ms=0,
            timeout_ms=TIMEOUT_MS,
            isolation=Isolation.READ_COMMITTED,
        )
        shown = [
            type(one) if isinstance(one, BrokerError) else [each.offset for each in open_batches(one.records)]
            for one in found
        ]
        assert shown == [[1, 2], [], [0, 1, 2], OffsetOutOfRange]

    staged(test)


# -- transactions


def test_a_transaction_is_joined_verified_and_ended_from_another_broker() -> None:
    async def test(stage: Stage) -> None:
        host, broker = stage.world.machine.name, stage.broker
        producer = await stage.world.loop.spawn(host, broker.transactions.init("payments", 60_000, None))
        missing = TopicPartition("nowhere", 0)

        async def add(*places: TopicPartition, by: Any = producer, verify_only: bool = False) -> Any:
            return await peer_calls.add_partitions_to_transaction(
                stage.links, PEER_ID, "payments", by, places, timeout_ms=TIMEOUT_MS, verify_only=verify_only
            )

        failures = await add(PLACE, missing)
        assert list(failures) == [missing] and isinstance(failures[missing], UnknownTopic)
        assert await add(PLACE) == {}
        assert await add(PLACE, verify_only=True) == {}
        failures = await add(PLACE, by=(producer[0] + 1, 0))
        assert isinstance(failures[PLACE], WrongProducer)

        failures = await peer_calls.write_markers(
            stage.links,
            PEER_ID,
            (producer[0], producer[1]),
            Marker(is_commit=True, coordinator_epoch=0),
            [PLACE, missing],
            is_bumped=False,
            timeout_ms=TIMEOUT_MS,
        )
        assert list(failures) == [missing]

    staged(test)


def test_coordinators_are_looked_up() -> None:
    async def test(stage: Stage) -> None:
        for kind in CoordinatorKeyType:
            found = await peer_calls.find_coordinator(
                stage.links, PEER_ID, kind, "readers", timeout_ms=TIMEOUT_MS
            )
            assert (found.broker_id, found.port) == (PEER_ID, 9092)

    staged(test)


# -- what only a stranger would answer


def scripted(test: Callable[[ScriptedPeer, PeerLinks], Coroutine[Any, Any, None]]) -> None:
    async def main(world: LinkWorld, links: PeerLinks) -> None:
        await test(await world.start_scripted(), links)

    play(main)


async def asked(peer: ScriptedPeer) -> None:
    while not peer.requests:
        await asyncio.sleep(0.01)


def test_the_new_leader_is_named_where_the_answer_names_it() -> None:
    async def test(peer: ScriptedPeer, links: PeerLinks) -> None:
        outcomes: list[Any] = []
        partition = PartitionId(bytes(16), 0)
        peer_calls.send_batch(links, PEER_ID, partition, b"", outcomes.append, timeout_ms=TIMEOUT_MS)
        await asked(peer)
        response = messages.ProduceResponse
        leader = response.LeaderIdAndEpoch(leader_id=5, leader_epoch=12)
        one = response.PartitionProduceResponse(
            error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, base_offset=-1, current_leader=leader
        )
        topic = response.TopicProduceResponse(topic_id=bytes(16), partition_responses=[one])
        peer.answer(peer.requests.pop(), response(responses=[topic]))
        reading = asyncio.create_task(
            peer_calls.fetch(links, PEER_ID, partition, 0, bytes_max=1, wait_ms=0, timeout_ms=TIMEOUT_MS)
        )
        await asked(peer)
        fetched = messages.FetchResponse
        data = fetched.PartitionData(
            error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
            current_leader=fetched.LeaderIdAndEpoch(leader_id=6, leader_epoch=13),
            records=None,
            aborted_transactions=None,
        )
        answer = fetched.FetchableTopicResponse(topic_id=bytes(16), partitions=[data])
        peer.answer(peer.requests.pop(), fetched(responses=[answer]))
        with pytest.raises(NotLeader) as raised:
            await reading
        (produced,) = outcomes
        assert isinstance(produced, NotLeader)
        assert (produced.leader_id, produced.leader_epoch) == (5, 12)
        assert (raised.value.leader_id, raised.value.leader_epoch) == (6, 13)

    scripted(test)


def test_an_answer_about_something_else_is_an_unknown_outcome() -> None:
    async def test(peer: ScriptedPeer, links: PeerLinks) -> None:
        outcomes: list[Any] = []
        peer_calls.send_batch(
            links, PEER_ID, PartitionId(bytes(16), 0), b"", outcomes.append, timeout_ms=TIMEOUT_MS
        )
        await asked(peer)
        peer.answer(peer.requests.pop(), messages.ProduceResponse(responses=[]))
        marking = asyncio.create_task(
            peer_calls.write_markers(
                links, PEER_ID, (1, 0), Marker(True, 0), [PLACE], is_bumped=False, timeout_ms=TIMEOUT_MS
            )
        )
        await asked(peer)
        peer.answer(peer.requests.pop(), messages.WriteTxnMarkersResponse(markers=[]))
        with pytest.raises(TimedOut, match="does not match the request"):
            await marking
        assert isinstance(outcomes[0], TimedOut)

    scripted(test)
