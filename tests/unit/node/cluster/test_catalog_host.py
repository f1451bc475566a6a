"""The host of the catalog over the model of a shared log: conflicts, lost answers, snapshots, stores that go back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from manual_ports import Hand, PromptWorkers, run, turns
from penstock.core.errors import (
    BrokerError,
    DiskFull,
    MetadataUnavailable,
    NotLeader,
    Offline,
    TimedOut,
    TopicExists,
    TornSegment,
    UnknownTopic,
)
from penstock.core.limits import PRODUCER_IDS_BLOCK
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Event, ProducerIdsReserved, Topic, TopicSaved
from penstock.node.cluster import catalog_host
from penstock.node.cluster.catalog_host import CatalogHost
from penstock.node.cluster.metadata_log import Entry
from penstock.node.runtime.slices import Sliced
from sim.metadata_model import Fault, ModelMetadataLog, ModelStore


class Side:
    """One broker's side: its catalog, its access to the store, and what was applied, in order."""

    def __init__(self, store: ModelStore, number: int) -> None:
        self.number = number
        self.log = ModelMetadataLog(store)
        self.catalog = Catalog()
        self.applied: list[Event] = []
        self.creations = self.decisions = 0
        self.host = CatalogHost(self.log, self.catalog, Hand(workers=PromptWorkers()).runtime, self._apply)

    def _apply(self, events: Sequence[Event]) -> Sliced[None]:
        for event in events:
            self.catalog.apply(event)
            self.applied.append(event)
            yield 1

    @property
    def names(self) -> list[str]:
        return [topic.name for topic in self.catalog.topics]

    async def create(self, name: str) -> None:
        self.creations += 1
        topic_id = f"{self.number:04d}{self.creations:04d}{name:>8}".encode()

        def decide(catalog: Catalog) -> Sequence[Event]:
            self.decisions += 1
            return catalog.decide_create_topic(name, 1, {}, topic_id=topic_id, now_ms=1)

        await self.host.change(decide)

    async def delete(self, name: str) -> None:
        await self.host.change(lambda catalog: catalog.decide_delete_topic(name))


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0)


def test_a_change_is_decided_again_on_what_another_broker_made_of_it() -> None:
    async def test() -> None:
        store = ModelStore()
        one, other = Side(store, 1), Side(store, 2)
        await asyncio.gather(one.create("a"), other.create("b"))
        assert sorted((one.decisions, other.decisions)) == [1, 2], (
            "one of them was too late and decided again"
        )
        await asyncio.gather(one.create("c"), other.create("d"))
        await one.create("e")
        assert one.names == ["a", "b", "c", "d", "e"]
        outcomes = await asyncio.gather(one.create("x"), other.create("x"), return_exceptions=True)
        assert sorted(type(outcome) for outcome in outcomes if outcome is not None) == [TopicExists]
        await other.create("y")
        assert other.names == ["a", "b", "c", "d", "e", "x", "y"]
        assert one.applied == other.applied[: len(one.applied)], (
            "both apply the same events in the same order"
        )

    run(test)


def test_events_of_others_are_followed() -> None:
    async def test() -> None:
        store = ModelStore()
        one, other = Side(store, 1), Side(store, 2)
        for side in (one, other):
            side.host.start()
        await one.create("a")
        await until(lambda: other.names == ["a"])
        await other.delete("a")
        await until(lambda: one.names == [])
        assert one.applied == other.applied and one.host.index == other.host.index == 2
        for side in (one, other):
            await side.host.stop()

    run(test)


@pytest.mark.parametrize("fault", list(Fault))
def test_an_append_without_an_answer_takes_effect_once(fault: Fault) -> None:
    async def test() -> None:
        store = ModelStore()
        side = Side(store, 1)
        side.log.faults.append(fault)
        await side.create("a")
        store.deliver_late()
        await side.create("b")
        assert side.names == ["a", "b"]
        assert [type(event) for event in side.applied] == [TopicSaved, TopicSaved]
        assert [len(entry.events) for entry in store.entries] == [1, 1]

    run(test)


