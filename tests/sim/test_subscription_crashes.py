"""Power fails at any disk operation while messages are delivered: nothing is lost, nothing that is settled comes again,
deliveries are counted right, and every dead letter is buried once."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence

import pytest

from group_node import Node, start_node
from penstock.core.errors import BrokerError
from penstock.core.machines.subscriptions.subscription import Outcome
from penstock.node.coordinators.live_subscription import Delivered, LiveSubscription
from penstock.node.coordinators.subscriptions import SubscriptionRequest
from sim.loop import SimLoop, run
from sim.machine import Machine
from subscription_node import SUBSCRIPTION, letters, publish

LIVES = 4
MEMBERS = 3
BATCHES = 12
OPERATIONS_MAX = 260
LIFE_S_MAX = 60
"""Virtual seconds: what is not done by then has crashed."""
SUBSCRIPTION_REQUEST = SubscriptionRequest(SUBSCRIPTION, "t", hold_ms=2_000, deliveries_max=3)
WORDS = [Outcome.ACCEPT] * 5 + [Outcome.RELEASE] * 4 + [Outcome.REJECT]


class Ledger:
    """What was said to whom, over all lives."""

    def __init__(self) -> None:
        self.published: list[bytes] = []
        self.accepted: set[bytes] = set()
        """A member said so."""
        self.confirmed: set[bytes] = set()
        """And was told that it is kept."""
        self.failures: Counter[bytes] = Counter()
        """Times that a member may have given it back, by word, by silence or by death."""
        self.numbers: dict[bytes, int] = {}
        """The last delivery of each."""
        self.buried: set[bytes] = set()


class Worker:
    """A member that settles, gives back, rejects, or says nothing, by chance."""

    def __init__(
        self, node: Node, live: LiveSubscription, name: str, ledger: Ledger, chance: random.Random
    ) -> None:
        self._node = node
        self._live = live
        self._name = name
        self._ledger = ledger
        self._chance = chance
        self.is_patient = False
        live.join(name, 4, self)

    def deliver(self, subscription: str, messages: Sequence[Delivered]) -> None:
        there = {letter.value for letter in letters(self._node.broker)}
        for message in messages:
            value, number = message.record.value or b"", message.number
            ledger = self._ledger
            assert value not in ledger.confirmed, f"{value!r} was settled and comes again"
            assert value not in there, f"{value!r} is dead and comes again"
            assert number >= ledger.numbers.get(value, 1), f"{value!r}: delivery {number} comes late"
            assert number <= 1 + ledger.failures[value], f"{value!r} was never given back that often"
            ledger.numbers[value] = number
            asyncio.get_running_loop().call_later(self._chance.uniform(0, 0.05), self._answer, message)

    def end(self, subscription: str, error: BrokerError) -> None:
        pass

    def _answer(self, message: Delivered) -> None:
        value = message.record.value or b""
        outcome = Outcome.ACCEPT if self.is_patient else self._chance.choice(WORDS)
        if outcome is Outcome.ACCEPT:
            self._ledger.accepted.add(value)
        self._ledger.failures[value] += 1
        if not self.is_patient and self._chance.random() < 0.1:
            return
        try:
            self._live.acknowledge(self._name, 0, message.record.offset, outcome)
        except BrokerError:
            return
        if outcome is Outcome.ACCEPT:
            asyncio.get_running_loop().call_soon(self._confirm, value)

    def _confirm(self, value: bytes) -> None:
        """Asked a turn later, when it has been written."""
        shard = self._live.shard
        asyncio.get_running_loop().call_soon(
            lambda: shard.when_persisted(
                shard.end_offset,
                lambda error: self._ledger.confirmed.add(value) if error is None else None,
            )
        )


async def produce(node: Node, life: int, ledger: Ledger) -> None:
    try:
        for number in range(BATCHES):
            values = [b"%d.%d.%d" % (life, number, place) for place in range(3)]
            await publish(node.broker, *values)
            ledger.published += values
            await asyncio.sleep(0.02)
    except BrokerError:
        return


async def work(machine: Machine, ledger: Ledger, chance: random.Random, life: int) -> None:
    node = await start_node(machine)
    await node.broker.subscriptions.create(SUBSCRIPTION_REQUEST)
    live = node.broker.subscriptions.find(SUBSCRIPTION)
    for number in range(MEMBERS):
        Worker(node, live, f"m{life}.{number}", ledger, chance)
    await produce(node, life, ledger)
    await asyncio.sleep(5)


async def finish(node: Node, ledger: Ledger, chance: random.Random) -> None:
    """The last life: everything that is left is accepted, and then the books are checked."""
    await node.broker.subscriptions.create(SUBSCRIPTION_REQUEST)
    live = node.broker.subscriptions.find(SUBSCRIPTION)
    Worker(node, live, "last", ledger, chance).is_patient = True
    for _ in range(400):
        await asyncio.sleep(0.1)
        progress = node.broker.subscriptions.progress(SUBSCRIPTION)[0]
        if not progress.unsettled_count and not progress.dying_count:
            break
    dead = [letter.value or b"" for letter in letters(node.broker)]
    assert len(dead) == len(set(dead)), "a dead letter was buried twice"
    lost = set(ledger.published) - ledger.accepted - set(dead)
    assert not lost, f"lost: {sorted(lost)}"
    assert not ledger.confirmed & set(dead), "settled and dead"
    ledger.buried = set(dead)


async def lives(loop: SimLoop) -> Ledger:
    chance = loop.random_for("crashes")
    machine, ledger = Machine(loop, "node"), Ledger()
    for life in range(LIVES):

        async def live(machine: Machine, life: int = life) -> None:
            machine.interrupt_at(chance.randint(1, OPERATIONS_MAX), power=chance.random() < 0.7)
            await asyncio.gather(work(machine, ledger, chance, life))

        living = machine.boot(live)
        await asyncio.wait([living], timeout=LIFE_S_MAX)
        if living.done() and not living.cancelled():
            living.result()
        if loop.latest("node").alive:
            machine.lose_power()

    async def last(machine: Machine) -> None:
        await finish(await start_node(machine), ledger, chance)

    await machine.boot(last)
    return ledger


@pytest.mark.parametrize("seed", range(40))
def test_every_message_is_settled_or_buried_once(seed: int) -> None:
    run(seed, lives)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 500))
def test_every_message_is_settled_or_buried_once_many_times(seed: int) -> None:
    run(seed, lives)


def test_the_crashes_fall_in_the_middle_of_things() -> None:
    """The test above would be worth nothing if nothing died, or if every word reached the disk."""
    ledgers = [run(seed, lives) for seed in range(5)]
    assert any(ledger.buried for ledger in ledgers)
    assert any(ledger.accepted - ledger.confirmed for ledger in ledgers)
    assert any(max(ledger.numbers.values(), default=0) > 1 for ledger in ledgers)
