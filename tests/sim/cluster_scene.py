"""One run of the simulated cluster: five brokers, the metadata store, clients, and chance that breaks them.

The faults of a run are a random selection, so that each gets runs in which nothing else covers it up. In the end all
faults stop, and everything has to come back within a bound; then all that was promised is read and compared.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from penstock.core.machines.cluster.values import NO_LEADER, PartitionReplicas
from penstock.core.model import Address, PartitionId
from penstock.node.replicas import fetcher
from penstock.node.replicas.partition import Partition
from sim import cluster_clients as clients
from sim import cluster_transactions as transactions
from sim.cluster_faults import DAMAGE, Faults
from sim.cluster_machines import PORT, BrokerMachine, State
from sim.cluster_members import GroupMember, GroupStory
from sim.cluster_operator import Operator
from sim.cluster_plan import plan_for
from sim.cluster_router import Router, Trouble, troubles
from sim.cluster_store import CoordinatorStore, ModelledStore, Store
from sim.cluster_transactions import TransactionalProducer
from sim.cluster_watch import Watch, watching
from sim.crashing import read_whole
from sim.kafka_client import KafkaClient, Place
from sim.ledger import Broken, Kind, Ledger
from sim.loop import Order, SimLoop

Found = TypeVar("Found")

BROKERS = 5
COORDINATOR_CHANCE = 0.1
"""How often the metadata store is a coordinator process, and not the model."""
TOPICS = {"a": (Kind.PLAIN, 3), "b": (Kind.PLAIN, 2), "c": (Kind.CUT, 1)}
START_S_MAX = 30.0
RECOVERY_S_MAX = 90.0
"""Within this time after the last fault every broker is active, every partition is led where it was moved to, and every
client is done. A move that failed often waits for half a minute before it goes on."""
STEADY_S = 1.0
"""For so long all of that has to hold: a state that is reached and lost again does not count."""
POLL_S = 0.1
STEPS_MAX = 300_000
"""Several times what a run takes; a broker that spins would take forever."""
SHORT_LAG_CHANCE, SHORT_LAG_MS = 0.2, 2_000
"""How often, and after which time, leaders remove replicas that lag: the usual time is longer than a run has faults."""
SCRUB_MS = 6_000
"""How often replicas are compared in runs with damaged segments."""
READ_S_MAX = 10.0
"""How long a partition may be without a leader when everything is compared."""
TINY_CHANCE = 0.02
"""How often a segment of the network has a few bytes only; other simulations have more of them."""
FETCH_WAIT_MS = 1_500
"""How long a leader lets an idle replica wait: what idle ones do costs most of a run otherwise."""
WORKS = 30
PAUSE_S = 0.7
"""What a client does under faults: so many pieces of work, with pauses in between."""
CLIENTS: dict[type[clients.Client], tuple[str, int, int]] = {
    clients.IdempotentProducer: ("idempotent", 1, 2),
    clients.PlainProducer: ("plain", 0, 1),
    clients.Reader: ("reader", 0, 1),
    clients.Committer: ("committer", 0, 2),
    clients.IdCollector: ("ids", 0, 1),
    clients.TopicChanger: ("topics", 0, 1),
    GroupMember: ("member", 0, 2),
    TransactionalProducer: ("transactions", 0, 2),
    clients.Cutter: ("cutter", 0, 1),
    Operator: ("operator", 0, 1),
}
"""Kinds of clients: the name of their hosts, and how many a run has at least and at most."""


class Scene:
    """One seed."""

    def __init__(
        self, loop: SimLoop, fault_names: Sequence[str] | None = None, *, is_crowded: bool = False
    ) -> None:
        self._loop = loop
        loop.net.knobs = replace(loop.net.knobs, tiny_chance=TINY_CHANCE)
        self._chance = loop.random_for("scene")
        self.machines: dict[int, BrokerMachine] = {}
        self.watch = Watch(loop, self.machines)
        self.store = self._make_store()
        for number in range(1, BROKERS + 1):
            self.machines[number] = BrokerMachine(loop, self.store, number)
        self.ledger = Ledger()
        self.ledger.committed = lambda place: self.watch.replicas.committed(PartitionId(*place))
        self.ledger.leader = self._leader_of
        self.faults = Faults(loop, self.store, self.machines, self.watch.truth.cluster, fault_names)
        self.plan = plan_for(self.faults.kinds, self._chance)
        self.clients = self._make_clients(is_crowded)
        if DAMAGE in self.faults.kinds:
            self._expect_damage()
        if fault_names is None and loop.random_for("lag").random() < SHORT_LAG_CHANCE:
            for machine in self.machines.values():
                machine.settings["replica_lag_ms"] = SHORT_LAG_MS
        self.faults.clients = [one.name for one in self.clients]
        self._is_over = asyncio.Event()

    def _expect_damage(self) -> None:
        """Replicas are compared often enough to find damage within a run. Until then a broker may send it to clients,
        which see that the checksum is wrong."""
        for machine in self.machines.values():
            machine.settings["scrub_interval_ms"] = SCRUB_MS
        for client in self.clients:
            client.may_see_damage = True

    def _leader_of(self, place: Place) -> str | None:
        placed = self.watch.truth.cluster.find_partition(PartitionId(*place))
        machine = None if placed is None else self.machines.get(placed.leader)
        return None if machine is None else machine.name

    def _make_store(self) -> Store:
        if self._chance.random() < COORDINATOR_CHANCE:
            return CoordinatorStore(self._loop, self._chance)
        return ModelledStore(self._loop, self.watch.taken)

    def _make_clients(self, is_crowded: bool) -> list[clients.Client]:
        chance, made = self._chance, []
        bootstrap = [Address(one.name, PORT) for one in self.machines.values()]

        for kind, (name, least, most) in CLIENTS.items():
            for number in range(most if is_crowded else chance.randint(least, most)):
                made.append(kind(self._loop, f"{name}-{number}", self.ledger, bootstrap))
        story = GroupStory("members", "a")
        for one in made:
            if isinstance(one, GroupMember):
                one.story = story
            if isinstance(one, Operator | clients.TopicChanger):
                one.plan = self.plan
            if isinstance(one, Operator):
                one.unknown_losses = self.faults.unknown_losses
        return made

    async def run(self) -> None:
        with watching(self.watch), idling(), defects() as found:
            await self._begin()
            works = [
                self._loop.spawn(one.name, one.run(WORKS, PAUSE_S, self._is_over), name=one.name)
                for one in self.clients
            ]
            await self.faults.run()
            self.faults.stop()
            self._is_over.set()
            await self._recover(works)
            await self._loop.spawn("checker", self._check())
        if found:
            raise Broken(f"a broker reported a defect of its own: {found}")

    def numbers(self) -> Counter[str]:
        """How much this run has seen, to tell runs that prove something from idle ones."""
        return Counter(
            {
                "checks": self.watch.checks,
                "records compared": self.ledger.checked,
                "works": sum(one.done for one in self.clients),
                "troubles": sum(one.troubles for one in self.clients),
                "processes started": sum(one.lives for one in self.machines.values()),
                "metadata events": self.watch.end_index,
                "transactions": sum(
                    len(one.told) for one in self.clients if isinstance(one, TransactionalProducer)
                ),
                "moves": self.watch.moves,
            }
        )

    # -- begin

    async def _begin(self) -> None:
        for machine in self.machines.values():
            machine.start()
        async with asyncio.timeout(START_S_MAX):
            while not all(one.state is State.SERVING for one in self.machines.values()):
                await asyncio.sleep(POLL_S)
        await self._loop.spawn("admin", self._create_topics())

    async def _create_topics(self) -> None:
        router = self._router()
        for name, (kind, partitions) in TOPICS.items():
            topic_id = await self._create(router, name, partitions, dict(kind.value))
            self.ledger.created(topic_id, name, kind, partitions)
        producers = [one for one in self.clients if isinstance(one, TransactionalProducer)]
        if producers:
            settings = {"retention.ms": "-1"}
            topic_id = await self._create(router, transactions.TOPIC, transactions.PARTITIONS, settings)
            for producer in producers:
                producer.topic_id = topic_id
        router.close()

    async def _create(self, router: Router, name: str, partitions: int, settings: dict[str, str]) -> bytes:
        factor = self.plan.factor(self._chance)
        settings |= self.plan.settings(self._chance, factor)
        return await (await router.anyone()).create_topic(name, partitions, settings, factor)

    def _router(self) -> Router:
        return Router([Address(one.name, PORT) for one in self.machines.values()], self._chance)

    # -- end

    async def _recover(self, works: list[asyncio.Task[None]]) -> None:
        """After the last fault everything comes back by itself."""
        until_s = self._loop.time() + RECOVERY_S_MAX
        steady_since_s: float | None = None
        while steady_since_s is None or self._loop.time() < steady_since_s + STEADY_S:
            await asyncio.sleep(POLL_S)
            self.faults.mend()
            missing = self._missing(works)
            if missing:
                steady_since_s = None
            elif steady_since_s is None:
                steady_since_s = self._loop.time()
            if missing and self._loop.time() > until_s:
                raise Broken(f"{RECOVERY_S_MAX} s after the last fault: {'; '.join(missing)}")
        for placed in self.watch.truth.cluster.partitions():
            self.watch.replicas.compare_whole(self._replicas_of(placed))

    def _missing(self, works: list[asyncio.Task[None]]) -> list[str]:
        """What is not as it should be without faults."""
        for work in works:
            if work.done():
                work.result()
        missing = [f"{one.get_name()} has not finished" for one in works if not one.done()]
        for machine in self.machines.values():
            missing += self._missing_at(machine)
        for placed in self.watch.truth.cluster.partitions():
            missing += self._missing_of(placed)
        missing += self.faults.damages()
        controllers = {one.broker.controller_id for one in self.machines.values() if one.broker is not None}
        if len(controllers) != 1 or NO_LEADER in controllers:
            missing.append(f"the controller is one of {controllers}")
        return missing

    def _missing_of(self, placed: PartitionReplicas) -> Iterator[str]:
        if placed.leader == NO_LEADER or placed.is_moving:
            yield f"{placed} has no leader, or has not arrived"
            return
        if set(placed.isr) != set(placed.replicas):
            yield f"{placed} has replicas that are not in sync"
        if why := self.watch.replicas.compare(placed, self._replicas_of(placed)):
            yield why

    def _replicas_of(self, placed: PartitionReplicas) -> list[Partition]:
        """Those that run, the leader first."""
        brokers = [self.machines[one].broker for one in placed.replicas]
        held = [one.find_held(placed.id) for one in brokers if one is not None]
        return sorted((one for one in held if one is not None), key=lambda one: not one.is_leader)

    def _missing_at(self, machine: BrokerMachine) -> Iterator[str]:
        broker, name = machine.broker, machine.name
        if broker is None or machine.state is not State.SERVING or broker.membership is None:
            yield f"{name} is {machine.state.value}"
            return
        if not broker.membership.is_active or self.watch.truth.cluster.is_fenced(machine.broker_id):
            yield f"{name} is not active"
        if broker.metadata_end != self.watch.end_index:
            yield f"{name} has read {broker.metadata_end} of {self.watch.end_index}"
        for partition in broker.partitions():
            placed = broker.catalog.cluster.find_partition(PartitionId(partition.topic_id, partition.index))
            is_leader = placed is not None and placed.leader == machine.broker_id
            if partition.failure is not None or partition.is_leader != is_leader:
                yield f"{name} has not its role in {partition}: {partition.failure}, {placed}"
            elif placed is None or placed.leader_epoch != partition.leader_epoch:
                yield f"{name} is in {partition} in another epoch than {placed}"
        for host in broker._shard_hosts.values():
            for shard in host.led:
                if not shard.is_ready:
                    yield f"{name} does not serve {shard.partition}: {shard.stage.name}"

    async def _check(self) -> None:
        """Read everything there is and hold it against the ledger."""
        router = self._router()
        answer = await router.refresh()
        found = {
            bytes(one.topic_id): (one.name, len(one.partitions))
            for one in answer.topics
            if not one.is_internal and one.name != transactions.TOPIC
        }
        self.ledger.check_topics(found)
        for topic_id, topic in list(self.ledger.topics.items()):
            for index in range(len(topic.partitions)):
                place = Place(topic_id, index)
                start, end, records = await self._read(router, place, read_whole)
                self.ledger.check_partition(place, start, end, records, lost_power=False)
                self._check_order(place, [bytes(one.value or b"") for one in records])
        await self._check_transactions(router)
        router.close()

    async def _read(
        self, router: Router, place: Place, read: Callable[[KafkaClient, Place], Awaitable[Found]]
    ) -> Found:
        """A session that was cut off may end a moment after the last fault, and its broker joins again then."""
        until_s = self._loop.time() + READ_S_MAX
        while True:
            try:
                with troubles():
                    return await read(await router.leader(place), place)
            except Trouble:
                if self._loop.time() > until_s:
                    raise
            router.forget()
            await asyncio.sleep(POLL_S)

    async def _check_transactions(self, router: Router) -> None:
        producers = [one for one in self.clients if isinstance(one, TransactionalProducer)]
        if producers:
            places = [Place(producers[0].topic_id, index) for index in range(transactions.PARTITIONS)]
            seen = [await self._read(router, place, transactions.read_committed) for place in places]
            for producer in producers:
                producer.check(seen, await producer.committed_offset())

    def _check_order(self, place: Place, values: list[bytes]) -> None:
        """The records of an idempotent producer lie in the order in which it made them."""
        for client in self.clients:
            if isinstance(client, clients.IdempotentProducer):
                prefix = client.name.encode() + b"-"
                own = [value.partition(b":")[0] for value in values if value.startswith(prefix)]
                if own != sorted(own):
                    raise Broken(f"{place}: the records of {client.name} are out of order: {own}")


@contextmanager
def idling() -> Iterator[None]:
    """Replicas that have nothing to copy ask their leaders less often."""
    before, fetcher.WAIT_MS = fetcher.WAIT_MS, FETCH_WAIT_MS
    try:
        yield
    finally:
        fetcher.WAIT_MS = before


@contextmanager
def defects() -> Iterator[list[str]]:
    """Collects what brokers log about defects of their own. Everything else that they log is expected here."""
    found: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "defect" in record.getMessage():
                found.append(self.format(record))

    logger, handler = logging.getLogger("penstock"), Collect(logging.ERROR)
    level, propagate = logger.level, logger.propagate
    # Only whoever tells the story of a run has a handler of its own, and wants to see the rest.
    logger.setLevel(logging.INFO if logger.handlers else logging.ERROR)
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield found
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate


def simulate(
    seed: int,
    *fault_names: str,
    is_crowded: bool = False,
    order: Order = Order.HOSTS,
    is_traced: bool = False,
) -> Scene:
    """Run one seed, with faults of these kinds or of a random selection; with all clients, or a random selection."""
    loop = SimLoop(seed, order=order, is_traced=is_traced, run_steps_max=STEPS_MAX)  # type: ignore[abstract]
    return loop.run(scene_of(*fault_names, is_crowded=is_crowded))


def scene_of(*fault_names: str, is_crowded: bool = False) -> Callable[[SimLoop], Coroutine[Any, Any, Scene]]:
    """What a simulation runs."""

    async def play(loop: SimLoop) -> Scene:
        scene = Scene(loop, fault_names or None, is_crowded=is_crowded)
        await scene.run()
        return scene

    return play
