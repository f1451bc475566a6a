"""Brokers that change one catalog over a shared log that loses answers, delays requests and compacts: they agree."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest

from manual_ports import Hand, PromptWorkers
from penstock.core.errors import BrokerError, TimedOut
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Event
from penstock.node.cluster.catalog_host import CatalogHost
from penstock.node.runtime.slices import Sliced
from sim.loop import SimLoop, run
from sim.metadata_model import Fault, ModelMetadataLog, ModelStore

BROKERS = 4
CHANGES = 25


class SimBroker:
    """Creates and deletes topics of its own, and remembers what it was told."""

    def __init__(self, store: ModelStore, number: int, chance: random.Random) -> None:
        self.number = number
        self.log = ModelMetadataLog(store, lambda: chance.uniform(0, 0.005))
        self.catalog = Catalog()
        self.host = CatalogHost(self.log, self.catalog, Hand(workers=PromptWorkers()).runtime, self._apply)
        self.told: dict[str, bool | None] = {}
        """Topic → whether it is there; None: nobody knows."""
        self._chance = chance

    def _apply(self, events: Sequence[Event]) -> Sliced[None]:
        for event in events:
            self.catalog.apply(event)
            yield 1

    async def live(self) -> None:
        self.host.start()
        for step in range(CHANGES):
            if self._chance.random() < 0.3:
                self.log.faults.append(self._chance.choice(list(Fault)))
            name = f"t{self.number}.{step}"
            await self._change(name, True, self._create(name, step))
            if self._chance.random() < 0.4:
                await self._change(name, False, lambda catalog, name=name: catalog.decide_delete_topic(name))
            await asyncio.sleep(self._chance.uniform(0, 0.01))

    def _create(self, name: str, step: int) -> object:
        topic_id = bytes([self.number + 1, step + 1]) * 8

        def decide(catalog: Catalog) -> Sequence[Event]:
            return catalog.decide_create_topic(name, 1, {}, topic_id=topic_id, now_ms=step)

        return decide

    async def _change(self, name: str, is_there: bool, decide: object) -> None:
        try:
            await self.host.change(decide)  # type: ignore[arg-type]
            self.told[name] = is_there
        except TimedOut:
            self.told[name] = None
        except BrokerError:
            assert self.told.get(name) is None and name in self.told, "only what is unknown may be refused"


async def live(loop: SimLoop) -> list[SimBroker]:
    store = ModelStore()
    brokers = [SimBroker(store, number, loop.random_for(f"broker/{number}")) for number in range(BROKERS)]
    living = [asyncio.ensure_future(broker.live()) for broker in brokers]
    chance = loop.random_for("store")
    while not all(one.done() for one in living):
        await asyncio.sleep(chance.uniform(0, 0.01))
        chance.choice([store.deliver_late, store.compact, lambda: None])()
    await asyncio.gather(*living)
    store.deliver_late()
    for broker in brokers:
        while broker.host.index < store.end_index:
            await asyncio.sleep(0.01)
        assert broker.host.is_online
        await broker.host.stop()
    return brokers


@pytest.mark.parametrize("seed", range(1, 13))
def test_all_brokers_end_with_one_catalog_that_holds_what_they_were_told(seed: int) -> None:
    brokers = run(seed, live)
    assert all(broker.catalog.topics == brokers[0].catalog.topics for broker in brokers)
    there = {topic.name for topic in brokers[0].catalog.topics}
    for broker in brokers:
        for name, is_there in broker.told.items():
            assert is_there is None or is_there == (name in there), (name, is_there)


def test_the_faults_leave_something_unknown_and_something_told() -> None:
    outcomes = [told for seed in range(1, 7) for broker in run(seed, live) for told in broker.told.values()]
    assert None in outcomes and outcomes.count(True) > 100
