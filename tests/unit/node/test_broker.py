"""The waist: what a node keeps over clean and unclean stops, and how topics come and go."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from cluster_nodes import ClusterNodes, on_a_cluster
from manual_ports import Hand, PromptWorkers, run, turns
from penstock.core.errors import DiskFailed, NotLeader, Offline, TopicExists, UnknownTopic
from penstock.core.limits import PRODUCER_IDS_BLOCK
from penstock.core.log.segment import Segment
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Event
from penstock.core.model import Storage
from penstock.core.session import Session
from penstock.node import checkpoint
from penstock.node.broker import TOPICS_DIRECTORY, Broker, start_broker
from penstock.node.cluster.metadata_file import DIRECTORY as METADATA
from penstock.node.replicas.partition import Partition
from penstock.node.runtime.disk import DiskFiles
from penstock.node.runtime.runtime import Runtime
from penstock.node.settings import Settings
from penstock.node.topic_creation import NewTopic
from penstock.node.waist.waist import Waist
from sim.disk import SimDisk
from sim.hosts import PowerLost
from sim.metadata_model import Fault, ModelMetadataLog

SETTINGS = Settings(storage=Storage.MEMORY, retention_check_ms=10**9, checkpoint_interval_ms=10**9)


def surroundings(disk: SimDisk | None = None) -> Hand:
    disk = disk or SimDisk(random.Random(1))
    hand = Hand(disk.mount(), PromptWorkers())
    hand.disk = disk
    return hand


async def start(hand: Hand, settings: Settings = SETTINGS) -> Broker:
    return await start_broker(settings, hand.runtime)


async def make_topic(broker: Broker, name: str, partitions: int = 1, **overrides: str) -> None:
    topic_id = broker.new_topic_id()
    configs = {key.replace("_", "."): value for key, value in overrides.items()}
    await broker.change(
        lambda catalog: catalog.decide_create_topic(name, partitions, configs, topic_id=topic_id, now_ms=1)
    )


async def fill(hand: Hand, broker: Broker, name: str, count: int = 5) -> None:
    partition = broker.partition(name, 0)
    for _ in range(count):
        partition.append(hand.batch(size=300))
    await partition.sync_dirty()


def test_a_clean_stop_leaves_its_mark_and_the_next_start_scans_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        hand = surroundings()
        broker = await start(hand)
        await make_topic(broker, "orders", segment_bytes="1024")
        await fill(hand, broker, "orders", 20)
        assert await broker.stop()
        points = checkpoint.load_recovery_points(hand.files)
        assert sorted(points.values()) == [2, 20], "the metadata log and the partition, each to its end"
        scanned: list[int] = []
        scan = Segment.scan

        def counting(self: Segment, position: int, end: int, interval: int) -> None:
            scanned.append(end - position)
            scan(self, position, end, interval)

        monkeypatch.setattr(Segment, "scan", counting)
        again = await start(hand)
        assert sum(scanned) == 0
        assert again.identity.run_epoch == 0
        assert again.partition("orders", 0).end_offset == 20
        assert again.identity.cluster_id == broker.identity.cluster_id
        await again.stop()

    run(test)


def test_after_an_unclean_stop_the_epoch_goes_up_and_is_written_into_new_batches() -> None:
    async def test() -> None:
        hand = surroundings()
        broker = await start(hand)
        await make_topic(broker, "orders")
        await fill(hand, broker, "orders", 3)
        hand.disk.crash()
        after = surroundings(hand.disk)
        again = await start(after)
        partition = again.partition("orders", 0)
        assert (again.identity.run_epoch, partition.end_offset) == (1, 3)
        await fill(after, again, "orders", 2)
        assert partition.epoch_end(0) == (0, 3)
        assert partition.epoch_end(1) == (1, 5)
        await again.stop()

    run(test)


def test_every_partition_leads_in_an_epoch_of_its_own() -> None:
    """A log that is ahead of the identity file, as after a restore of an older one, goes on above its own epochs."""

    async def test() -> None:
        hand = surroundings()
        broker = await start(hand)
        for name in ("orders", "bills"):
            await make_topic(broker, name)
        broker.partition("orders", 0).lead(7)
        for name in ("orders", "bills"):
            await fill(hand, broker, name, 1)
        await broker.stop()
        again = await start(surroundings(hand.disk))
        assert [again.partition(name, 0).leader_epoch for name in ("orders", "bills")] == [8, 0]
        assert again.metadata_epoch == again.identity.run_epoch == 0
        await again.stop()

    run(test)


def test_an_epoch_is_on_disk_before_anybody_leads_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        hand = surroundings()
        broker = await start(hand)
        await make_topic(broker, "orders", partitions=3)
        await fill(hand, broker, "orders")
        hand.disk.crash()
        after = surroundings(hand.disk)
        found: list[int] = []

        def lead(self: Partition, epoch: int) -> None:
            found.append(epoch)
            raise PowerLost

        monkeypatch.setattr(Partition, "lead", lead)
        with pytest.raises(PowerLost):
            await start(after)
        hand.disk.crash()
        assert found == [1]
        assert (
            checkpoint.load_identity(hand.disk.mount(), after.runtime.rng, 0, was_clean=True).run_epoch == 1
        )

    run(test)


def test_starting_many_partitions_after_a_crash_syncs_none_for_its_epoch() -> None:
    async def syncs_of_start(partitions: int) -> int:
        hand = surroundings()
        broker = await start(hand)
        await make_topic(broker, "orders", partitions=partitions)
        hand.disk.crash()
        after = surroundings(hand.disk)
        before = hand.disk.counters.file_syncs + hand.disk.counters.dir_syncs
        await start(after)
        return hand.disk.counters.file_syncs + hand.disk.counters.dir_syncs - before

    async def test() -> None:
        assert await syncs_of_start(20) == await syncs_of_start(1)

    run(test)


def test_a_full_disk_at_the_end_is_no_clean_stop_and_nothing_is_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        hand = surroundings()
        broker = await start(hand)
        await make_topic(broker, "orders")
        await fill(hand, broker, "orders", 3)
        hand.disk.fill_after(0)
        assert not await broker.stop()
        hand.disk.enlarge()
        assert not checkpoint.take_clean_marker(hand.files)
        again = await start(surroundings(hand.disk))
        assert again.partition("orders", 0).end_offset == 3
        assert await again.stop()

    run(test)
    assert "the next start will verify all logs" in caplog.text


def test_a_partition_that_failed_leaves_no_mark_of_a_clean_stop() -> None:
    async def test() -> None:
        hand = surroundings()
        broker = await start(hand)
        await make_topic(broker, "orders")
        await make_topic(broker, "bills")
        await fill(hand, broker, "orders", 3)
        broker.partition("orders", 0).append(hand.batch())
        hand.disk.fail_sync_at(1)
        await broker.partition("orders", 0).sync_dirty()
        assert broker.partition("bills", 0).append(hand.batch()).base_offset == 0, "the others work on"
        assert not await broker.stop()
        assert not checkpoint.take_clean_marker(hand.files)

    run(test)


def test_a_partition_whose_log_is_wanting_is_offline_and_the_others_are_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        hand = surroundings()
        broker = await start(hand)
        for name in ("orders", "bills"):
            await make_topic(broker, name)
            await fill(hand, broker, name)
        directory = broker.partition("orders", 0).log.directory
        assert await broker.stop()
        for name in hand.files.names(directory):
            hand.files.remove(f"{directory}/{name}")
        again = await start(hand)
        with pytest.raises(Offline, match="were durable"):
            again.partition("orders", 0).read(0, 100)
        assert again.partition("bills", 0).read(0, 10_000) is not None
        assert not await again.stop()

    run(test)
    assert "offline" in caplog.text


def test_a_topic_exists_only_once_that_is_durable() -> None:
    async def test() -> None:
        disk = SimDisk(random.Random(1))
        hand = surroundings(disk)
        broker = await start(hand)
        held = Hand(hand.files)
        runtime = Runtime(hand.clock, hand.runtime.rng, hand.files, held.workers)
        assert broker._file is not None
        broker.runtime = broker._file._runtime = runtime
        making = asyncio.create_task(make_topic(broker, "orders"))
        await turns()
        assert broker.catalog.find("orders") is None
        held.workers.do_next()
        await making
        assert broker.partition("orders", 0).end_offset == 0
        disk.crash()
        again = await start(surroundings(disk))
        assert again.catalog.find("orders") is not None

    run(test)


def test_a_metadata_log_that_cannot_be_flushed_changes_nothing_any_more() -> None:
    async def test() -> None:
        hand = surroundings()
        broker = await start(hand)
        await make_topic(broker, "orders")
        hand.disk.fail_sync_at(1)
        with pytest.raises(DiskFailed):
            await make_topic(broker, "bills")
        assert broker.catalog.find("bills") is None
        with pytest.raises(Offline):
            await make_topic(broker, "letters")
        assert not await broker.stop()

    run(test)


def test_deleting_a_topic_tells_who_waits_and_removes_its_files() -> None:
    async def test() -> None:
        hand = surroundings()
        broker = await start(hand)
        await make_topic(broker, "orders", 2)
        await fill(hand, broker, "orders")
        changes, partition = broker.catalog_version, broker.partition("orders", 0)
        outcomes: list[object] = []
        partition.when_committed(partition.append(hand.batch()).end_offset, outcomes.append)
        deleting = asyncio.create_task(broker.change(lambda catalog: catalog.decide_delete_topic("orders")))
        partition.when_committed(99, outcomes.append)
        await deleting
        await turns()
        assert type(outcomes[-1]) is UnknownTopic
        assert broker.catalog_version > changes
        with pytest.raises(UnknownTopic):
            broker.partition("orders", 0)
        assert hand.files.names(TOPICS_DIRECTORY) == []
        await make_topic(broker, "orders")
        assert broker.partition("orders", 0).end_offset == 0
        await broker.stop()
        assert len(checkpoint.load_recovery_points(hand.files)) == 2

    run(test)


def test_what_is_left_of_a_deletion_that_was_cut_short_is_removed_at_the_next_start() -> None:
    async def test() -> None:
        hand = surroundings()
        broker = await start(hand)
        await make_topic(broker, "orders")
        gone = broker.catalog.topic("orders").id.hex()
        await fill(hand, broker, "orders")
        await broker.change(lambda catalog: catalog.decide_delete_topic("orders"))
        await turns()
        await broker.stop()
        hand.files.make_dir(f"{TOPICS_DIRECTORY}/{gone}/0")
        stranger = bytes(16).hex()
        hand.files.make_dir(f"{TOPICS_DIRECTORY}/{stranger}/0")
        again = await start(hand)
        await turns()
        assert hand.files.names(TOPICS_DIRECTORY) == [stranger], (
            "what the catalog never heard of is left alone"
        )
        await again.stop()

    run(test)


def test_more_partitions_and_new_settings_reach_the_owners() -> None:
    async def test() -> None:
        hand = surroundings()
        broker = await start(hand)
        await make_topic(broker, "orders")
        await broker.change(lambda catalog: catalog.decide_add_partitions("orders", 3))
        assert [one.index for one in broker.partitions()] == [0, 1, 2]
        await broker.change(lambda catalog: catalog.decide_set_configs("orders", {"max.message.bytes": "77"}))
        assert {one.config.message_bytes_max for one in broker.partitions()} == {77}
        await broker.change(lambda catalog: catalog.decide_set_broker_config({"log.segment.bytes": "4096"}))
        assert {one.log.limits.segment_bytes for one in broker.partitions()} == {4096}
        with pytest.raises(UnknownTopic):
            broker.partition("orders", 3)
        with pytest.raises(UnknownTopic):
            broker.partition("orders", -1)
        await broker.stop()

    run(test)


def test_producer_ids_do_not_repeat_when_a_snapshot_names_their_block_again() -> None:
    async def play(nodes: ClusterNodes) -> None:
        given = [await nodes.brokers[1].new_producer_id() for _ in range(3)]
        # The log is compacted before broker 1 has read what broker 2 appends, so that it gets the whole state.
        nodes.store.on_take = lambda index, events: nodes.store.compact()
        await nodes.create(2, "t", 1)
        await nodes.converged()
        given += [await nodes.brokers[1].new_producer_id() for _ in range(3)]
        assert len(set(given)) == 6

    on_a_cluster(play, brokers=2)


def test_a_topic_whose_first_append_came_late_has_the_id_that_its_creator_is_told() -> None:
    async def play(nodes: ClusterNodes) -> None:
        broker = nodes.brokers[1]
        topics, log = Waist(broker).topics, broker._shared
        assert isinstance(log, ModelMetadataLog)
        log.faults.append(Fault.REQUEST_LATE)
        # The first append is given up after 20 ms; nothing is found after 60 ms, and the second one takes off.
        asyncio.get_running_loop().call_later(0.07, nodes.store.deliver_late)
        created = await topics.create(Session("kafka"), NewTopic("t", 1))
        assert broker.catalog.topic("t").id == created.id

    on_a_cluster(play, brokers=1)


def test_producer_ids_never_repeat_not_even_after_a_crash() -> None:
    async def test() -> None:
        hand = surroundings()
        broker = await start(hand)
        given = [await broker.new_producer_id() for _ in range(PRODUCER_IDS_BLOCK + 1)]
        assert hand.workers.count <= 6, "a block costs one flush"
        hand.disk.crash()
        again = await start(surroundings(hand.disk))
        given += await asyncio.gather(*(again.new_producer_id() for _ in range(5)))
        assert len(set(given)) == len(given)
        await again.stop()

    run(test)


def test_an_internal_topic_that_two_ask_for_is_made_once() -> None:
    async def test() -> None:
        hand = surroundings()
        broker = await start(hand)
        end = broker.metadata_end
        await asyncio.gather(*(broker.internal_topic("__state", 3, {}) for _ in range(4)))
        assert broker.metadata_end == end + 1
        assert [one.is_internal for one in broker.partitions_of("__state")] == [True] * 3
        with pytest.raises(TopicExists):
            await make_topic(broker, "__state")
        await broker.stop()

    run(test)


def test_stopping_ends_the_promises_that_are_still_open() -> None:
    async def test() -> None:
        hand = surroundings()
        broker = await start(hand)
        await make_topic(broker, "orders")
        partition = broker.partition("orders", 0)
        outcomes: list[object] = []
        partition.when_committed(1, outcomes.append)
        await broker.stop()
        assert [type(one) for one in outcomes] == [NotLeader]

    run(test)


def test_the_metadata_log_replays_to_the_same_catalog(tmp_path: Path) -> None:
    async def test() -> None:
        hand = Hand(DiskFiles(tmp_path, 50), PromptWorkers())
        broker = await start(hand)
        for number in range(30):
            await make_topic(broker, f"t{number}", 1 + number % 3, retention_ms=str(number + 1))
        for number in range(0, 30, 2):
            await broker.change(lambda catalog, n=number: catalog.decide_delete_topic(f"t{n}"))  # type: ignore[misc]
        before = (broker.catalog.topics, broker.catalog.producer_ids_upto)
        end = broker.metadata_end
        assert await broker.stop()
        again = await start(hand)
        assert (again.catalog.topics, again.catalog.producer_ids_upto) == before
        assert again.metadata_end == end and hand.files.exists(METADATA)
        assert again.data_directory.endswith("penstock-data")
        await again.stop()

    run(test)


def test_one_refused_change_leaves_the_catalog_as_it_was() -> None:
    async def test() -> None:
        hand = surroundings()
        broker = await start(hand)
        await make_topic(broker, "orders")
        end = broker.metadata_end

        def decide(catalog: Catalog) -> list[Event]:
            raise TopicExists("no")

        with pytest.raises(TopicExists):
            await broker.change(decide)
        await broker.change(lambda catalog: ())
        assert broker.metadata_end == end
        await broker.stop()

    run(test)
