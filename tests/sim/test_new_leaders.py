"""What clients see of a new leader that does not know yet what is committed, and of leader epochs without records."""

from __future__ import annotations

from contextlib import suppress

import pytest

from penstock.core.errors import NotLeader, OffsetNotAvailable
from penstock.core.model import NO_EPOCH, Isolation
from penstock.core.session import Session
from penstock.node.replicas.partition import Partition
from penstock.node.waist.positions import Edge, TimedOffset
from penstock.node.waist.waist import Waist
from sim.move_stage import TOPIC, MoveStage, on_stage

ANN = Session("kafka", principal="User:ann")
VALUES = [b"%03d" % number for number in range(20)]
READ_BYTES = 1 << 20


def find(stage: MoveStage, broker_id: int, when: Edge | int) -> TimedOffset | None:
    verbs = Waist(stage.broker(broker_id)).positions
    return verbs.find(ANN, TOPIC, 0, when, Isolation.READ_UNCOMMITTED)


def is_followed(partition: Partition) -> bool:
    with suppress(NotLeader):
        partition.check_followed()
        return True
    return False


async def elect_uncertain_leader(stage: MoveStage) -> None:
    """Broker 2 leads with ten records that are committed as far as it knows, and ten more; broker 3 stands still."""
    await stage.create((1, 2, 3), min_insync_replicas="2")
    await stage.write(*VALUES[:10])
    await stage.until(lambda: stage.partition(2).high_watermark == 10)
    stage.machines[3].pause()
    stage.append(1, *VALUES[10:])
    await stage.until(lambda: stage.partition(2).end_offset == 20)
    stage.machines[1].restart_s = lambda: 600.0
    stage.machines[1].kill()
    await stage.until(lambda: stage.partition(2).is_leader)


def test_the_end_is_told_once_it_is_known() -> None:
    async def play(stage: MoveStage) -> None:
        await elect_uncertain_leader(stage)
        leader = stage.partition(2)
        assert leader.high_watermark == 10 and leader.end_offset == 20
        earliest = find(stage, 2, Edge.EARLIEST)
        assert earliest is not None and earliest.offset == 0
        early = find(stage, 2, 0)
        assert early is not None and early.offset == 0, "a record that is committed"
        for when in (Edge.LATEST, Edge.NEWEST, 2**50):
            with pytest.raises(OffsetNotAvailable):
                find(stage, 2, when)
        stage.machines[3].resume()
        await stage.until(lambda: leader.high_watermark == 20)
        latest = find(stage, 2, Edge.LATEST)
        assert latest is not None and latest.offset == 20

    on_stage(play, brokers=3)


def test_a_reader_that_has_seen_more_waits_and_is_not_reset() -> None:
    async def play(stage: MoveStage) -> None:
        await elect_uncertain_leader(stage)
        fetch = Waist(stage.broker(2)).fetch
        for offset in (10, 15, 20):
            found = fetch.read(ANN, TOPIC, 0, offset, READ_BYTES, Isolation.READ_UNCOMMITTED, NO_EPOCH)
            assert (found.run, found.error, found.high_watermark) == (None, None, 10), offset

    on_stage(play, brokers=3)


def test_epochs_are_those_of_records() -> None:
    async def play(stage: MoveStage) -> None:
        await stage.create((1, 2, 3), min_insync_replicas="2")
        await stage.until(lambda: is_followed(stage.partition(1)))
        for edge in (Edge.EARLIEST, Edge.LATEST):
            assert find(stage, 1, edge) == TimedOffset(0, -1, NO_EPOCH), "no record, no epoch"
        await stage.write(*VALUES[:5])
        written = stage.partition(1).leader_epoch
        stage.machines[1].restart_s = lambda: 600.0
        stage.machines[1].kill()
        await stage.until(lambda: stage.placed().leader in (2, 3))
        leader = stage.placed().leader
        await stage.until(lambda: stage.partition(leader).high_watermark == 5)
        assert stage.partition(leader).leader_epoch > written
        for edge in (Edge.EARLIEST, Edge.LATEST):
            found = find(stage, leader, edge)
            assert found is not None and found.leader_epoch == written, edge

    on_stage(play, brokers=3)
