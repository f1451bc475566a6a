"""Stories of one behaviour each: read them before the code."""

from __future__ import annotations

import asyncio

import pytest

from stories.transcript import Story, tell, transcript


def test_a_producer_repeats_itself() -> None:
    async def play(story: Story) -> None:
        await story.topic("orders")
        ann = story.client("ann")
        await ann.produce("orders", "tea", producer=(7, 0, 0))
        await ann.produce("orders", "milk", producer=(7, 0, 1))
        await ann.produce("orders", "tea", producer=(7, 0, 0))
        await ann.produce("orders", "milk", producer=(7, 0, 1))
        await ann.fetch("orders", 0)
        await ann.produce("orders", "sugar", producer=(7, 0, 5))
        await ann.produce("orders", "sugar", producer=(7, 1, 0))
        await ann.produce("orders", "late", producer=(7, 0, 2))

    assert tell(play) == transcript(
        """
        the broker starts, epoch 0
        ann: produces tea (producer 7, epoch 0, sequence 0) -> offset 0
        ann: produces milk (producer 7, epoch 0, sequence 1) -> offset 1
        ann: produces tea (producer 7, epoch 0, sequence 0) -> offset 0
        ann: produces milk (producer 7, epoch 0, sequence 1) -> offset 1
        ann: fetches from 0 -> 0=tea 1=milk, the end is 2
        ann: produces sugar (producer 7, epoch 0, sequence 5) -> OUT_OF_ORDER_SEQUENCE_NUMBER
        ann: produces sugar (producer 7, epoch 1, sequence 0) -> offset 2
        ann: produces late (producer 7, epoch 0, sequence 2) -> INVALID_PRODUCER_EPOCH
        """
    )


def test_a_repetition_is_known_after_the_power_was_lost() -> None:
    async def play(story: Story) -> None:
        await story.topic("orders")
        await story.client("ann").produce("orders", "tea", producer=(7, 0, 0))
        story.say("the power is lost")
        story.machine.disk.crash()
        story.machine.files = story.machine.disk.mount()
        await story.start()
        ann = story.client("ann")
        await ann.produce("orders", "tea", producer=(7, 0, 0))
        await ann.produce("orders", "milk", producer=(7, 0, 1))
        await ann.fetch("orders", 0)

    assert tell(play) == transcript(
        """
        the broker starts, epoch 0
        ann: produces tea (producer 7, epoch 0, sequence 0) -> offset 0
        the power is lost
        the broker starts, epoch 1
        ann: produces tea (producer 7, epoch 0, sequence 0) -> offset 0
        ann: produces milk (producer 7, epoch 0, sequence 1) -> offset 1
        ann: fetches from 0 -> 0=tea 1=milk, the end is 2
        """
    )


def test_the_disk_is_full_and_then_is_not() -> None:
    async def play(story: Story) -> None:
        await story.topic("orders")
        ann, bob = story.client("ann"), story.client("bob")
        await ann.produce("orders", "tea")
        story.say("the disk is full")
        story.machine.disk.fill_after(20)
        await ann.produce("orders", "milk")
        await bob.fetch("orders", 0)
        story.say("somebody makes room")
        story.machine.disk.enlarge()
        await ann.produce("orders", "milk")
        await bob.fetch("orders", 0)
        await story.stop()
        await story.start()
        await story.client("bob").fetch("orders", 0)

    assert tell(play) == transcript(
        """
        the broker starts, epoch 0
        ann: produces tea -> offset 0
        the disk is full
        ann: produces milk -> KAFKA_STORAGE_ERROR
        bob: fetches from 0 -> 0=tea, the end is 1
        somebody makes room
        ann: produces milk -> offset 1
        bob: fetches from 0 -> 0=tea 1=milk, the end is 2
        the broker stops clean
        the broker starts, epoch 0
        bob: fetches from 0 -> 0=tea 1=milk, the end is 2
        """
    )


