"""What happens to the metadata log when members of its etcd die, stop or go back in time.

Nothing is lost, nothing is taken twice, and whoever saw more than the store holds refuses to act.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from contract.etcd_ground import PATIENT, SHORT, EtcdGround, etcd_log
from contract.metadata_contract import fill, opened, seen_until, state, take, topic
from etcd_cluster import EtcdCluster, running_etcd
from manual_ports import Hand, PromptWorkers
from penstock.core.errors import NotNow, TooLarge, TornSegment, WrongCluster
from penstock.core.limits import METADATA_APPEND_BYTES_MAX
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Event, Topic, TopicSaved
from penstock.node.cluster.catalog_host import CatalogHost
from penstock.node.cluster.metadata_etcd import MetadataEtcd
from penstock.node.cluster.metadata_log import Conflict, Entry
from penstock.node.etcd.client import EtcdClient
from penstock.node.runtime.slices import Sliced


@pytest.fixture(scope="module")
def etcd() -> Iterator[EtcdCluster]:
    with running_etcd() as cluster:
        yield cluster


class Side:
    """A broker: its catalog on the shared log."""

    def __init__(self, log: MetadataEtcd, number: int) -> None:
        self.log = log
        self.number = number
        self.catalog = Catalog()
        self.host = CatalogHost(log, self.catalog, Hand(workers=PromptWorkers()).runtime, self._apply)

    def _apply(self, events: Sequence[Event]) -> Sliced[None]:
        for event in events:
            self.catalog.apply(event)
            yield 1

    async def create(self, count: int) -> None:
        for one in range(count):
            name = f"b{self.number}-{one}"
            await self.host.change(
                lambda catalog, name=name: (  # type: ignore[misc]
                    catalog.decide_create_topic(name, 1, {}, topic_id=f"{name:>16}".encode(), now_ms=1)
                )
            )

    async def reach(self, index: int) -> None:
        while self.host.index < index:
            await asyncio.sleep(0.01)


async def append_surely(log: MetadataEtcd, event: Event) -> None:
    """As a host does: if the outcome is unknown, reading tells."""
    while True:
        entries = await log.read(0)
        if any(event in entry.events for entry in entries):
            return
        try:
            await log.append(entries[-1].index if entries else 0, [event])
        except NotNow:
            continue


def test_brokers_go_on_when_the_leading_member_is_killed(etcd: EtcdCluster) -> None:
    async def scene() -> None:
        ground = EtcdGround(etcd)
        sides = [Side(await ground.open(), number) for number in (1, 2)]
        for side in sides:
            side.host.start()
        await sides[0].create(3)
        leader = etcd.leader
        creating = [
            asyncio.ensure_future(side.create(12)) for side in (Side(await ground.open(), 3), *sides[1:])
        ]
        etcd.kill(leader)
        await asyncio.gather(*creating)
        end = max(side.host.index for side in sides)
        await asyncio.gather(*(side.reach(27) for side in sides))
        assert end <= 27
        names = sorted(
            [f"b1-{one}" for one in range(3)] + [f"b{b}-{one}" for b in (2, 3) for one in range(12)]
        )
        assert [sorted(topic.name for topic in side.catalog.topics) for side in sides] == [names, names]
        await asyncio.to_thread(etcd.start, leader)
        entries = await (await ground.open()).read(0)
        assert [entry.index for entry in entries] == list(range(1, 28)), "each change was taken once"
        for side in sides:
            await side.host.stop()

    asyncio.run(scene())


def test_a_member_that_stops_running_is_left(etcd: EtcdCluster) -> None:
    async def scene() -> None:
        ground = EtcdGround(etcd)
        writer, reader = await ground.open(), await ground.open()
        following, sessions = reader.follow(0), reader.follow_sessions()
        assert await anext(sessions) == ()
        first = await opened(writer, "broker-1", 1)
        waiting = asyncio.ensure_future(take(following, 1))
        await seen_until(sessions, ["broker-1"])
        await fill(writer, 0, [topic(1)])
        assert await waiting == [Entry(1, (topic(1),))], "both watches are on the first endpoint"
        etcd.pause(1)
        try:
            await fill(writer, 1, [topic(2)], [topic(3)])
            assert await take(following, 2) == [Entry(2, (topic(2),)), Entry(3, (topic(3),))]
            second = await opened(writer, "broker-2", 2)
            await seen_until(sessions, ["broker-1", "broker-2"])
            assert first.is_alive and second.is_alive, "renewals go to the others"
        finally:
            etcd.resume(1)
        await writer.close()

    asyncio.run(scene())


def test_without_a_majority_appends_fail_and_nothing_is_lost(etcd: EtcdCluster) -> None:
    async def scene() -> None:
        ground = EtcdGround(etcd)
        hasty, patient = await ground.open(SHORT), await ground.open()
        await append_surely(hasty, topic(1))
        etcd.kill(2, 3)
        for number in (2, 3):
            with pytest.raises(NotNow) as caught:
                await hasty.append(1, [topic(number)])
            assert caught.value.retriable
        with pytest.raises(NotNow, match=r"unavailable.*majority"):
            await hasty.read(0)
        waiting = asyncio.ensure_future(append_surely(patient, topic(4)))
        await asyncio.to_thread(etcd.start, 2, 3)
        await waiting
        await append_surely(hasty, topic(2))
        entries = list(await patient.read(0))
        assert [entry.index for entry in entries] == list(range(1, len(entries) + 1))
        names = [one.name for one in state(entries)]
        assert {"t1", "t2", "t4"} <= set(names) <= {"t1", "t2", "t3", "t4"}
        assert len(entries) == len(names), "none was taken twice"

    asyncio.run(scene())


def test_a_store_that_went_back_is_refused_by_whoever_saw_more(etcd: EtcdCluster, tmp_path: Path) -> None:
    async def scene() -> None:
        ground = EtcdGround(etcd)
        log = await ground.open()
        await fill(log, 0, [topic(1)])
        await ground.back_up()
        await fill(log, 1, [topic(2)])
        await ground.restore()
        for work in (log.read(2), log.append(2, [topic(3)]), anext(log.follow(2))):
            with pytest.raises(TornSegment, match="restored or replaced"):
                await work
        restarted = etcd_log(ground.target, cluster_id=log.cluster_id, seen_index=2)
        with pytest.raises(TornSegment, match="2 was seen before"):
            await restarted.open()
        behind = etcd_log(ground.target, cluster_id=log.cluster_id, seen_index=1)
        await behind.open()
        assert await behind.append(1, [topic(5)]) == 2, "whoever saw no more goes on"

    asyncio.run(scene())


def test_another_history_of_the_same_length_is_refused(etcd: EtcdCluster) -> None:
    async def scene() -> None:
        ground = EtcdGround(etcd)
        log = await ground.open()
        await fill(log, 0, [topic(1)], [topic(2)])
        following = log.follow(2)
        waiting = asyncio.ensure_future(anext(following))
        etcd.ctl("del", "--prefix", f"{ground.target.prefix}/")
        with pytest.raises(TornSegment, match="has no metadata, but this broker has seen index 2"):
            await log.read(2)
        other = etcd_log(ground.target, cluster_id=log.cluster_id)
        await other.open()
        await fill(other, 0, [topic(7)], [topic(8)])
        for work in (log.read(2), log.append(2, [topic(3)]), waiting):
            with pytest.raises(TornSegment, match=r"the log was replaced|was seen before|no metadata"):
                await work
        await fill(other, 2, [topic(9)])
        assert await log.append(2, [topic(3)]) == Conflict(3)
        with pytest.raises(TornSegment, match="the log was replaced"):
            await log.read(2)

    asyncio.run(scene())


def test_a_broker_of_another_cluster_is_refused(etcd: EtcdCluster) -> None:
    async def scene() -> None:
        ground = EtcdGround(etcd)
        log = await ground.open()
        assert len(log.cluster_id) == 22
        assert (await ground.open()).cluster_id == log.cluster_id
        with pytest.raises(WrongCluster, match=f"holds cluster {log.cluster_id}, but .* cluster other"):
            await etcd_log(ground.target, cluster_id="other").open()
        empty = EtcdGround(etcd).target
        with pytest.raises(TornSegment, match="has no metadata"):
            await etcd_log(empty, cluster_id=log.cluster_id, seen_index=4).open()

    asyncio.run(scene())


def wide_topics(count: int, start: int = 1) -> list[Event]:
    """Events of a kilobyte each."""
    return [
        TopicSaved(Topic(number.to_bytes(16, "big"), f"{number:0>240}", 1, {"cleanup.policy": "compact"}))
        for number in range(start, start + count)
    ]


def chunk_count(ground: EtcdGround) -> int:
    found = ground.etcd.ctl("get", "--prefix", f"{ground.target.prefix}/chunk/", "--keys-only").stdout
    return len(found.split())


def test_large_appends_and_snapshots_are_stored_in_chunks(etcd: EtcdCluster) -> None:
    async def scene() -> None:
        ground = EtcdGround(etcd)
        writer, reader = await ground.open(), await ground.open()
        following = reader.follow(0)
        waiting = asyncio.ensure_future(take(following, 2))
        large = wide_topics(8_000)
        assert await writer.append(0, large) == 8_000
        assert await writer.append(8_000, [topic(9_001)]) == 8_001
        expected = [Entry(8_000, tuple(large)), Entry(8_001, (topic(9_001),))]
        assert await waiting == expected
        assert list(await reader.read(0)) == expected
        chunks = chunk_count(ground)
        assert chunks > 1
        await writer.compact()
        assert chunk_count(ground) == chunks, "those of the snapshot"
        (snapshot,) = await reader.read(0)
        assert (snapshot.index, snapshot.is_snapshot, len(snapshot.events)) == (8_001, True, 8_001)
        await writer.append(8_001, [topic(9_002)])
        await writer.compact()
        assert chunk_count(ground) == chunks, "those of the new snapshot"

    asyncio.run(scene())


def test_chunks_that_nobody_names_are_removed_but_not_at_once(etcd: EtcdCluster) -> None:
    async def scene() -> None:
        ground = EtcdGround(etcd)
        log = await ground.open()
        await fill(log, 0, [topic(1)])
        etcd.ctl("put", f"{ground.target.prefix}/chunk/{'ab' * 16}/000000", "half an append")
        await log.compact()
        assert chunk_count(ground) == 1, "somebody may be writing them just now"
        await fill(log, 1, [topic(2)])
        await log.compact()
        assert chunk_count(ground) == 0

    asyncio.run(scene())


def test_an_append_that_is_too_large_is_refused(etcd: EtcdCluster) -> None:
    async def scene() -> None:
        log = await EtcdGround(etcd).open()
        with pytest.raises(TooLarge, match="split it"):
            await log.append(0, wide_topics(METADATA_APPEND_BYTES_MAX // 300))
        assert await log.append(0, [topic(1)]) == 1

    asyncio.run(scene())


def test_of_several_that_compact_one_writes_the_snapshot(etcd: EtcdCluster) -> None:
    async def scene() -> None:
        ground = EtcdGround(etcd)
        logs = [await ground.open() for _ in range(4)]
        index = await fill(logs[0], 0, *([topic(1, number)] for number in range(1, 30)))
        appending = asyncio.ensure_future(
            fill(logs[0], index, *([topic(2, number)] for number in range(1, 30)))
        )
        await asyncio.gather(*(log.compact() for log in logs))
        index = await appending
        for log in logs:
            entries = list(await log.read(0))
            assert entries[-1].index == index
            assert [one.name for one in state(entries)] == ["t1", "t2"]
            assert [one.overrides["retention.ms"] for one in state(entries)] == ["29", "29"]

    asyncio.run(scene())


def test_a_watch_from_a_forgotten_revision_says_so(etcd: EtcdCluster) -> None:
    async def scene() -> None:
        ground = EtcdGround(etcd)
        log = await ground.open()
        await fill(log, 0, [topic(1)], [topic(2)])
        await ground.forget_history()
        client = EtcdClient(ground.target, PATIENT)
        prefix = ground.target.prefix.encode()
        stream = await client.watch(prefix + b"/", prefix + b"0", 1)
        while (message := await stream.next(30)) is not None and message.cancel_reason is None:
            assert not message.changes
        assert message is not None and message.compact_revision > 1
        client.close()

    asyncio.run(scene())


def test_a_broker_that_stops_ends_its_sessions_at_once(etcd: EtcdCluster) -> None:
    async def scene() -> None:
        ground = EtcdGround(etcd)
        log, other = await ground.open(), await ground.open()
        sessions = other.follow_sessions()
        held = [await opened(log, name, 1) for name in ("broker-1", "controller")]
        await seen_until(sessions, ["broker-1", "controller"])
        await log.close()
        assert not any(one.is_alive for one in held)
        assert await anext(other.follow_sessions()) == ()

    asyncio.run(scene())
