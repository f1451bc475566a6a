"""The controller on virtual time: whom it fences, whom it leaves alone, and who takes its place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from cluster_nodes import until
from manual_ports import Hand, PromptWorkers
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Event
from penstock.core.machines.cluster.brokers import RegistrationRequest, decide_register, decide_unfence
from penstock.core.machines.cluster.events import BrokerSaved
from penstock.node.cluster.catalog_host import CatalogHost
from penstock.node.cluster.controller import UNSEEN_S_MAX, Controller
from penstock.node.cluster.metadata_log import CONTROLLER_SESSION, LiveSession
from penstock.node.runtime.slices import Sliced
from penstock.node.settings import Settings
from sim.loop import SimLoop, run
from sim.metadata_model import ModelMetadataLog, ModelStore


class Side:
    """The controller of one broker with its own view of the log."""

    def __init__(self, store: ModelStore, broker_id: int) -> None:
        self.store = store
        self.catalog = Catalog()
        log = ModelMetadataLog(store)
        self.host = CatalogHost(log, self.catalog, Hand(workers=PromptWorkers()).runtime, self._apply)
        self.controller = Controller(log, self.host, self.catalog, broker_id, Settings())
        self.host.start()
        self.controller.start()

    def _apply(self, events: Any) -> Sliced[None]:
        for event in events:
            self.catalog.apply(event)
            yield 1
        self.controller.wake()

    async def register(self, broker_id: int, session: int) -> None:
        """As a broker does it, under the given session."""

        def decide(catalog: Catalog) -> list[Event]:
            request = RegistrationRequest("c", broker_id, f"run-{session}", {}, "", session)
            draft = catalog.draft()
            events: list[Event] = [*decide_register(catalog.cluster, request)]
            for event in events:
                draft.apply(event)
            epoch = draft.cluster.broker(broker_id).epoch
            return [*events, *decide_unfence(draft.cluster, broker_id, epoch)]

        await self.host.change(decide)

    def is_fenced(self, broker_id: int) -> bool:
        return self.catalog.cluster.is_fenced(broker_id)

    async def stop(self) -> None:
        await self.controller.stop()
        await self.host.stop()


def play(scenario: Callable[[ModelStore, Side], Coroutine[Any, Any, None]]) -> None:
    async def main(loop: SimLoop) -> None:
        store = ModelStore()
        side = Side(store, 1)
        await scenario(store, side)
        await side.stop()

    run(1, main)


def open_session(store: ModelStore, broker_id: int) -> LiveSession:
    session = store.sessions.open(f"broker-{broker_id}", broker_id)
    assert session is not None
    return session.live


def test_a_broker_whose_session_ended_is_fenced_and_the_others_are_not() -> None:
    async def scenario(store: ModelStore, side: Side) -> None:
        sessions = {broker_id: open_session(store, broker_id) for broker_id in (2, 3)}
        for broker_id, live in sessions.items():
            await side.register(broker_id, live.number)
        await until(lambda: side.controller.holder_id == 1)
        store.sessions.end(sessions[2])
        await until(lambda: side.is_fenced(2))
        await asyncio.sleep(3 * UNSEEN_S_MAX)
        assert not side.is_fenced(3)

    play(scenario)


def test_a_broker_that_has_a_new_session_by_now_is_not_fenced_for_the_old_one() -> None:
    async def scenario(store: ModelStore, side: Side) -> None:
        first = open_session(store, 2)
        await side.register(2, first.number)
        await until(lambda: side.controller.live_brokers == 1)
        store.sessions.end(first)
        # The broker tells of its new session in the very moment in which the controller decides on the old one.
        renewed = replace(side.catalog.cluster.broker(2), session=open_session(store, 2).number)
        assert store.take(store.end_index, (BrokerSaved(renewed),)) == store.end_index
        await asyncio.sleep(3 * UNSEEN_S_MAX)
        fenced = [
            event
            for entry in store.entries
            for event in entry.events
            if isinstance(event, BrokerSaved) and event.broker.is_fenced and event.broker.session
        ]
        assert len(fenced) == 1, "it was fenced when it registered, and never again"

    play(scenario)


def test_a_session_that_ended_before_its_broker_registered_counts_as_ended() -> None:
    async def scenario(store: ModelStore, side: Side) -> None:
        await until(lambda: side.controller.holder_id == 1)
        live = open_session(store, 2)
        await until(lambda: side.controller.live_brokers == 1)
        store.sessions.end(live)
        await side.register(2, live.number)
        await until(lambda: side.is_fenced(2))

    play(scenario)


def test_a_session_that_is_not_known_yet_gets_its_time() -> None:
    async def scenario(store: ModelStore, side: Side) -> None:
        await until(lambda: side.controller.holder_id == 1)
        future = store.sessions.last_number + 5
        await side.register(2, future)
        await asyncio.sleep(UNSEEN_S_MAX / 2)
        assert not side.is_fenced(2)
        await until(lambda: side.is_fenced(2))

    play(scenario)


def test_another_broker_takes_over_and_fences_what_the_first_left() -> None:
    async def scenario(store: ModelStore, side: Side) -> None:
        await until(lambda: side.controller.holder_id == 1)
        stand_by = Side(store, 2)
        await until(lambda: stand_by.controller.holder_id == 1)
        first_epoch = stand_by.controller.epoch
        live = open_session(store, 3)
        await side.register(3, live.number)
        await side.stop()
        store.expire(CONTROLLER_SESSION)
        store.sessions.end(live)
        await until(lambda: stand_by.is_fenced(3))
        assert stand_by.controller.holder_id == 2 and stand_by.controller.epoch > first_epoch
        await stand_by.stop()

    play(scenario)