def test_a_flush_fails_and_nobody_pretends_it_did_not(caplog: pytest.LogCaptureFixture) -> None:
    async def play(story: Story) -> None:
        await story.topic("orders")
        await story.topic("bills")
        ann = story.client("ann")
        await ann.produce("orders", "tea")
        story.say("the disk will refuse the next flush, once")
        story.machine.disk.fail_sync_at(1)
        await ann.produce("orders", "milk")
        await ann.produce("orders", "milk")
        await ann.fetch("orders", 0)
        await ann.produce("bills", "paid")
        await story.stop()
        await story.start()
        await story.client("ann").fetch("orders", 0)

    assert tell(play) == transcript(
        """
        the broker starts, epoch 0
        ann: produces tea -> offset 0
        the disk will refuse the next flush, once
        ann: produces milk -> KAFKA_STORAGE_ERROR
        ann: produces milk -> KAFKA_STORAGE_ERROR
        ann: fetches from 0 -> KAFKA_STORAGE_ERROR
        ann: produces paid -> offset 0
        the broker stops, not clean
        the broker starts, epoch 1
        ann: fetches from 0 -> 0=tea, the end is 1
        """
    )
    assert caplog.text.count("partition is offline") == 1


def test_a_reader_waits_for_data() -> None:
    async def play(story: Story) -> None:
        await story.topic("orders")
        ann, bob = story.client("ann"), story.client("bob")
        await bob.fetch("orders", 0, wait_ms=50)
        bob.say("waits for up to a minute")
        waiting = asyncio.create_task(bob.fetch("orders", 0, wait_ms=60_000))
        await asyncio.sleep(20)
        story.say("twenty seconds pass")
        await ann.produce("orders", "tea")
        await waiting

    assert tell(play) == transcript(
        """
        the broker starts, epoch 0
        bob: fetches from 0 -> nothing, the end is 0
        bob: waits for up to a minute
        twenty seconds pass
        ann: produces tea -> offset 0
        bob: fetches from 0 -> 0=tea, the end is 1
        """
    )


def test_an_old_epoch_is_told_so() -> None:
    async def play(story: Story) -> None:
        await story.topic("orders")
        ann = story.client("ann")
        await ann.produce("orders", "tea", "milk")
        await ann.fetch("orders", 0, epoch=0)
        story.say("the power is lost")
        story.machine.disk.crash()
        story.machine.files = story.machine.disk.mount()
        await story.start()
        ann = story.client("ann")
        await ann.produce("orders", "sugar")
        await ann.fetch("orders", 2, epoch=0)
        await ann.epoch_end("orders", 0)
        await ann.fetch("orders", 2, epoch=1)
        await ann.fetch("orders", 2, epoch=2)

    assert tell(play) == transcript(
        """
        the broker starts, epoch 0
        ann: produces tea milk -> offset 0
        ann: fetches from 0 as of epoch 0 -> 0=tea 1=milk, the end is 2
        the power is lost
        the broker starts, epoch 1
        ann: produces sugar -> offset 2
        ann: fetches from 2 as of epoch 0 -> FENCED_LEADER_EPOCH
        ann: asks where epoch 0 ended -> 2
        ann: fetches from 2 as of epoch 1 -> 2=sugar, the end is 3
        ann: fetches from 2 as of epoch 2 -> UNKNOWN_LEADER_EPOCH
        """
    )


def test_old_records_go_and_readers_are_told_where_to_go_on() -> None:
    async def play(story: Story) -> None:
        await story.topic("orders", segment_bytes="1024")
        ann, bob = story.client("ann"), story.client("bob")
        for cup in range(3):
            await ann.produce("orders", f"cup{cup}")
        start = await story.broker.partition("orders", 0).delete_records(2)
        story.say(f"everything before {start} is deleted")
        await bob.fetch("orders", 0)
        await bob.offset_at("orders", -2, "earliest")
        await bob.fetch("orders", 2)
        await bob.offset_at("orders", -1, "latest")

    assert tell(play) == transcript(
        """
        the broker starts, epoch 0
        ann: produces cup0 -> offset 0
        ann: produces cup1 -> offset 1
        ann: produces cup2 -> offset 2
        everything before 2 is deleted
        bob: fetches from 0 -> OFFSET_OUT_OF_RANGE
        bob: asks for the earliest offset -> 2
        bob: fetches from 2 -> 2=cup2, the end is 3
        bob: asks for the latest offset -> 3
        """
    )
