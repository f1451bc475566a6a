"""The metadata log on its own file: crashes, full disks, and directories that earlier versions wrote."""

from __future__ import annotations

import asyncio
import json
import random

import pytest

from log_samples import filled_batch
from manual_ports import NOW_MS, Hand, PromptWorkers, run
from penstock.core.errors import DiskFull
from penstock.core.limits import PRODUCER_IDS_BLOCK
from penstock.core.log import checksummed_file as checked
from penstock.core.log.log import Log
from penstock.core.log.recovery import open_log
from penstock.core.machines.catalog.events import Event, Topic, TopicSaved, encode
from penstock.core.model import NewRecord
from penstock.core.ports import Files
from penstock.core.records.batch import check
from penstock.core.records.build import build_batch
from penstock.node import checkpoint
from penstock.node.broker import TOPICS_DIRECTORY, start_broker
from penstock.node.cluster.metadata_file import DIRECTORY, LIMITS, MetadataFile
from penstock.node.cluster.metadata_log import RecordEntry
from penstock.node.settings import Settings
from sim.disk import SimDisk


def topics(first: int, count: int) -> list[Event]:
    return [
        TopicSaved(Topic(number.to_bytes(16, "big"), f"t{number}", 1))
        for number in range(first, first + count)
    ]


def open_metadata(files: Files) -> Log:
    return open_log(
        files, DIRECTORY, LIMITS, recovery_offset=0, now_ms=NOW_MS, report=print, refuses_damage=True
    )


async def reopened(disk: SimDisk) -> MetadataFile:
    hand = Hand(disk.mount(), PromptWorkers())
    file = MetadataFile(open_metadata(hand.files), hand.runtime, 0)
    await file.open()
    return file


def test_power_loss_anywhere_in_an_append_leaves_all_of_its_events_or_none() -> None:
    seen: set[int] = set()
    for seed in range(12):
        for operation in range(1, 8):
            disk = SimDisk(random.Random(seed))

            async def scene(disk: SimDisk = disk, operation: int = operation) -> int:
                loop = asyncio.get_running_loop()
                lost = loop.create_future()
                file = await reopened(disk)
                assert await file.append(0, topics(2, 3)) == 3

                def power_lost() -> None:
                    if not lost.done():
                        lost.set_result(None)

                disk.interrupt_at(operation, power_lost)
                appending = asyncio.ensure_future(file.append(3, topics(10, 1_200)))
                appending.add_done_callback(lambda done: done.cancelled() or done.exception())
                await asyncio.wait({lost, appending}, return_when=asyncio.FIRST_COMPLETED)
                disk.crash()
                again = await reopened(disk)
                entries = await again.read(0)
                assert sum(len(entry.events) for entry in entries) == again.end_index
                return again.end_index

            seen.add(asyncio.run(scene()))
    assert seen == {3, 1_203}


def test_a_full_disk_leaves_nothing_of_an_append_for_later() -> None:
    async def test() -> None:
        disk = SimDisk(random.Random(1))
        file = await reopened(disk)
        assert await file.append(0, topics(2, 1)) == 1
        disk.fill_after(100_000)
        with pytest.raises(DiskFull):
            await file.append(1, topics(10, 1_200))
        assert await file.append(1, topics(5, 1)) == 2
        disk.enlarge()
        disk.crash()
        entries = await (await reopened(disk)).read(0)
        assert [event for entry in entries for event in entry.events] == topics(2, 1) + topics(5, 1)

    run(test)


def test_appends_that_were_just_made_are_followed_without_reading_them_again() -> None:
    async def test() -> None:
        file = await reopened(SimDisk(random.Random(1)))
        following = file.follow(0)
        first = asyncio.ensure_future(anext(following))
        events = topics(2, 2)
        await file.append(0, events)
        assert [one is other for one, other in zip((await first).events, events, strict=True)] == [True, True]

    run(test)


def test_stored_events_are_handed_on_from_memory_and_from_the_file() -> None:
    async def test() -> None:
        disk = SimDisk(random.Random(1))
        file = await reopened(disk)
        events = [topics(2, 2), topics(4, 1)]
        await file.append(0, events[0])
        await file.append(2, events[1])
        expected = [
            RecordEntry(2, [encode(one) for one in events[0]]),
            RecordEntry(3, [encode(events[1][0])]),
        ]
        assert await file.read_records(0) == expected
        assert await file.read_records(3) == []
        file.close()
        stored = await (await reopened(disk)).read_records(0)
        assert [(one.next_index, list(one.records)) for one in stored] == [
            (one.next_index, list(one.records)) for one in expected
        ]

    run(test)


