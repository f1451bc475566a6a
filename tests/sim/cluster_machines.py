"""Brokers of a simulated cluster as processes on machines: boot, crash, stop, pause, restart. Asserts nothing.

A broker starts and stops as `apps/serve` does it: recover, bind, join, serve; drain, flush, leave. A process that ends
by itself is started again after a while, as a supervisor would.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import Any

from in_process_client import KAFKA_ONLY
from penstock.apps.doorways import Doorways
from penstock.apps.ready import StartError
from penstock.core.errors import BrokerError
from penstock.core.model import Address
from penstock.node.broker import Broker, start_broker
from penstock.node.runtime.runtime import Runtime
from penstock.node.settings import Settings
from sim.cluster_store import Store
from sim.loop import SimLoop
from sim.machine import Machine
from sim.net import Farewell
from sim.workers import WorkerKnobs

PORT = 9092
RESTART_S = 1.0
"""How long a supervisor waits before it starts a process again."""
SETTINGS = Settings(
    port=PORT,
    **KAFKA_ONLY,
    segment_bytes=4_096,
    index_interval_bytes=500,
    retention_check_ms=7_000,
    compaction_check_ms=9_000,
    checkpoint_interval_ms=3_000,
    group_topic_partitions=2,
    group_initial_rebalance_ms=100,
    transaction_topic_partitions=2,
    auto_create_topics=False,
    drain_ms_max=500,
    default_replication_factor=1,
)


class State(Enum):
    """What a broker's process does."""

    DOWN = "down"
    STARTING = "starting"
    SERVING = "serving"
    STOPPING = "stopping"


class BrokerMachine:
    """One broker and the machine that it runs on."""

    def __init__(self, loop: SimLoop, store: Store, broker_id: int) -> None:
        self.broker_id = broker_id
        self.name = f"node-{broker_id}"
        self.machine = Machine(loop, self.name)
        self.machine.workers.knobs = WorkerKnobs(slow_chance=0.002)
        self.state = State.DOWN
        self.is_paused = False
        self.broker: Broker | None = None
        """The broker of the running process, from the moment that it has recovered."""
        self.lives = 0
        self.settings: dict[str, Any] = {}
        """What differs from SETTINGS here."""
        self.restart_s: Callable[[], float] = lambda: RESTART_S
        """How long the process stays away after its end."""
        self.finds_disks = True
        """Whether a lost disk is found again if the broker had the only complete replica of a partition."""
        self._misses_disk = False
        self._loop = loop
        self._store = store
        self._boots = 0
        """How often the operating system was started."""
        self._stop_wanted = asyncio.Event()

    # -- lives

    def start(self) -> None:
        """Start the process, unless it runs."""
        if self.state is not State.DOWN:
            return
        self.state, self.is_paused = State.STARTING, False
        self.lives += 1
        life = self.machine.boot(self._live)
        life.add_done_callback(partial(self._exited, self.lives), context=self._loop.net.context)

    async def _live(self, machine: Machine) -> None:
        boot_id = f"{self.name}-boot-{self._boots}"
        runtime = Runtime(machine.clock, machine.rng, machine.files, machine.workers, boot_id=boot_id)
        settings = replace(SETTINGS, host=self.name, node_id=self.broker_id, **self.settings)
        self._stop_wanted = asyncio.Event()
        try:
            broker = self.broker = await start_broker(
                settings, runtime, partial(self._store.open, runtime, self.broker_id)
            )
        except BrokerError as error:
            self._loop.note(f"cannot start {self.name}: {error}")
            return
        doors = Doorways(broker)
        try:
            await doors.open()
            await broker.join({"kafka": Address(self.name, PORT)})
            await doors.serve(Address(self.name, PORT))
            self.state = State.SERVING
            await self._stop_wanted.wait()
            self.state = State.STOPPING
            await broker.announce_stop()
            await doors.close()
        except (BrokerError, StartError) as error:
            self._loop.note(f"cannot join with {self.name}: {error}")
            self.state = State.STOPPING
            self._misses_disk = self.finds_disks and "new and empty" in str(error)
        finally:
            await broker.stop()

    def _exited(self, life: int, ended: asyncio.Task[None]) -> None:
        """The process has ended; by itself, unless a crash has already been dealt with."""
        if self.state is State.DOWN or life != self.lives:
            return
        ended.result()
        self._end(self.machine.kill, Farewell.EOF)
        if self._misses_disk:
            # The others have lost power or disks as well since then. What the message asks for is done.
            self._misses_disk = False
            self.machine.find_disk()

    # -- ends

    def stop(self) -> None:
        """SIGTERM: the process ends in order, and is started again."""
        if self.state is State.SERVING:
            self._stop_wanted.set()

    def kill(self, farewell: Farewell = Farewell.RESET) -> None:
        """kill -9."""
        self._end(self.machine.kill, farewell)

    def lose_power(self, farewell: Farewell = Farewell.SILENCE) -> None:
        self._end(self.machine.lose_power, farewell)
        self._boots += 1

    def lose_disk(self, farewell: Farewell = Farewell.SILENCE) -> None:
        self._end(self.machine.lose_disk, farewell)
        self._boots += 1

    def interrupt_at(self, operation: int, *, power: bool) -> None:
        """Die in the middle of the n-th disk operation from now on."""
        self.machine.disk.interrupt_at(operation, self.lose_power if power else self.kill)

    def _end(self, end: Callable[[Farewell], None], farewell: Farewell) -> None:
        self.state, self.broker, self.is_paused = State.DOWN, None, False
        end(farewell)
        self._loop.call_later(self.restart_s(), self.start, context=self._loop.net.context)

    def pause(self) -> None:
        """SIGSTOP: the process stands still; its machine acknowledges what arrives."""
        if self.state is not State.DOWN and not self.is_paused:
            self.is_paused = True
            self._loop.pause(self.name)

    def resume(self) -> None:
        """SIGCONT, unless the process has died meanwhile."""
        if self.is_paused:
            self.is_paused = False
            self._loop.resume(self.name)
