"""Links under faults: every call is settled once, and each error says the truth about what happened.

Batches go over a link to a broker while connections break, the network is cut and the broker is killed. What was
acknowledged is in the log, what failed as not sent is not, and nothing is there twice.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from link_world import HERE, PEER_ID, SETTINGS, LinkWorld, play
from penstock.core.errors import BrokerError, PeerUnavailable, Throttled, TimedOut
from penstock.core.model import NewRecord, PartitionId
from penstock.core.records.build import build_batch, open_batches
from penstock.node.peers import link, peer_calls
from penstock.node.peers.link_connection import LinkConnection
from penstock.node.peers.links import PeerLinks
from penstock.node.peers.peer_calls import RemoteAppend
from penstock.wire.kafka import ApiKey
from sim import node as sim_node
from sim.net import Farewell

SEEDS = range(40)
BATCHES = 150
TIMEOUT_MS = 800
TOPIC = "orders"
UNSENT = (PeerUnavailable, Throttled)


class Trial:
    """One world with faults; `outcomes` are those of each batch, by its number."""

    def __init__(self, world: LinkWorld, links: PeerLinks) -> None:
        self.world = world
        self.links = links
        self.chance = world.loop.random_for("trial")
        self.outcomes: dict[int, list[Any]] = {}
        self.faults: Counter[str] = Counter()
        self.partition = PartitionId(bytes(16), 0)

    async def run(self) -> None:
        broker = await self.world.start_broker()
        await self.world.loop.spawn(sim_node.NAME, broker.auto_create_topic(TOPIC))
        self.partition = PartitionId(broker.catalog.topic(TOPIC).id, 0)
        for number in range(BATCHES):
            self.send(number)
            if self.chance.random() < 0.08:
                await self.strike()
            await asyncio.sleep(self.chance.choice((0.0, 0.001, 0.01, 0.1)))
        self.world.loop.net.heal()
        await asyncio.sleep(10 * TIMEOUT_MS / 1000)
        self.check(await self.stored())

    def send(self, number: int) -> None:
        self.outcomes[number] = []
        batch = bytes(build_batch([NewRecord(None, b"%d" % number)], self.world.here.clock.now_ms()))
        peer_calls.send_batch(
            self.links,
            PEER_ID,
            self.partition,
            batch,
            self.outcomes[number].append,
            timeout_ms=self.chance.choice((50, TIMEOUT_MS)),
        )

    async def strike(self) -> None:
        net = self.world.loop.net
        fault = self.chance.choice(("cut", "one way", "heal", "reset", "kill"))
        self.faults[fault] += 1
        match fault:
            case "cut":
                net.cut(HERE, sim_node.NAME)
            case "one way":
                net.cut(sim_node.NAME, HERE, one_way=True)
            case "heal":
                net.heal()
            case "reset":
                net.reset(HERE, sim_node.NAME)
            case "kill":
                self.world.machine.kill(self.chance.choice(list(Farewell)))
                await asyncio.sleep(self.chance.choice((0.0, 0.2)))
                await self.world.start_broker()

    async def stored(self) -> Counter[int]:
        """The numbers in the log, read over the link once everything works again."""
        found: Counter[int] = Counter()
        offset, end = 0, 1
        while offset < end:
            await asyncio.sleep(link.BACK_OFF_S_MAX)
            try:
                read = await peer_calls.fetch(
                    self.links,
                    PEER_ID,
                    self.partition,
                    offset,
                    bytes_max=1_000_000,
                    wait_ms=0,
                    timeout_ms=10_000,
                )
            except (PeerUnavailable, TimedOut):
                continue
            end = read.high_watermark
            for record in open_batches(read.records):
                assert record.value is not None
                found[int(record.value)] += 1
                offset = record.offset + 1
        return found

    def check(self, stored: Counter[int]) -> None:
        assert set(stored.values()) <= {1}, "a batch was sent twice"
        for number, outcomes in self.outcomes.items():
            assert len(outcomes) == 1, f"batch {number} was settled {len(outcomes)} times"
            (outcome,) = outcomes
            if isinstance(outcome, RemoteAppend):
                assert number in stored, f"batch {number} was acknowledged and is gone"
            elif isinstance(outcome, UNSENT):
                assert number not in stored, f"batch {number} was not sent, they say: {outcome}"
            else:
                assert isinstance(outcome, BrokerError)


def outcomes_of(seeds: range) -> tuple[Counter[str], Counter[str]]:
    kinds: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    for seed in seeds:

        async def test(world: LinkWorld, links: PeerLinks) -> None:
            trial = Trial(world, links)
            await trial.run()
            kinds.update(type(one).__name__ for [one] in trial.outcomes.values())
            faults.update(trial.faults)

        play(test, seed)
    return kinds, faults


def test_every_error_says_the_truth() -> None:
    kinds, faults = outcomes_of(SEEDS)
    assert {"RemoteAppend", "TimedOut", "PeerUnavailable"} <= set(kinds), kinds
    assert len(faults) == 5 and SETTINGS.node_id == PEER_ID


@pytest.mark.slow
def test_every_error_says_the_truth_for_long() -> None:
    outcomes_of(range(1_000, 1_400))


# -- the same trial finds bugs that were planted


def calls_unsent_what_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "TimedOut", PeerUnavailable)


def sends_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    flush = LinkConnection._flush

    def twice(self: Any) -> None:
        if any(call.api_key == ApiKey.PRODUCE for call in self._queued):
            self._pieces *= 2
        flush(self)

    monkeypatch.setattr(LinkConnection, "_flush", twice)


@pytest.mark.parametrize(
    ("plant", "words"),
    [(calls_unsent_what_was_sent, "was not sent, they say"), (sends_twice, "a batch was sent twice")],
)
def test_planted_bugs_are_found(plant: Any, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError, match=words):
        outcomes_of(SEEDS[:10])
