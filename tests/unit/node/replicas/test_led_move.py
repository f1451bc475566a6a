"""The end of a move on its leader: pause, propose, give up, resume. Time is virtual, the host is a fake."""

from __future__ import annotations

import asyncio

import pytest

from cluster_play import ClusterPlay
from manual_ports import Hand, append, run
from penstock.core.errors import NotLeader
from penstock.core.machines.cluster.partition_state import IsrChange
from penstock.core.machines.cluster.reassignment import decide_reassign
from penstock.core.replication.tracker import FollowerFetch, ReplicaTracker
from penstock.node.replicas.led_move import PAUSE_S_MAX, RETRY_S_MIN, LedMove, bytes_after
from penstock.node.replicas.partition import Partition

OS, FSYNC = ({"penstock_durability": word} for word in ("os", "fsync"))


class FakeHost:
    """Remembers what it was asked for."""

    def __init__(self, play: ClusterPlay) -> None:
        self.play = play
        self.proposed: list[IsrChange] = []
        self.pauses: list[float] = []
        self.is_willing = True

    def wanted_change(self, move: LedMove) -> IsrChange | None:
        if not self.is_willing:
            return None
        high_watermark = move.partition.high_watermark
        return move.tracker.expansion(self.play.epoch(1), high_watermark, self.play.cluster)

    def propose(self, move: LedMove, change: IsrChange) -> None:
        self.proposed.append(change)

    def release(self, partition: Partition) -> None:
        partition.set_writable(is_writable=True)

    def paused(self, seconds: float) -> None:
        self.pauses.append(seconds)


def moving(hand: Hand, **overrides: str) -> tuple[FakeHost, LedMove]:
    play = ClusterPlay(2)
    play.create("orders", [1])
    play.run(decide_reassign(play.cluster, play.partition("orders").id, [2]))
    host = FakeHost(play)
    partition = hand.partition(**overrides)
    return host, LedMove(partition, ReplicaTracker(play.partition("orders"), 0), host)


def fetch(host: FakeHost, move: LedMove, offset: int, served_offset: int | None = None) -> None:
    fetched = FollowerFetch(host.play.epoch(2), offset, move.partition.start_offset)
    move.fetched(2, fetched, offset if served_offset is None else served_offset)


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
