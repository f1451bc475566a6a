"""What every ground of the metadata log must do. Never looks at how one stores it.

Use: `class TestMine(MetadataContract): def make_ground(self): return MyGround()`. A ground gives access to its log and
carries out what can happen to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

import pytest

from penstock.core.errors import TornSegment
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Event, ProducerIdsReserved, Topic, TopicRemoved, TopicSaved
from penstock.node.cluster.metadata_log import (
    CONTROLLER_SESSION,
    BrokerSession,
    Conflict,
    Entry,
    LiveSession,
    MetadataLog,
)


class Ground(Protocol):
    """A store of one kind, fresh and empty, and its faults."""

    async def open(self) -> MetadataLog:
        """Access for one more broker; where there can be only one, for that one. Again after `kill`."""

    async def kill(self) -> None:
        """Everything that runs dies at once, and the power fails. What is durable stays."""

    async def compact(self) -> None:
        """Drop what later events replace."""

    async def append_unheard(self, log: MetadataLog, index: int, events: Sequence[Event]) -> None:
        """An append that takes effect although whoever asked for it never hears so."""

    async def expire(self, name: str) -> None:
        """The session ends without its holder's doing; whatever must be opened again for the next one, is."""

    async def back_up(self) -> None:
        """Copy the store as it is."""

    async def restore(self) -> None:
        """Put that copy in its place, behind the backs of all brokers."""


def topic(number: int, version: int = 0) -> TopicSaved:
    """A topic; of two versions, the later one replaces the earlier."""
    own = {"retention.ms": str(version)} if version else {}
    return TopicSaved(Topic(number.to_bytes(16, "big"), f"t{number}", 1, own))


def removed(number: int) -> TopicRemoved:
    return TopicRemoved(number.to_bytes(16, "big"))


def state(entries: Sequence[Entry]) -> list[Topic]:
    """The topics that these entries, from the first on, lead to."""
    catalog = Catalog()
    for entry in entries:
        for event in entry.events:
            catalog.apply(event)
    return catalog.topics


async def fill(log: MetadataLog, index: int, *appends: Sequence[Event]) -> int:
    for events in appends:
        outcome = await log.append(index, events)
        assert outcome == index + len(events)
        index += len(events)
    return index


async def take(following: Any, count: int) -> list[Entry]:
    return [await anext(following) for _ in range(count)]


async def opened(log: MetadataLog, name: str, holder: int) -> BrokerSession:
    session = await log.session(name, holder)
    assert not isinstance(session, Conflict), f"{name} is alive"
    return session


async def opened_soon(log: MetadataLog, name: str, holder: int) -> BrokerSession:
    """Once the store has heard that the earlier one has ended."""
    async for _ in log.follow_sessions():
        session = await log.session(name, holder)
        if not isinstance(session, Conflict):
            return session
    raise AssertionError("the report of sessions has ended")


async def seen_until(following: Any, names: Sequence[str]) -> tuple[LiveSession, ...]:
    """What is reported, up to where these sessions, and no others, are alive."""
    async for live in following:
        assert [one.number for one in live] == sorted(one.number for one in live)
        if sorted(one.name for one in live) == sorted(names):
            return tuple(live)
    raise AssertionError("the report of sessions has ended")