def test_a_request_that_comes_late_and_first_counts_as_ours() -> None:
    """It was given up and sent again; while the second is on its way, the first arrives."""

    async def test() -> None:
        store = ModelStore()
        side = Side(store, 1)
        side.log.faults += [Fault.REQUEST_LATE, Fault.REQUEST_LATE]
        creating = asyncio.ensure_future(side.create("a"))
        await until(lambda: len(store._late) == 2)
        store.deliver_late()
        await creating
        assert (side.names, store.end_index) == (["a"], 1)

    run(test)


def test_a_lost_answer_does_not_hide_that_another_broker_was_first() -> None:
    async def test() -> None:
        store = ModelStore()
        one, other = Side(store, 1), Side(store, 2)
        one.log.faults.append(Fault.REQUEST_LATE)
        creating = asyncio.ensure_future(one.create("a"))
        await until(lambda: store._late)
        await other.create("a")
        with pytest.raises(TopicExists):
            await creating
        store.deliver_late()
        assert store.end_index == 1, "what comes late finds its index taken"

    run(test)


def test_equal_events_of_another_broker_are_a_conflict_unless_an_answer_was_lost() -> None:
    async def test() -> None:
        store = ModelStore()
        one, other = Side(store, 1), Side(store, 2)
        await one.create("a")
        await other.create("b")
        await one.create("c")
        outcomes = await asyncio.gather(one.delete("a"), other.delete("a"), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes if outcome is not None] == [UnknownTopic]

    run(test)


def test_a_store_that_never_answers_leaves_the_outcome_open() -> None:
    async def test() -> None:
        store = ModelStore()
        side = Side(store, 1)
        side.log.faults += [Fault.REQUEST_LOST] * catalog_host.TIMEOUTS_MAX
        with pytest.raises(TimedOut):
            await side.create("a")
        assert side.host.is_online
        await side.create("b")
        assert side.names == ["b"]

    run(test)


def test_a_snapshot_hides_what_became_of_an_append_without_an_answer() -> None:
    async def test() -> None:
        store = ModelStore()
        side = Side(store, 1)
        side.log.faults.append(Fault.ANSWER_LOST)
        creating = asyncio.ensure_future(side.create("a"))
        await until(lambda: store.end_index == 1)
        store.compact()
        with pytest.raises(TimedOut, match="outcome of the change is unknown"):
            await creating
        assert side.names == ["a"], "the state is known all the same"
        await side.create("b")

    run(test)


def test_compaction_under_a_broker_that_fell_behind_takes_along_what_is_gone() -> None:
    async def test() -> None:
        store = ModelStore()
        one, other = Side(store, 1), Side(store, 2)
        for name in ("a", "b"):
            await one.create(name)
        await other.create("c")
        await one.delete("a")
        store.compact()
        await other.create("d")
        assert other.names == ["b", "c", "d"]

    run(test)


def test_all_events_of_one_change_are_one_append() -> None:
    async def test() -> None:
        store = ModelStore()
        side = Side(store, 1)

        def decide(catalog: Catalog) -> Sliced[Sequence[Event]]:
            events: list[Event] = []
            for number in range(1_200):
                topic_id = number.to_bytes(16, "big") if number > 1 else bytes([number + 1]) * 16
                events += catalog.decide_create_topic(f"t{number}", 1, {}, topic_id=topic_id, now_ms=1)
                yield 1
            return events

        await side.host.change(decide)
        assert [len(entry.events) for entry in store.entries] == [1_200]

    run(test)


async def behind(side: Side, *works: Coroutine[Any, Any, None], faults: Sequence[Fault] = ()) -> list[Any]:
    """The outcomes of changes that wait while another one, of topic 0, has its turn. The faults are for them."""
    first = asyncio.ensure_future(side.create("0"))
    waiting = asyncio.gather(*works, return_exceptions=True)
    await until(lambda: side.decisions)
    side.log.faults += faults
    await first
    return await waiting


def test_changes_that_wait_for_their_turn_share_one_append() -> None:
    async def test() -> None:
        store = ModelStore()
        side = Side(store, 1)
        names = [f"t{number}" for number in range(catalog_host.CHANGES_PER_APPEND_MAX + 21)]
        await asyncio.gather(*(side.create(name) for name in names))
        assert [len(entry.events) for entry in store.entries] == [1, catalog_host.CHANGES_PER_APPEND_MAX, 20]
        assert sorted(side.names) == sorted(names) and side.decisions == len(names)

    run(test)


