"""A led partition and its replicas: commit, change the ISR, hand over. Time is virtual, the host is a fake."""

from __future__ import annotations

import asyncio

import pytest

from cluster_play import ClusterPlay
from manual_ports import Hand, append, run
from penstock.core.errors import NotLeader
from penstock.core.machines.cluster.partition_state import IsrChange
from penstock.core.machines.cluster.reassignment import decide_reassign
from penstock.core.replication.tracker import FollowerFetch, ReplicaTracker
from penstock.node.replicas.led_partition import PAUSE_S_MAX, RETRY_S_MIN, LedPartition, bytes_after
from penstock.node.replicas.partition import Partition

LAG_S = 0.05
OS, FSYNC = ({"penstock_durability": word} for word in ("os", "fsync"))


class FakeHost:
    """Remembers what it was asked for."""

    def __init__(self, play: ClusterPlay) -> None:
        self.play = play
        self.proposed: list[IsrChange] = []
        self.pauses: list[float] = []
        self.is_willing = True

    def wanted_change(self, led: LedPartition) -> IsrChange | None:
        if not self.is_willing:
            return None
        partition, now_s = led.partition, asyncio.get_running_loop().time()
        return led.tracker.wanted_change(
            self.play.epoch(1), partition.high_watermark, partition.end_offset, now_s, LAG_S
        )

    def propose(self, led: LedPartition, change: IsrChange) -> None:
        self.proposed.append(change)

    def release(self, partition: Partition) -> None:
        partition.set_writable(is_writable=True)

    def paused(self, seconds: float) -> None:
        self.pauses.append(seconds)


def moving(hand: Hand, **overrides: str) -> tuple[FakeHost, LedPartition]:
    """A partition on its way from broker 1 to broker 2."""
    return staged(hand, [1], [2], **overrides)


def staged(
    hand: Hand, replicas: list[int], target: list[int] | None = None, **overrides: str
) -> tuple[FakeHost, LedPartition]:
    play = ClusterPlay(3)
    play.create("orders", replicas)
    if target is not None:
        play.run(decide_reassign(play.cluster, play.partition("orders").id, target))
    host = FakeHost(play)
    partition = hand.partition(**overrides)
    now_s = asyncio.get_running_loop().time()
    tracker = ReplicaTracker(play.partition("orders"), 0, play.cluster, now_s)
    partition.track(tracker)
    return host, LedPartition(partition, tracker, host)


def fetch(
    host: FakeHost, led: LedPartition, offset: int, served_offset: int | None = None, broker_id: int = 2
) -> None:
    fetched = FollowerFetch(host.play.epoch(broker_id), offset, led.partition.start_offset)
    led.fetched(broker_id, fetched, offset if served_offset is None else served_offset)


def test_a_copy_that_is_equal_is_proposed_at_once() -> None:
    async def test() -> None:
        hand = Hand()
        host, move = moving(hand, **OS)
        append(hand, move.partition)
        fetch(host, move, 0, served_offset=0)
        assert move.partition.is_writable, "it is behind, and was sent nothing"
        fetch(host, move, 1)
        assert len(host.proposed) == 1 and not move.partition.is_writable
        with pytest.raises(NotLeader, match="handed over"):
            move.partition.append(hand.batch())

    run(test)


def test_the_leader_stops_when_the_rest_is_under_way() -> None:
    async def test() -> None:
        hand = Hand()
        host, move = moving(hand, **OS)
        for _ in range(3):
            append(hand, move.partition)
        fetch(host, move, 1, served_offset=3)
        assert not move.partition.is_writable and not host.proposed
        fetch(host, move, 3)
        assert len(host.proposed) == 1

    run(test)


def test_records_that_are_not_flushed_yet_are_waited_for() -> None:
    async def test() -> None:
        hand = Hand()
        host, move = moving(hand, **FSYNC)
        waiter = append(hand, move.partition)
        fetch(host, move, 1)
        assert not host.proposed, "the copy is complete, but the producer has not been told"
        await hand.workers.do_all()
        assert waiter.is_acknowledged and len(host.proposed) == 1

    run(test)


def test_a_copy_that_is_too_slow_is_tried_again_later() -> None:
    async def test() -> None:
        hand = Hand()
        host, move = moving(hand, **OS)
        append(hand, move.partition)
        fetch(host, move, 0, served_offset=1)
        await asyncio.sleep(PAUSE_S_MAX * 1.01)
        assert move.partition.is_writable and len(host.pauses) == 1
        fetch(host, move, 1)
        assert move.partition.is_writable and not host.proposed, "not at once"
        await asyncio.sleep(RETRY_S_MIN)
        fetch(host, move, 1)
        assert len(host.proposed) == 1

    run(test)


