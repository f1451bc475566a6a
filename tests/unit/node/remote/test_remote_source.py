"""Records read at any broker of a cluster: as at the leader, with the same isolation, waits and limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from cluster_client import (
    SESSION,
    TIME_MS,
    ClusterClient,
    leader_id,
    make_topic,
    prepared,
    put,
    values,
)
from cluster_nodes import ClusterNodes, on_a_cluster, until
from penstock.core.errors import (
    BrokerError,
    LeaderNotAvailable,
    OffsetOutOfRange,
    PeerUnavailable,
    UnknownTopic,
)
from penstock.core.model import Isolation, NewRecord
from penstock.core.records.batch import TRANSACTIONAL, decode_header, encode_header, stamp_checksum
from penstock.core.records.build import build_batch
from penstock.core.records.control import Marker
from penstock.node.replicas.partition import Partition
from penstock.node.waist.pages import Page, Pages
from penstock.node.waist.positions import Edge
from penstock.node.waist.publisher import Published
from penstock.node.waist.reader import Run, Source, Wanted

DIRTY = Isolation.READ_UNCOMMITTED


def play(test: Callable[[ClusterNodes], Any], seed: int = 1) -> None:
    on_a_cluster(test, seed=seed, has_doors=True)


async def put_in_transaction(partition: Partition, producer: int, sequence: int, *found: bytes) -> None:
    batch = build_batch([NewRecord(None, value) for value in found], TIME_MS)
    changed = decode_header(batch)._replace(
        attributes=TRANSACTIONAL, producer_id=producer, producer_epoch=0, base_sequence=sequence
    )
    batch[: len(encode_header(changed))] = encode_header(changed)
    stamp_checksum(batch)
    appended = partition.append(memoryview(batch), in_transaction=True)
    await until(lambda: partition.high_watermark >= appended.end_offset)


async def end_transaction(partition: Partition, producer: int, *, is_commit: bool) -> None:
    appended = partition.append_marker(producer, 0, Marker(is_commit=is_commit, coordinator_epoch=0))
    assert appended is not None
    await until(lambda: partition.high_watermark >= appended.end_offset)


def test_from_any_offset_within_a_batch_and_over_batches() -> None:
    async def test(nodes: ClusterNodes) -> None:
        partition, (client, _) = await prepared(nodes)
        await put(partition, b"0", b"1", b"2")
        await put(partition, b"3", b"4", codec=1)
        await put(partition, b"5")
        for offset in range(6):
            for records_max in (1, 2, 3, 7):
                run = await client.read(Wanted("orders", 0, offset, records_max))
                assert isinstance(run, Run)
                expected = list(range(offset, min(offset + records_max, 6)))
                assert values(run) == [b"%d" % number for number in expected[: len(run.records)]]
                assert run.records and run.next_offset == offset + len(run.records)
                assert (run.start_offset, run.end_offset) == (0, 6)
        assert await client.read(Wanted("orders", 0, 6)) == Run([], 6, 0, 6)
        for bytes_max, count in ((0, 1), (1, 1), (2, 2), (10**9, 3)):
            run = await client.read(Wanted("orders", 0, 0, 3, bytes_max))
            assert len(values(run)) == count, bytes_max

    play(test)


def test_errors_are_answers() -> None:
    async def test(nodes: ClusterNodes) -> None:
        partition, (client, _) = await prepared(nodes)
        await put(partition, b"0")
        for wanted, error in (
            (Wanted("nowhere", 0, 0), UnknownTopic),
            (Wanted("orders", 1, 0), UnknownTopic),
            (Wanted("orders", 0, 5, wait_ms=1_000), OffsetOutOfRange),
            (Wanted("orders", 0, -1), OffsetOutOfRange),
        ):
            assert type(await client.read(wanted)) is error

    play(test)


def test_waiting_ends_with_data_with_time_or_with_the_doors() -> None:
    async def test(nodes: ClusterNodes) -> None:
        partition, (client, other) = await prepared(nodes)
        loop = asyncio.get_running_loop()
        assert await client.read(Wanted("orders", 0, 0)) == Run([], 0, 0, 0)
        patient = [await one.start_read(Wanted("orders", 0, 0, wait_ms=60_000)) for one in (client, other)]
        before = loop.time()
        assert await client.read(Wanted("orders", 0, 0, wait_ms=2_500)) == Run([], 0, 0, 0)
        assert 2.4 < loop.time() - before < 3.5, "on virtual time"
        assert not any(one.done() for one in patient)
        await put(partition, b"x")
        assert [values(await one) for one in patient] == [[b"x"], [b"x"]]
        closing = await client.start_read(Wanted("orders", 0, 1, wait_ms=60_000))
        await asyncio.sleep(1)
        client.reader.release_waiting()
        assert await closing == Run([], 1, 0, 1)

    play(test)


def test_who_leaves_while_waiting_is_not_answered() -> None:
    async def test(nodes: ClusterNodes) -> None:
        partition, (client, _) = await prepared(nodes)
        at_once = await client.start_read(Wanted("orders", 0, 0, wait_ms=60_000))
        client.leave()  # while the first fetch is in flight
        waiting = await client.start_read(Wanted("orders", 0, 0, wait_ms=60_000))
        await asyncio.sleep(2)
        client.leave()
        await put(partition, b"x")
        await asyncio.sleep(5)
        assert not at_once.done() and not waiting.done()

    play(test)


def test_a_reader_of_a_partition_that_is_about_to_be_led_here_does_not_spin() -> None:
    async def test(nodes: ClusterNodes) -> None:
        partition, _ = await prepared(nodes)
        await put(partition, b"0")
        client = ClusterClient(nodes, leader_id(nodes, "orders"))
        (source,) = await client.run(opened(client))
        calls: list[int] = []

        async def resign() -> None:
            partition.follow(partition.leader_epoch)

        async def lead() -> None:
            partition.lead(partition.leader_epoch)

        def read() -> None:
            calls.append(len(source.read(Wanted("orders", 0, 0), read).records))

        async def begin() -> None:
            read()

        await client.run(resign())
        assert type(await client.read(Wanted("orders", 0, 0))) is LeaderNotAvailable
        await client.run(begin())
        await asyncio.sleep(10)
        assert 2 < len(calls) < 40 and not any(calls)
        await client.run(lead())
        await until(lambda: calls[-1] == 1)

    play(test)


async def opened(client: ClusterClient) -> Sequence[Source]:
    return client.reader.sources(SESSION, "orders", 0)


def test_an_error_belongs_to_the_offset_that_was_asked_for() -> None:
    async def test(nodes: ClusterNodes) -> None:
        partition, (client, _) = await prepared(nodes)
        for number in range(4):
            await put(partition, b"%d" % number)
        await partition.delete_records(2)
        (source,) = await client.run(opened(client))
        woken: list[int] = []
        found: list[bytes | None] = []

        async def read(offset: int) -> None:
            run = source.read(Wanted("orders", 0, offset), lambda: woken.append(offset))
            found.extend(record.value for record in run.records)

        await client.run(read(0))
        await until(lambda: woken == [0])
        assert source.start_offset == 2, "a reader that looks at it goes on there"
        await client.run(read(2))
        await until(lambda: woken == [0, 2])
        await client.run(read(2))
        assert found == [b"2"]

    play(test)


def test_what_was_aborted_is_left_out_and_what_is_open_is_waited_for() -> None:
    async def test(nodes: ClusterNodes) -> None:
        partition, (client, _) = await prepared(nodes)
        everything = Wanted("orders", 0, 0, 100)
        dirty = everything._replace(isolation=DIRTY)
        await put_in_transaction(partition, 7, 0, b"aborted")
        assert await client.read(everything) == Run([], 0, 0, 0)
        assert values(await client.read(dirty)) == [b"aborted"]
        waiting = await client.start_read(everything._replace(wait_ms=600_000))
        await end_transaction(partition, 7, is_commit=False)
        await asyncio.sleep(3)
        assert not waiting.done(), "nothing to see yet"
        await put_in_transaction(partition, 7, 1, b"committed")
        await put_in_transaction(partition, 8, 0, b"aborted too")
        await end_transaction(partition, 7, is_commit=True)
        await put(partition, b"plain")
        await end_transaction(partition, 8, is_commit=False)
        assert values(await waiting) == [b"committed"]
        assert await all_values(client, everything) == [b"committed", b"plain"]
        assert await all_values(client, dirty) == [b"aborted", b"committed", b"aborted too", b"plain"]
        for offset in range(partition.high_watermark):
            wanted = everything._replace(offset=offset, records_max=1)
            assert await all_values(client, wanted) == [
                value for at, value in ((2, b"committed"), (5, b"plain")) if at >= offset
            ]

    play(test)


async def all_values(client: ClusterClient, wanted: Wanted) -> list[bytes | None]:
    """Read on until the end."""
    found: list[bytes | None] = []
    while True:
        run = await client.read(wanted)
        found += values(run)
        assert isinstance(run, Run)
        if run.next_offset >= run.end_offset:
            return found
        assert run.next_offset > wanted.offset, "it goes on"
        wanted = wanted._replace(offset=run.next_offset)


def test_a_large_compressed_batch_is_opened_in_a_worker_once() -> None:
    async def test(nodes: ClusterNodes) -> None:
        partition, (client, _) = await prepared(nodes)
        await put(partition, *[b"%07d" % number * 100 for number in range(1_000)], codec=1)
        found = await all_values(client, Wanted("orders", 0, 0, 300))
        assert [value and value[:7] for value in found] == [b"%07d" % number for number in range(1_000)]
        assert values(await client.read(Wanted("orders", 0, 999))) == [b"%07d" % 999 * 100]

    play(test)


def test_positions_by_time_and_at_the_edges() -> None:
    async def test(nodes: ClusterNodes) -> None:
        partition, (client, _) = await prepared(nodes)
        await put(partition, b"a", time_ms=1_000)
        await put(partition, b"b", b"c", time_ms=2_000)
        await put_in_transaction(partition, 7, 0, b"open")

        async def start(
            when: Edge | int, isolation: Isolation = Isolation.READ_COMMITTED
        ) -> int | BrokerError:
            found: asyncio.Future[int | BrokerError] = asyncio.get_running_loop().create_future()
            client.reader.start(SESSION, "orders", 0, when, isolation, found.set_result)
            return await found

        asked = (0, 1_001, 2_001, Edge.EARLIEST, Edge.LATEST)
        assert [await client.run(start(when)) for when in asked] == [0, 1, 3, 0, 3]
        assert await client.run(start(Edge.LATEST, DIRTY)) == 4
        source = client.reader.source(SESSION, "orders", 0)
        starts = client.reader.starts(SESSION, "orders", [source], Edge.LATEST, DIRTY)
        assert await client.run(starts) == [4]
        await client.run(client.reader.check(SESSION, Wanted("orders", 0, 3)))
        with pytest.raises(OffsetOutOfRange):
            await client.run(client.reader.check(SESSION, Wanted("orders", 0, 5)))

    play(test)


def test_pages_take_what_one_round_trip_brings() -> None:
    async def test(nodes: ClusterNodes) -> None:
        partition, (client, _) = await prepared(nodes)
        for number in range(30):
            await put(partition, *[b"%04d" % (number * 100 + one) for one in range(100)])

        async def page(wanted: Wanted) -> Page:
            answer: asyncio.Future[Page | BrokerError] = asyncio.get_running_loop().create_future()
            encode = lambda records: b",".join(one.value for one in records)  # noqa: E731
            Pages(client.reader).read(SESSION, client, wanted, encode, answer.set_result)
            outcome = await answer
            assert isinstance(outcome, Page), outcome
            return outcome

        meter = nodes.brokers[client.broker_id].runtime.meters.forwards
        before = meter.reads
        found = await client.run(page(Wanted("orders", 0, 0, records_max=2_000, bytes_max=1 << 20)))
        assert b",".join(found.pieces).split(b",") == [b"%04d" % number for number in range(2_000)]
        assert (found.next_offset, found.start_offset, found.end_offset) == (2_000, 0, 3_000)
        assert meter.reads - before == 1
        rest = await client.run(page(Wanted("orders", 0, 2_000, records_max=10_000, bytes_max=2_000)))
        assert len(b",".join(rest.pieces).split(b",")) == 500 and rest.next_offset == 2_500

    play(test)


class Follower:
    """Follows sources as a tail does."""

    def __init__(self, client: ClusterClient, topic: str, starts: dict[int, int]) -> None:
        self.client = client
        self.found: list[tuple[int, bytes]] = []
        self.skipped: list[int] = []
        self._topic = topic
        self._next = starts
        self.sources = [one for one in client.reader.sources(SESSION, topic, None) if one.index in starts]

    def start(self) -> None:
        for one in self.sources:
            one.add_listener(self.step)
        self.step()

    def stop(self) -> None:
        for one in self.sources:
            one.remove_listener(self.step)

    def step(self) -> None:
        for one in self.sources:
            while self._read(one):
                pass

    def _read(self, source: Source) -> bool:
        wanted = Wanted(self._topic, source.index, self._next[source.index], records_max=10)
        try:
            run = source.read(wanted, self.step)
        except OffsetOutOfRange:
            self.skipped.append(source.start_offset)
            self._next[source.index] = source.start_offset
            return True
        self.found += [(source.index, record.value or b"") for record in run.records]
        self._next[source.index] = run.next_offset
        return run.next_offset > wanted.offset


async def begin(follower: Follower) -> None:
    follower.start()


@pytest.mark.parametrize("seed", range(3))
def test_a_tail_follows_all_partitions_through_a_killed_leader(seed: int) -> None:
    async def test(nodes: ClusterNodes) -> None:
        await make_topic(nodes, "orders", 6)
        client = ClusterClient(nodes, 1)
        follower = Follower(client, "orders", dict.fromkeys(range(6), 0))
        await client.run(begin(follower))
        expected: list[tuple[int, bytes]] = []

        async def publish(name: bytes, indexes: list[int]) -> None:
            for index in indexes:
                value = b"%s %d" % (name, index)
                await client.publish("orders", value, partition=index)
                expected.append((index, value))
            await client.all()
            assert all(isinstance(one, Published) for one in client.told.values())

        await publish(b"first", list(range(6)))
        await until(lambda: sorted(follower.found) == sorted(expected))
        killed = next(one for one in (2, 3))
        alive = [index for index in range(6) if leader_id(nodes, "orders", index) != killed]
        nodes.kill(killed)
        await publish(b"second", alive)
        await until(lambda: sorted(follower.found) == sorted(expected))
        nodes.expire(killed)
        await asyncio.sleep(20)
        await nodes.start(killed)
        await nodes.converged()
        await publish(b"third", list(range(6)))
        await until(lambda: sorted(follower.found) == sorted(expected))
        follower.stop()
        await publish(b"unseen", list(range(6)))
        await asyncio.sleep(5)
        assert len(follower.found) == len(expected) - 6

    play(test, seed)


def test_a_reader_that_fell_behind_learns_where_to_go_on() -> None:
    async def test(nodes: ClusterNodes) -> None:
        partition, (client, _) = await prepared(nodes)
        for number in range(5):
            await put(partition, b"%d" % number)
        deleting = nodes.run_on(leader_id(nodes, "orders"), partition.delete_records(3))
        assert await deleting == 3
        follower = Follower(client, "orders", {0: 1})
        await client.run(begin(follower))
        await until(lambda: len(follower.found) == 2)
        assert follower.skipped == [3] and follower.found == [(0, b"3"), (0, b"4")]
        follower.stop()

    play(test)


def test_a_tail_reads_few_partitions_ahead() -> None:
    """A slow client costs the memory of a few partitions, not of all."""

    async def test(nodes: ClusterNodes) -> None:
        await make_topic(nodes, "orders", 60)
        client = ClusterClient(nodes, 1)
        for index in range(60):
            await client.publish("orders", b"%d" % index, partition=index)
        await client.all()
        meter = nodes.brokers[1].runtime.meters.forwards
        before = meter.reads
        sources = client.reader.sources(SESSION, "orders", None)

        async def look() -> int:
            for one in sources:
                one.read(Wanted("orders", one.index, 0), lambda: None)
            await asyncio.sleep(3)
            return meter.reads - before

        assert await client.run(look()) == 16
        follower = Follower(client, "orders", dict.fromkeys(range(60), 0))
        await client.run(begin(follower))
        await until(lambda: len(follower.found) == 60)
        follower.stop()

    play(test)


def test_a_leader_that_is_gone_fails_reads_and_its_return_serves_them() -> None:
    async def test(nodes: ClusterNodes) -> None:
        partition, (client, _) = await prepared(nodes)
        await put(partition, b"x")
        leader = leader_id(nodes, "orders")
        nodes.kill(leader)
        during = await client.start_read(Wanted("orders", 0, 0))
        assert isinstance(await during, PeerUnavailable | LeaderNotAvailable)
        nodes.expire(leader)
        await until(lambda: nodes.brokers[client.broker_id].leader_of("orders", 0) == -1)
        assert isinstance(await client.read(Wanted("orders", 0, 0)), LeaderNotAvailable)
        waiting = await client.start_read(Wanted("orders", 0, 0))
        assert isinstance(await waiting, LeaderNotAvailable)
        await nodes.start(leader)
        await nodes.converged()
        assert values(await client.read(Wanted("orders", 0, 0))) == [b"x"]

    play(test)


def test_a_lost_link_is_not_the_readers_business() -> None:
    async def test(nodes: ClusterNodes) -> None:
        partition, (client, _) = await prepared(nodes)
        leader = leader_id(nodes, "orders")
        waiting = await client.start_read(Wanted("orders", 0, 0, wait_ms=60_000))
        await asyncio.sleep(2)
        assert nodes.net.reset(nodes.host(client.broker_id), nodes.host(leader)) >= 1
        await asyncio.sleep(2)
        assert not waiting.done()
        await put(partition, b"x")
        assert values(await waiting) == [b"x"]

    play(test)


def test_damage_in_a_partition_elsewhere_is_an_error_after_all_intact_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The leader's own readers skip it; Kafka's protocol does not tell others how far."""

    async def test(nodes: ClusterNodes) -> None:
        from penstock.core.errors import CorruptBatch

        partition, (client, _) = await prepared(nodes)
        for number in range(3):
            await put(partition, b"%d" % number)
        real = type(partition).read

        def read(self: Partition, offset: int, bytes_max: int, isolation: Isolation = DIRTY) -> Any:
            if self is partition and (offset == 2 or bytes_max > 1):
                raise CorruptBatch("planted")
            return real(self, offset, bytes_max, isolation)

        monkeypatch.setattr(type(partition), "read", read)
        first = await client.read(Wanted("orders", 0, 0, records_max=10))
        assert values(first) == [b"0"]
        assert isinstance(await client.read(Wanted("orders", 0, 2, records_max=10)), CorruptBatch)

    play(test)
