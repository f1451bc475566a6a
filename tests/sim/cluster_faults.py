"""What chance does to a simulated cluster: crashes, pauses, cuts, bad disks and clocks, a store with troubles.

Each run has a few kinds of faults only. A fault that lasts ends by itself after a while; `stop` ends all of them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from penstock.core.machines.cluster.state import ClusterState
from penstock.core.machines.cluster.values import PartitionReplicas
from penstock.core.model import PartitionId
from penstock.node.cluster.metadata_log import CONTROLLER_SESSION
from penstock.node.replicas.partition import Partition
from sim import cluster_store
from sim.cluster_damage import Damage
from sim.cluster_machines import BrokerMachine, State
from sim.cluster_store import ModelledStore, Store
from sim.loop import SimLoop
from sim.net import Farewell
from sim.workers import WorkerKnobs

FAULTS = 11
"""Faults per run."""
GAP_S = 2.0
"""Between two faults, in the mean."""
KINDS_MIN, KINDS_MAX = 2, 6
LASTS_S = (0.3, 2.0, 5.0, 9.0, 14.0)
"""How long faults last: shorter and longer than a session, which takes 6 s."""
AWAY_S = (0.1, 1.0, 4.0, 10.0)
"""How long a process stays away after a crash."""
DISK_OPERATIONS_MAX = 80
CLOCK_ERRORS_MS = (-1_800_000, -5_000, 0, 5_000, 1_800_000)
"""Not so wrong that timestamps of clients are refused, or producers and records expire."""
SLOW_DISK = WorkerKnobs(delay_s_max=0.2, slow_chance=0.2, slow_s_max=4.0)
HANGING_DISK = WorkerKnobs(delay_s_min=2.0, delay_s_max=3.0, slow_chance=0.0)
SLOW_NET_S = 0.4
DAMAGE = "damaged segment"
DAMAGE_CHANCE = 0.15
"""How often a run has damaged segments. They come on top of the others, so that other runs stay what they are."""


class Faults:
    """The faults of one run, of some kinds: of `names`, or else of a random selection."""

    def __init__(
        self,
        loop: SimLoop,
        store: Store,
        machines: dict[int, BrokerMachine],
        truth: ClusterState,
        names: Sequence[str] | None = None,
    ) -> None:
        self._loop = loop
        self._store = store
        self._machines = machines
        self._truth = truth
        self._lost: dict[int, int] = {}
        """Brokers that have lost their disk → the broker epoch in which they did."""
        self._damage = Damage(loop, machines)
        self._chance = loop.random_for("faults")
        self._net_knobs = loop.net.knobs
        self.clients: list[str] = []
        """The hosts of clients."""
        self.counts: Counter[str] = Counter()
        self._rolling: list[asyncio.Task[None]] = []
        self._is_over = False
        kinds = self._kinds()
        names = None if names is None else list(names)
        if names is None:
            names = self._chance.sample(
                [one for one in kinds if one != DAMAGE], self._chance.randint(KINDS_MIN, KINDS_MAX)
            )
            # After a failed sync a broker does not trust its replica: a damaged one may be the only one then.
            if "failed sync" not in names and loop.random_for("damages").random() < DAMAGE_CHANCE:
                names.append(DAMAGE)
        self._chosen = {name: kinds[name] for name in names}
        for machine in machines.values():
            machine.restart_s = lambda: self._chance.choice(AWAY_S)

    def _kinds(self) -> dict[str, Callable[[], None]]:
        return {
            "kill": self._kill,
            "kill the controller": self._kill_controller,
            "power loss": self._lose_power,
            "power loss of all": self._lose_all_power,
            "power loss of a spare": self._lose_spare_power,
            "lost disk": self._lose_disk,
            "death inside a disk operation": self._die_inside,
            "stop": self._stop,
            "rolling restart": self._restart_all,
            "pause": self._pause,
            "cut from the store": self._cut_store,
            "store unreachable": self._cut_store_off,
            "cut from clients": self._cut_clients,
            "cut from brokers": self._cut_peers,
            "split": self._split,
            "reset": self._reset,
            "slow network": self._slow_net,
            "clock jump": self._jump,
            "slow disk": self._slow_disk,
            "full disk": self._fill_disk,
            "failed sync": self._fail_sync,
            "expired session": self._expire,
            "compaction": self._compact,
            "store crash": self._crash_store,
            DAMAGE: self._damage_segment,
        }

    @property
    def kinds(self) -> list[str]:
        """The kinds of this run."""
        return list(self._chosen)

    async def run(self) -> None:
        """One fault after the other; some of them overlap."""
        for _ in range(FAULTS):
            await asyncio.sleep(self._chance.expovariate(1 / GAP_S))
            name = self._chance.choice(list(self._chosen))
            self._loop.note(f"fault: {name}")
            self.counts[name] += 1
            self._chosen[name]()

    def stop(self) -> None:
        """All is well from now on: an operator has mended what does not mend itself."""
        self._is_over = True
        for rolling in self._rolling:
            rolling.cancel()
        self._loop.net.heal()
        self._loop.net.knobs = self._net_knobs
        self._store.relent()
        for machine in self._machines.values():
            machine.restart_s = lambda: 0.5
            machine.machine.disk.relent()
            machine.machine.workers.knobs = WorkerKnobs(slow_chance=0.0)
            machine.resume()
            machine.start()
        self.mend()

    def mend(self) -> None:
        """Restart the brokers with partitions that are offline until a restart. One that is starting is not ready for
        that yet. What others have, a broker repairs by itself."""
        for machine in self._machines.values():
            if machine.broker is not None:
                failed = [one for one in machine.broker.partitions() if one.failure is not None]
                if any(not self._is_repairable(machine.broker_id, one) for one in failed):
                    machine.stop()

    def _is_repairable(self, broker_id: int, failed: Partition) -> bool:
        placed = self._truth.find_partition(PartitionId(failed.topic_id, failed.index))
        return placed is not None and bool({*placed.isr, *placed.elr} - {broker_id})

    # -- choices

    def _someone(self) -> BrokerMachine | None:
        """A broker whose process runs."""
        running = [one for one in self._machines.values() if one.state is not State.DOWN]
        return self._chance.choice(running) if running else None

    def _later(self, work: Callable[[], None]) -> None:
        self._loop.call_later(self._chance.choice(LASTS_S), work)

    # -- processes

    def _kill(self) -> None:
        if machine := self._someone():
            machine.kill(self._chance.choice((Farewell.RESET, Farewell.EOF)))

    def _kill_controller(self) -> None:
        for live in self._store.sessions():
            machine = self._machines[live.holder]
            if live.name == CONTROLLER_SESSION and machine.state is not State.DOWN:
                machine.kill()

    def _lose_power(self) -> None:
        """At once, or while the disk hangs: then much is not synced that was written."""
        if machine := self._someone():
            farewell = self._chance.choice(list(Farewell))
            if self._chance.random() < 0.5:
                machine.lose_power(farewell)
                return
            workers, life = machine.machine.workers, machine.lives
            before, workers.knobs = workers.knobs, HANGING_DISK

            def lose() -> None:
                workers.knobs = before
                if machine.lives == life and machine.state is not State.DOWN and not self._is_over:
                    machine.lose_power(farewell)

            self._loop.call_later(self._chance.uniform(0.3, 1.5), lose)

    def _lose_all_power(self) -> None:
        """Half of the time with the store."""
        farewell = self._chance.choice(list(Farewell))
        for machine in self._machines.values():
            if machine.state is not State.DOWN:
                machine.lose_power(farewell)
        if self._chance.random() < 0.5:
            self._crash_store()

    def _lose_spare_power(self) -> None:
        """What one broker forgets, others have, however little is synced."""
        if machine := self._some_spare():
            machine.lose_power(self._chance.choice(list(Farewell)))

    def _lose_disk(self) -> None:
        if machine := self._some_spare():
            machine.lose_disk(self._chance.choice(list(Farewell)))

    def _some_spare(self) -> BrokerMachine | None:
        """A broker whose partitions all have another complete replica: nobody promises anything for the others."""
        running = [one for one in self._machines.values() if one.state is not State.DOWN]
        able = [one for one in running if self._is_spare(one.broker_id)]
        if not able or not isinstance(self._store, ModelledStore):  # of others, nobody knows what they hold
            return None
        machine = self._chance.choice(able)
        found = self._truth.find_broker(machine.broker_id)
        self._lost[machine.broker_id] = -1 if found is None else found.epoch
        return machine

    def unknown_losses(self) -> set[int]:
        """The brokers that have lost records, of which metadata does not know yet."""
        found = {broker_id: self._truth.find_broker(broker_id) for broker_id in self._lost}
        return {
            one.broker_id
            for one in found.values()
            if one is not None and one.epoch == self._lost[one.broker_id]
        }

    def _is_spare(self, broker_id: int) -> bool:
        lost = self.unknown_losses() - {broker_id}
        return all(self._has_another(placed, broker_id, lost) for placed in self._truth.held_by(broker_id))

    def _has_another(self, placed: PartitionReplicas, broker_id: int, lost: set[int]) -> bool:
        """With two losses that it does not know of, metadata would let go of a third member that is only killed."""
        complete = {*placed.isr, *placed.elr}
        if broker_id not in complete:
            return True
        if complete & lost:
            return False
        if self._damage.is_left(placed.id):
            complete.discard(self._damage.victim)
        return bool(complete - {broker_id}) and self._truth.isr_size_min(placed.topic_id) > 1

    def _damage_segment(self) -> None:
        """Bits rot that other replicas have. The broker has to find that, and neither serve nor lose the records."""
        if isinstance(self._store, ModelledStore):
            self._damage.strike(self._is_elsewhere)

    def _is_elsewhere(self, partition: PartitionId, broker_id: int) -> bool:
        placed = self._truth.find_partition(partition)
        return placed is not None and broker_id in placed.isr and self._is_spare(broker_id)

    def damages(self) -> list[str]:
        """What nobody has repaired so far."""
        return [f"broker {self._damage.victim} has not repaired {one}" for one in self._damage.left()]

    def _die_inside(self) -> None:
        if machine := self._someone():
            operation = self._chance.randint(1, DISK_OPERATIONS_MAX)
            machine.interrupt_at(operation, power=self._chance.random() < 0.5)

    def _stop(self) -> None:
        if machine := self._someone():
            machine.stop()

    def _restart_all(self) -> None:
        self._rolling.append(self._loop.create_task(self._roll()))

    async def _roll(self) -> None:
        for machine in self._machines.values():
            machine.stop()
            await asyncio.sleep(self._chance.choice((0.2, 1.0, 3.0)))

    def _pause(self) -> None:
        if machine := self._someone():
            machine.pause()
            self._later(machine.resume)

    # -- network

    def _cut(self, some: list[str], others: list[str]) -> None:
        net = self._loop.net
        way = self._chance.randrange(3)
        if way == 2:
            some, others = others, some
        net.cut(some, others, one_way=way != 0)
        self._later(lambda: net.heal(some, others))

    def _some_names(self) -> list[str]:
        names = [one.name for one in self._machines.values()]
        return self._chance.sample(names, self._chance.choice((1, 1, 2, 3)))

    def _cut_store(self) -> None:
        self._cut(self._some_names(), [cluster_store.NAME])

    def _cut_store_off(self) -> None:
        self._cut([one.name for one in self._machines.values()], [cluster_store.NAME])

    def _cut_clients(self) -> None:
        self._cut(self._some_names(), self.clients)

    def _cut_peers(self) -> None:
        some = self._some_names()
        self._cut(some, [one.name for one in self._machines.values() if one.name not in some])

    def _split(self) -> None:
        """Everybody is on one of two sides."""
        everybody = [cluster_store.NAME, *self.clients, *(one.name for one in self._machines.values())]
        side = [name for name in everybody if self._chance.random() < 0.4]
        self._cut(side, [name for name in everybody if name not in side])

    def _reset(self) -> None:
        """Connections break; whatever was under way may have arrived or not."""
        for name in self._some_names():
            self._store.reset(name)
            for client in self.clients:
                self._loop.net.reset(name, client)

    def _slow_net(self) -> None:
        self._loop.net.knobs = replace(self._net_knobs, latency_s_max=SLOW_NET_S)
        self._later(self._speed_up)

    def _speed_up(self) -> None:
        self._loop.net.knobs = self._net_knobs

    # -- machines

    def _jump(self) -> None:
        machine = self._chance.choice(list(self._machines.values()))
        machine.machine.clock.skew_ms = self._chance.choice(CLOCK_ERRORS_MS)

    def _slow_disk(self) -> None:
        machine = self._chance.choice(list(self._machines.values())).machine
        before = machine.workers.knobs
        machine.workers.knobs = SLOW_DISK

        def speed_up() -> None:
            machine.workers.knobs = before

        self._later(speed_up)

    def _fill_disk(self) -> None:
        disk = self._chance.choice(list(self._machines.values())).machine.disk
        disk.fill_after(self._chance.choice((0, 100, 2_000)))
        self._later(disk.enlarge)

    def _fail_sync(self) -> None:
        self._chance.choice(list(self._machines.values())).machine.disk.fail_sync_at(
            self._chance.randint(1, 12)
        )

    # -- the store

    def _expire(self) -> None:
        live = self._store.sessions()
        if live:
            self._store.expire(self._chance.choice(live))

    def _compact(self) -> None:
        self._store.compact()

    def _crash_store(self) -> None:
        self._store.crash(self._chance.choice(cluster_store.AWAY_S))