def test_a_refused_change_lets_records_in_again() -> None:
    async def test() -> None:
        hand = Hand()
        host, move = moving(hand, **OS)
        fetch(host, move, 0)
        await asyncio.sleep(10 * PAUSE_S_MAX)
        assert not move.partition.is_writable, "as long as the outcome is unknown"
        move.settled()
        assert move.partition.is_writable and len(host.pauses) == 1

    run(test)


def test_a_move_that_is_over_does_nothing_any_more() -> None:
    async def test() -> None:
        hand = Hand()
        host, move = moving(hand, **FSYNC)
        append(hand, move.partition)
        fetch(host, move, 1)
        move.end()
        await hand.workers.do_all()
        await asyncio.sleep(2 * PAUSE_S_MAX)
        move.settled()
        assert not host.proposed and not move.partition.is_writable, "whoever ended it decides"

    run(test)


def test_bytes_that_are_left() -> None:
    async def test() -> None:
        hand = Hand()
        host, move = moving(hand, **OS, segment_bytes="1024")
        for _ in range(30):
            append(hand, move.partition, size=100)
        total = move.partition.log.size()
        assert move.bytes_left() == total == bytes_after(move.partition, 0)
        host.is_willing = False
        fetch(host, move, 15)
        assert move.bytes_left() == total // 2
        fetch(host, move, 30)
        assert move.bytes_left() == 0

    run(test)


def test_records_are_committed_as_replicas_fetch() -> None:
    async def test() -> None:
        hand = Hand()
        host, led = staged(hand, [1, 2, 3], **OS)
        waiter = append(hand, led.partition)
        assert led.partition.high_watermark == 0
        fetch(host, led, 0, broker_id=2)
        fetch(host, led, 1, broker_id=3)
        assert led.partition.high_watermark == 0 and not waiter.is_acknowledged
        fetch(host, led, 1, broker_id=2)
        assert led.partition.high_watermark == 1 and waiter.is_acknowledged
        assert not host.proposed, "all of them are in sync already"

    run(test)


def test_what_replicas_have_is_not_committed_before_it_is_flushed_here() -> None:
    async def test() -> None:
        hand = Hand()
        host, led = staged(hand, [1, 2], **FSYNC)
        waiter = append(hand, led.partition)
        fetch(host, led, 1)
        assert not waiter.is_acknowledged
        await hand.workers.do_all()
        assert waiter.is_acknowledged and led.partition.high_watermark == 1

    run(test)


def test_a_replica_that_is_added_joins_without_a_pause() -> None:
    async def test() -> None:
        hand = Hand()
        host, led = staged(hand, [1], [1, 2], **OS)
        append(hand, led.partition)
        fetch(host, led, 0, served_offset=1)
        assert not host.proposed
        fetch(host, led, 1)
        assert len(host.proposed) == 1 and led.partition.is_writable

    run(test)


def test_the_others_join_while_the_leader_cannot_be_moved_yet() -> None:
    """With its minimum of two, the last record is committed with broker 2 only, and the move waits for that."""

    async def test() -> None:
        hand = Hand()
        host, led = staged(hand, [1, 2], [3], min_insync_replicas="2", **OS)
        append(hand, led.partition)
        host.play.fence(2)
        host.play.unfence(2)
        led.tracker.adopt(host.play.partition("orders"))
        fetch(host, led, 1, broker_id=3)
        assert not led.partition.is_writable and not host.proposed, "it is paused, but cannot commit"
        await asyncio.sleep(PAUSE_S_MAX)
        fetch(host, led, 1, broker_id=2)
        assert [[one.broker_id for one in change.isr] for change in host.proposed] == [[1, 2]]

    run(test)


def test_a_replica_that_is_silent_for_too_long_leaves() -> None:
    async def test() -> None:
        hand = Hand()
        host, led = staged(hand, [1, 2, 3], **OS)
        append(hand, led.partition)
        for broker_id in (2, 3):
            fetch(host, led, 1, broker_id=broker_id)
        await asyncio.sleep(2 * LAG_S)
        append(hand, led.partition)
        fetch(host, led, 2, broker_id=2)
        led.consider()
        assert [[one.broker_id for one in change.isr] for change in host.proposed] == [[1, 2]]

    run(test)