# -- directories of earlier versions

OLD_TOPIC = {"version": 1, "partition_count": 1, "overrides": {}, "internal": False, "created_ms": 5}


def write_old_directory(files: Files) -> None:
    """As the versions before topic defaults and owners of producer ids wrote it: one change of 700 topics is cut into
    batches of 500 events, and the producer id block names no owner."""
    identity = {"format": 1, "cluster_id": "old-cluster", "node_id": 0, "leader_epoch": 3}
    checked.write(files, checkpoint.IDENTITY_FILE, identity)
    log = open_metadata(files)

    def append(*records: tuple[str, object]) -> None:
        batch = build_batch(
            [
                NewRecord(key.encode(), None if value is None else json.dumps(value).encode())
                for key, value in records
            ],
            NOW_MS,
        )
        log.append(batch, check(batch), 3, NOW_MS)

    named = [(f"topic/{number:032x}", OLD_TOPIC | {"name": f"t{number}"}) for number in range(2, 702)]
    append(*named[:500])
    append(*named[500:])
    append((f"topic/{2:032x}", None))
    append(("broker-config", {"version": 1, "overrides": {"log.retention.ms": "9"}}))
    append(("producer-ids", {"version": 1, "upto": 2_000}))
    append(("features", {"version": 1, "levels": {"transaction.version": 1}}))
    log.save_state()
    data = open_log(
        files,
        f"{TOPICS_DIRECTORY}/{3:032x}/0",
        LIMITS,
        recovery_offset=0,
        now_ms=NOW_MS,
        report=print,
    )
    batch = filled_batch(4, b"x")
    data.append(batch, check(batch), 3, NOW_MS)
    data.save_state()
    for one in (log, data):
        one.close()
    checkpoint.save_recovery_points(files, {DIRECTORY: log.end_offset, data.directory: 4})
    checkpoint.write_clean_marker(files, NOW_MS)


def test_a_directory_of_an_earlier_version_opens_with_all_that_was_in_it() -> None:
    async def test() -> None:
        hand = Hand(workers=PromptWorkers())
        write_old_directory(hand.files)
        settings = Settings(retention_bytes=77)
        broker = await start_broker(settings, hand.runtime)
        assert broker.identity.cluster_id == "old-cluster"
        names = [topic.name for topic in broker.catalog.topics]
        assert len(names) == 699 and "t2" not in names
        assert broker.partition("t3", 0).end_offset == 4
        assert broker.catalog.features["transaction.version"] == 1
        config = broker.catalog.config("t3")
        assert (config.retention_ms, config.retention_bytes) == (9, 77), (
            "changed at run time; from the settings"
        )
        assert await broker.new_producer_id() == 2_000, "the old block belongs to nobody any more"
        assert broker.catalog.producer_ids_upto == 2_000 + PRODUCER_IDS_BLOCK
        assert await broker.stop()
        again = await start_broker(settings, hand.runtime)
        assert [topic.name for topic in again.catalog.topics] == names
        assert again.catalog.topic_defaults["log.retention.bytes"] == "77"
        await again.stop()

    run(test)


def test_a_new_cluster_writes_its_topic_defaults_once_and_follows_its_settings() -> None:
    async def test() -> None:
        hand = Hand(workers=PromptWorkers())
        for settings, end in ((Settings(), 1), (Settings(), 1), (Settings(retention_ms=5), 2)):
            broker = await start_broker(settings, hand.runtime)
            assert broker.metadata_end == end
            expected = str(settings.retention_ms)
            assert broker.catalog.topic_defaults["log.retention.ms"] == expected
            await broker.stop()

    run(test)


def test_only_the_owner_of_a_block_hands_out_its_producer_ids() -> None:
    async def test() -> None:
        hand = Hand(workers=PromptWorkers())
        broker = await start_broker(Settings(), hand.runtime)
        await broker.change(lambda catalog: catalog.decide_reserve_producer_ids(7))
        assert broker.reserved_producer_id() is None, "that block is another broker's"
        assert await broker.new_producer_id() == PRODUCER_IDS_BLOCK
        await broker.stop()

    run(test)