class MetadataContract:
    """Inherit, give `make_ground`, and pytest runs the suite over that ground."""

    def make_ground(self) -> Ground:
        raise NotImplementedError

    def test_what_was_appended_is_read_in_order_and_in_whole_appends(self) -> None:
        async def scene() -> None:
            log = await self.make_ground().open()
            assert list(await log.read(0)) == []
            assert await log.append(0, [topic(1), topic(2)]) == 2
            assert await log.append(2, [topic(1, 7)]) == 3
            assert list(await log.read(0)) == [
                Entry(2, (topic(1), topic(2))),
                Entry(3, (topic(1, 7),)),
            ]

        asyncio.run(scene())

    def test_a_reader_resumes_where_it_stopped(self) -> None:
        async def scene() -> None:
            log = await self.make_ground().open()
            await fill(log, 0, [topic(1)], [topic(2), removed(1)], [topic(3)])
            assert list(await log.read(1)) == [Entry(3, (topic(2), removed(1))), Entry(4, (topic(3),))]
            assert list(await log.read(3)) == [Entry(4, (topic(3),))]
            assert list(await log.read(4)) == []

        asyncio.run(scene())

    def test_an_append_behind_an_earlier_index_is_a_conflict_and_changes_nothing(self) -> None:
        async def scene() -> None:
            ground = self.make_ground()
            one, other = await ground.open(), await ground.open()
            await fill(one, 0, [topic(1)], [topic(2)])
            assert await other.append(0, [topic(8)]) == Conflict(2)
            assert await other.append(1, [topic(8)]) == Conflict(2)
            assert len(await one.read(0)) == 2
            assert await other.append(2, [topic(8)]) == 3
            assert await one.append(2, [topic(9)]) == Conflict(3)

        asyncio.run(scene())

    def test_of_many_at_one_index_one_is_taken(self) -> None:
        async def scene() -> None:
            ground = self.make_ground()
            logs = [await ground.open() for _ in range(5)]
            outcomes = await asyncio.gather(
                *(log.append(0, [topic(number), topic(number + 10)]) for number, log in enumerate(logs, 1))
            )
            assert sorted(map(str, outcomes)) == ["2", *["Conflict(index=2)"] * 4]
            winner = outcomes.index(2) + 1
            assert list(await logs[0].read(0)) == [Entry(2, (topic(winner), topic(winner + 10)))]

        asyncio.run(scene())

    def test_a_thousand_events_are_one_append(self) -> None:
        async def scene() -> None:
            ground = self.make_ground()
            log = await ground.open()
            events = tuple(topic(number) for number in range(2, 1_502))
            assert await log.append(0, events) == 1_500
            assert list(await log.read(0)) == [Entry(1_500, events)]
            await ground.kill()
            assert list(await (await ground.open()).read(0)) == [Entry(1_500, events)]

        asyncio.run(scene())

    def test_followers_get_what_is_there_and_what_comes_without_a_gap(self) -> None:
        async def scene() -> None:
            ground = self.make_ground()
            writer, reader = await ground.open(), await ground.open()
            await fill(writer, 0, [topic(1)], [topic(2)])
            early, late = reader.follow(0), reader.follow(1)
            assert await take(early, 2) == [Entry(1, (topic(1),)), Entry(2, (topic(2),))]
            assert await take(late, 1) == [Entry(2, (topic(2),))]
            waiting = [asyncio.ensure_future(take(one, 2)) for one in (early, late)]
            await fill(writer, 2, [topic(3)], [topic(4), topic(5)])
            expected = [Entry(3, (topic(3),)), Entry(5, (topic(4), topic(5)))]
            assert await asyncio.gather(*waiting) == [expected, expected]

        asyncio.run(scene())

    def test_compaction_under_a_follower_leaves_no_gap(self) -> None:
        async def scene() -> None:
            ground = self.make_ground()
            log = await ground.open()
            following = log.follow(0)
            index = await fill(log, 0, [topic(1)], [topic(2)])
            seen = await take(following, 2)
            index = await fill(log, index, *([topic(3, number)] for number in range(1, 60)), [removed(1)])
            await ground.compact()
            index = await fill(log, index, [topic(4)])
            catalog = Catalog()
            for entry in seen:
                for event in entry.events:
                    catalog.apply(event)
            while seen[-1].index < index:
                entry = await anext(following)
                assert entry.is_snapshot or entry.index == seen[-1].index + len(entry.events)
                for event in catalog.decide_catch_up(entry.events) if entry.is_snapshot else entry.events:
                    catalog.apply(event)
                seen.append(entry)
            assert [one.name for one in catalog.topics] == ["t2", "t3", "t4"]
            assert catalog.config("t3").retention_ms == 59

        asyncio.run(scene())

    def test_whoever_comes_after_compaction_reads_a_snapshot_and_goes_on_behind_it(self) -> None:
        async def scene() -> None:
            ground = self.make_ground()
            log = await ground.open()
            index = await fill(log, 0, *([topic(1, number)] for number in range(1, 60)), [topic(2)])
            before = state(await log.read(0))
            await ground.compact()
            entries = list(await log.read(0))
            assert entries[0].is_snapshot and not any(entry.is_snapshot for entry in entries[1:])
            assert (state(entries), entries[-1].index) == (before, index)
            assert sum(len(entry.events) for entry in entries) < index
            assert (await log.read(5))[0].is_snapshot, "what happened after 5 is not kept one by one any more"
            assert await log.append(index, [topic(3)]) == index + 1
            assert list(await log.read(index)) == [Entry(index + 1, (topic(3),))]
            await ground.kill()
            again = list(await (await ground.open()).read(0))
            assert [one.name for one in state(again)] == ["t1", "t2", "t3"]
            assert again[-1].index == index + 1

        asyncio.run(scene())

    def test_an_append_whose_answer_is_lost_is_found_by_reading(self) -> None:
        async def scene() -> None:
            ground = self.make_ground()
            log = await ground.open()
            await fill(log, 0, [topic(1)])
            await ground.append_unheard(log, 1, [topic(2)])
            assert list(await log.read(1)) == [Entry(2, (topic(2),))]
            assert await log.append(1, [topic(2)]) == Conflict(2), "it is not taken twice"
            assert await log.append(2, [topic(3)]) == 3

        asyncio.run(scene())

    def test_what_was_answered_survives_a_kill(self) -> None:
        async def scene() -> None:
            ground = self.make_ground()
            log = await ground.open()
            await fill(log, 0, [topic(1), topic(2)], [ProducerIdsReserved(1_000, 4)])
            for number in range(3, 8):
                await ground.kill()
                log = await ground.open()
                assert await log.append(number, [topic(number)]) == number + 1
            entries = list(await log.read(0))
            assert entries[:2] == [Entry(2, (topic(1), topic(2))), Entry(3, (ProducerIdsReserved(1_000, 4),))]
            assert [one.name for one in state(entries)] == [f"t{number}" for number in range(1, 8)]

        asyncio.run(scene())

    def test_an_index_that_the_log_never_had_is_refused(self) -> None:
        async def scene() -> None:
            log = await self.make_ground().open()
            await fill(log, 0, [topic(1), topic(2)], [topic(3)])
            for work in (log.read(4), log.append(4, [topic(4)]), anext(log.follow(4))):
                with pytest.raises(TornSegment, match="4 was seen before"):
                    await work
            with pytest.raises(TornSegment, match="the log was replaced"):
                await log.read(1)

        asyncio.run(scene())

    def test_a_store_restored_from_an_old_backup_is_noticed(self) -> None:
        async def scene() -> None:
            ground = self.make_ground()
            log = await ground.open()
            await fill(log, 0, [topic(1)])
            await ground.back_up()
            seen = await fill(log, 1, [topic(2)], [topic(3)])
            await ground.restore()
            log = await ground.open()
            for work in (log.read(seen), log.append(seen, [topic(4)]), anext(log.follow(seen))):
                with pytest.raises(TornSegment, match="3 was seen before"):
                    await work
            assert list(await log.read(0)) == [Entry(1, (topic(1),))], "nothing was written to it"

        asyncio.run(scene())

    def test_a_name_has_one_session_until_it_ends(self) -> None:
        async def scene() -> None:
            ground = self.make_ground()
            log, other = await ground.open(), await ground.open()
            session = await opened(log, "broker-1", 1)
            assert (session.live.name, session.live.holder, session.is_alive) == ("broker-1", 1, True)
            assert isinstance(await other.session("broker-1", 1), Conflict)
            assert isinstance(await other.session("broker-1", 2), Conflict), "whoever holds it"
            role = await opened(other, CONTROLLER_SESSION, 1)
            waiting = asyncio.ensure_future(session.ended())
            session.end()
            await waiting
            assert not session.is_alive
            again = await opened_soon(other, "broker-1", 2)
            assert role.is_alive and again.is_alive and not session.is_alive
            assert session.live.number < role.live.number < again.live.number

        asyncio.run(scene())

    def test_all_live_sessions_are_reported_now_and_after_each_change(self) -> None:
        async def scene() -> None:
            ground = self.make_ground()
            log, other = await ground.open(), await ground.open()
            following = other.follow_sessions()
            assert await anext(following) == ()
            one = await opened(log, "broker-1", 1)
            assert await seen_until(following, ["broker-1"]) == (one.live,)
            role = await opened(other, CONTROLLER_SESSION, 2)
            assert await seen_until(following, ["broker-1", CONTROLLER_SESSION]) == (one.live, role.live)
            assert await anext(log.follow_sessions()) == (one.live, role.live), "whoever comes later, too"
            one.end()
            assert await seen_until(following, [CONTROLLER_SESSION]) == (role.live,)
            role.end()
            assert await seen_until(following, []) == ()

        asyncio.run(scene())

    def test_a_session_is_ended_by_another_broker_for_good(self) -> None:
        async def scene() -> None:
            ground = self.make_ground()
            log, other = await ground.open(), await ground.open()
            session = await opened(log, "broker-1", 1)
            await other.end_session(session.live)
            await session.ended()
            assert not session.is_alive
            again = await opened(log, "broker-1", 1)
            await other.end_session(session.live)
            assert again.is_alive, "the end of the earlier one is not the end of this one"
            assert await anext(other.follow_sessions()) == (again.live,)

        asyncio.run(scene())

    def test_a_session_that_expires_is_over_for_good(self) -> None:
        async def scene() -> None:
            ground = self.make_ground()
            log = await ground.open()
            session = await opened(log, "broker-1", 1)
            await ground.expire("broker-1")
            await session.ended()
            assert not session.is_alive
            log = await ground.open()
            assert await anext(log.follow_sessions()) == ()
            again = await opened(log, "broker-1", 1)
            assert again.is_alive and not session.is_alive

        asyncio.run(scene())