def test_each_change_of_a_shared_append_is_decided_on_those_before_it() -> None:
    async def test() -> None:
        store = ModelStore()
        side = Side(store, 1)
        works = [side.create("a"), side.create("a"), side.delete("b"), side.create("b"), side.delete("a")]
        outcomes = await behind(side, *works)
        assert [type(one) for one in outcomes] == [type(None), TopicExists, UnknownTopic] + [type(None)] * 2
        assert (side.names, len(store.entries)) == (["0", "b"], 2)

    run(test)


def test_a_shared_append_that_comes_second_is_decided_again_as_a_whole() -> None:
    async def test() -> None:
        store = ModelStore()
        side = Side(store, 1)
        creating = asyncio.ensure_future(behind(side, *(side.create(name) for name in "abc")))
        await until(lambda: side.decisions == 4)
        store.take(1, (TopicSaved(Topic(b"a" * 16, "a", 1)),))
        assert [type(outcome) for outcome in await creating] == [TopicExists, type(None), type(None)]
        assert (side.names, side.decisions, len(store.entries)) == (["0", "a", "b", "c"], 7, 3)

    run(test)


@pytest.mark.parametrize("fault", list(Fault))
def test_a_shared_append_without_an_answer_takes_effect_once(fault: Fault) -> None:
    async def test() -> None:
        store = ModelStore()
        side = Side(store, 1)
        outcomes = await behind(side, side.create("a"), side.create("a"), side.create("b"), faults=[fault])
        assert [type(outcome) for outcome in outcomes] == [type(None), TopicExists, type(None)]
        assert (side.names, len(store.entries)) == (["0", "a", "b"], 2)

    run(test)


def test_a_shared_append_that_fails_fails_for_all_of_its_changes() -> None:
    """The second was rejected because of the first, which never took effect."""

    async def test() -> None:
        store = ModelStore()
        side = Side(store, 1)
        faults = [Fault.REQUEST_LOST] * catalog_host.TIMEOUTS_MAX
        outcomes = await behind(side, side.create("a"), side.create("a"), faults=faults)
        assert [type(outcome) for outcome in outcomes] == [TimedOut, TimedOut]
        await side.create("a")
        assert side.names == ["0", "a"]

    run(test)


def test_a_defect_in_one_decision_is_its_callers_alone() -> None:
    async def test() -> None:
        store = ModelStore()
        side = Side(store, 1)

        def crash(catalog: Catalog) -> Sequence[Event]:
            raise ZeroDivisionError

        outcomes = await behind(side, side.host.change(crash), side.create("a"), side.create("b"))
        assert [type(outcome) for outcome in outcomes] == [ZeroDivisionError, type(None), type(None)]
        assert side.names == ["0", "a", "b"]

    run(test)


