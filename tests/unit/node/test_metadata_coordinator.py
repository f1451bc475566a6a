"""The coordinator in one process: what overtakes the disk, what waits, what a failed disk and a silent peer lead to."""

from __future__ import annotations

import asyncio
import random

from manual_ports import Hand, HeldWorkers, PromptWorkers, run, turns
from metadata_peer import SECRET, Peer
from penstock.core.machines.catalog.events import Topic, TopicSaved
from penstock.core.machines.catalog.events import encode as encode_event
from penstock.node.cluster.metadata_service import ADMISSION_S_MAX
from penstock.node.metadata_coordinator import MetadataCoordinator, start_coordinator
from penstock.node.settings import Settings
from penstock.wire.metadata.fields import encode_metadata_records
from penstock.wire.metadata.frames import (
    Append,
    AppendDone,
    Cancel,
    Conflicting,
    EntryPart,
    Failed,
    OpenSession,
    ReadFrom,
    Renew,
    Renewed,
    SessionOpened,
    SessionsNow,
    WatchSessions,
)
from sim import loop as simulation
from sim.disk import SimDisk
from sim.loop import SimLoop

RECORDS = encode_metadata_records([encode_event(TopicSaved(Topic(b"t" * 16, "t", 1)))])


async def start(hand: Hand) -> MetadataCoordinator:
    return await start_coordinator(hand.runtime, Settings(), SECRET)


def test_renewals_do_not_wait_for_the_disk_and_appends_are_answered_in_order() -> None:
    async def test() -> None:
        hand = Hand(workers=HeldWorkers())
        starting = asyncio.ensure_future(start(hand))
        await hand.workers.do_all()
        peer = Peer(await starting).prove()
        peer.send(1, Append(0, RECORDS))
        peer.send(2, Append(0, RECORDS))
        peer.send(3, ReadFrom(0, is_waiting=False))
        peer.send(4, Renew(()))
        await turns()
        assert peer.received() == [(4, Renewed(()))]
        await hand.workers.do_all()
        await turns(20)
        part = EntryPart(1, RECORDS, False, True, True)
        assert peer.received() == [(1, AppendDone(1)), (2, Conflicting(1)), (3, part)]

    run(test)


def test_requests_that_wait_are_answered_once_there_is_something_unless_they_are_cancelled() -> None:
    async def test() -> None:
        peer = Peer(await start(Hand(workers=PromptWorkers()))).prove()
        for number in (1, 2):
            peer.send(number, ReadFrom(0, is_waiting=True))
        peer.send(3, WatchSessions(0))
        await turns()
        [(number, now)] = peer.received()
        assert number == 3 and isinstance(now, SessionsNow) and now.sessions == ()
        peer.send(4, WatchSessions(now.version))
        peer.send(1, Cancel())
        peer.send(5, OpenSession("broker-1", 1, b""))
        peer.send(6, Append(0, RECORDS))
        await turns(20)
        answers = dict(peer.received())
        assert sorted(answers) == [2, 4, 5, 6]
        opened, told = answers[5], answers[4]
        assert isinstance(opened, SessionOpened) and isinstance(told, SessionsNow)
        assert told.sessions == (("broker-1", 1, opened.number),)

    run(test)


def test_a_failed_disk_leaves_appends_without_an_answer_and_ends_the_coordinator() -> None:
    async def test() -> None:
        disk = SimDisk(random.Random(1))
        coordinator = await start(Hand(disk.mount(), PromptWorkers()))
        peer, other = Peer(coordinator).prove(), Peer(coordinator).prove()
        other.send(1, ReadFrom(0, is_waiting=True))
        disk.fail_sync_at(1)
        peer.send(1, Append(0, RECORDS))
        await turns(20)
        assert peer.received() == [] and peer.connection.is_closed
        assert "sync failed" in str(coordinator.failed.result())
        assert other.received() == [] and other.connection.is_closed
        assert not await coordinator.stop()

    run(test)


def test_a_peer_that_says_nothing_is_disconnected() -> None:
    async def scene(loop: SimLoop) -> None:
        coordinator = await start(Hand(workers=PromptWorkers()))
        silent, proven = Peer(coordinator), Peer(coordinator).prove()
        await asyncio.sleep(ADMISSION_S_MAX + 1)
        [(_, why)] = silent.received()
        assert isinstance(why, Failed) and "did not prove within 5 s" in why.message and silent.line.has_ended
        assert not proven.line.has_ended and proven.received() == []

    simulation.run(1, scene)


def test_an_index_that_the_log_never_had_is_refused_and_the_connection_stays() -> None:
    async def test() -> None:
        peer = Peer(await start(Hand(workers=PromptWorkers()))).prove()
        for number, request in enumerate((Append(5, RECORDS), ReadFrom(5, False), ReadFrom(5, True))):
            peer.send(number, request)
            await turns(10)
            [(answered, why)] = peer.received()
            assert answered == number and isinstance(why, Failed)
            assert why.code == "TornSegment" and "5 was seen before" in why.message
        peer.send(9, Append(0, RECORDS))
        await turns(20)
        assert peer.received() == [(9, AppendDone(1))]

    run(test)


def test_it_serves_on_until_the_last_broker_is_gone_or_the_time_is_over() -> None:
    async def test() -> None:
        coordinator = await start(Hand(workers=PromptWorkers()))
        await coordinator.brokers_gone(60)
        peer = Peer(coordinator).prove()
        await coordinator.brokers_gone(0)
        waiting = asyncio.ensure_future(coordinator.brokers_gone(60))
        await turns()
        peer.send(1, Renew(()))
        assert peer.received() == [(1, Renewed(()))] and not waiting.done()
        peer.connection.connection_lost(None)
        await waiting

    run(test)