def test_a_change_ends_even_if_its_caller_is_cancelled() -> None:
    async def test() -> None:
        store = ModelStore()
        side = Side(store, 1)
        creating = asyncio.ensure_future(side.create("a"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        creating.cancel()
        with pytest.raises(asyncio.CancelledError):
            await creating
        await side.create("b")
        assert side.names == ["a", "b"], "the log and the catalog agree"

    run(test)


def test_a_store_that_went_back_is_not_acted_upon(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        store = ModelStore()
        side = Side(store, 1)
        side.host.start()
        await side.create("a")
        backup = store.back_up()
        await side.create("b")
        store.restore(backup)
        await until(lambda: not side.host.is_online)
        with pytest.raises(Offline, match="older copy"):
            await side.create("c")
        assert store.end_index == 1, "nothing was written to it"
        await side.host.stop()
        with pytest.raises(TornSegment, match="2 was seen before"):
            await Side(store, 1).host.recover(seen_index=2)
        assert await Side(store, 1).host.recover(seen_index=1) == set()

    run(test)
    assert "metadata log is offline" in caplog.text


def test_a_broker_that_cannot_follow_any_more_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """A defect in what an event leads to must not leave a broker that serves on with outdated metadata."""

    async def test() -> None:
        store = ModelStore()
        one, other = Side(store, 1), Side(store, 2)
        other.host._apply = other.applied.index  # type: ignore[assignment]
        other.host.start()
        await one.create("a")
        await other.host.failed.wait()
        assert not other.host.is_online and "ValueError" in str(other.host.failure)
        await other.host.stop()

    run(test)
    assert "background task crashed" in caplog.text


def test_a_broker_that_starts_replays_what_is_there() -> None:
    async def test() -> None:
        store = ModelStore()
        side = Side(store, 1)
        for name in ("a", "b"):
            await side.create(name)
        gone = side.catalog.topic("a").id
        await side.delete("a")
        late = Side(store, 2)
        assert await late.host.recover(0) == {gone}
        assert (late.names, late.host.index) == (["b"], 3)
        assert late.applied == [], "nothing is opened while the log is replayed"

    run(test)


def test_a_host_that_stopped_changes_nothing_more() -> None:
    async def test() -> None:
        one = Side(ModelStore(), 1)
        one.host.start()
        await one.host.stop()
        with pytest.raises(NotLeader, match="stopping"):
            await one.create("a")

    run(test)


def test_producer_id_blocks_of_two_brokers_never_overlap() -> None:
    async def test() -> None:
        store = ModelStore()
        sides = [Side(store, 1), Side(store, 2)]

        async def reserve(side: Side) -> None:
            await side.host.change(lambda catalog: catalog.decide_reserve_producer_ids(side.number))

        await asyncio.gather(*(reserve(side) for side in sides for _ in range(3)))
        blocks = [event for entry in store.entries for event in entry.events]
        assert all(isinstance(event, ProducerIdsReserved) for event in blocks)
        assert [event.upto for event in blocks] == [  # type: ignore[union-attr]
            PRODUCER_IDS_BLOCK * number for number in range(1, 7)
        ]
        assert {event.owner for event in blocks} == {1, 2}  # type: ignore[union-attr]

    run(test)


def test_a_store_that_goes_away_before_it_can_be_asked_leaves_the_outcome_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        side = Side(ModelStore(), 1)

        async def read(_: int) -> Sequence[Entry]:
            raise MetadataUnavailable("the store cannot be reached. Nothing was changed")

        with monkeypatch.context() as patch:
            patch.setattr(side.log, "read", read)
            side.log.faults.append(Fault.ANSWER_LOST)
            with pytest.raises(TimedOut, match="outcome of the change is unknown"):
                await side.create("a")
        await side.create("b")
        assert side.names == ["a", "b"], "it took effect, as reading shows now"

    run(test)


def test_a_host_that_stops_after_an_append_without_an_answer_does_not_call_it_refused() -> None:
    async def test() -> None:
        store = ModelStore()
        side = Side(store, 1)
        side.log.faults.append(Fault.REQUEST_LATE)
        creating = asyncio.ensure_future(side.create("a"))
        await asyncio.sleep(0)
        stopping = asyncio.ensure_future(side.host.stop())
        with pytest.raises(TimedOut, match="outcome of the change is unknown"):
            await creating
        await stopping
        store.deliver_late()
        assert store.end_index == 1, "it takes effect after all"

    run(test)


@pytest.mark.parametrize("second", [MetadataUnavailable("nothing was changed"), DiskFull("no space")])
def test_what_happens_to_a_second_append_says_nothing_about_the_first(
    second: BrokerError, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        side = Side(ModelStore(), 1)
        errors: list[BrokerError] = [TimedOut("no answer"), second]

        async def append(index: int, events: Sequence[Event]) -> int:
            raise errors.pop(0)

        monkeypatch.setattr(side.log, "append", append)
        with pytest.raises(TimedOut, match="outcome of the change is unknown"):
            await side.create("a")

    run(test)


def test_the_second_broker_of_a_cluster_takes_its_topic_defaults_from_the_log() -> None:
    async def test() -> None:
        store = ModelStore()
        sides = [Side(store, 1), Side(store, 2)]
        for side in sides:
            configured = {"log.retention.ms": f"{side.number}000"}
            await side.host.recover(0)
            await side.host.change(
                lambda catalog, configured=configured: catalog.decide_adopt_topic_defaults(  # type: ignore[misc]
                    configured, is_shared=ModelMetadataLog.is_shared
                )
            )
        await turns()
        assert [side.catalog.topic_defaults for side in sides] == [{"log.retention.ms": "1000"}] * 2

    run(test)
