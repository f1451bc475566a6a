"""The controller: the broker that holds the controller session fences brokers whose sessions have ended, empties those
that are drained, and gives new ones their share.

It has no state of its own. Every broker runs this and stands by; two controllers at once are harmless, because each
decision is appended at the index of the state that it was made on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from penstock.core.errors import BrokerError
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Event
from penstock.core.machines.cluster.brokers import decide_fence
from penstock.core.machines.cluster.events import ClusterEvent
from penstock.core.machines.cluster.reassignment import (
    decide_moves,
    decide_shared,
    in_changes,
    propose_upkeep,
)
from penstock.core.machines.cluster.state import ClusterState
from penstock.core.machines.cluster.values import NO_LEADER, BrokerRegistration, PartitionReplicas
from penstock.node.cluster.catalog_host import CatalogHost
from penstock.node.cluster.metadata_log import (
    CONTROLLER_SESSION,
    SESSION_TTL_S,
    BrokerSession,
    Conflict,
    LiveSession,
    MetadataLog,
)
from penstock.node.runtime.tasks import Tasks

logger = logging.getLogger("penstock.controller")

RETRY_S = 1.0
"""Delay after a failed call to the metadata log."""
UNSEEN_S_MAX = SESSION_TTL_S
"""A registration may name a session that the controller has not seen yet. After this time it counts as ended."""


class Controller:
    """Watches sessions, and acts while this broker holds the controller session."""

    def __init__(self, log: MetadataLog, host: CatalogHost, catalog: Catalog, broker_id: int) -> None:
        self._log = log
        self._host = host
        self._catalog = catalog
        self._broker_id = broker_id
        self._live: dict[str, LiveSession] = {}
        self._last_number = 0
        """The highest session number seen."""
        self._last_epoch = 0
        """The highest number of a controller session seen."""
        self._unseen_since: dict[int, tuple[int, float]] = {}
        """Brokers whose session is newer than every session seen: its number, and since when."""
        self._session: BrokerSession | None = None
        self.changes = 0
        """How often another controller was seen to take over."""
        self._wake = asyncio.Event()
        self._tasks = Tasks()
        self._loop = asyncio.get_running_loop()

    @property
    def holder_id(self) -> int:
        """The broker that is the controller; -1 if there is none."""
        holder = self._live.get(CONTROLLER_SESSION)
        return NO_LEADER if holder is None else holder.holder

    @property
    def epoch(self) -> int:
        """Increases with every new controller."""
        holder = self._live.get(CONTROLLER_SESSION)
        return 0 if holder is None else holder.number

    @property
    def live_brokers(self) -> int:
        """The number of brokers with a live session."""
        return sum(1 for name in self._live if name != CONTROLLER_SESSION)

    def has_session(self, broker: BrokerRegistration) -> bool:
        """Whether the session under which a broker registered is alive, as far as this broker has heard."""
        return any(one.number == broker.session for one in self._live.values())

    def start(self) -> None:
        self._tasks.spawn(self._watch())
        self._tasks.spawn(self._act_forever())

    async def stop(self) -> None:
        await self._tasks.stop()
        if self._session is not None:
            self._session.end()

    def wake(self) -> None:
        """Brokers have registered or changed: look at them again."""
        self._wake.set()

    def partition_changed(self, placed: PartitionReplicas) -> None:
        """A partition that has arrived on a broker that is drained meanwhile has to move on."""
        if not placed.is_moving and any(one.is_draining for one in self._catalog.cluster.brokers):
            self._wake.set()

    # -- sessions

    async def _watch(self) -> None:
        while True:
            try:
                async for live in self._log.follow_sessions():
                    earlier_epoch = self._last_epoch
                    self._live = {one.name: one for one in live}
                    self._last_epoch = max(earlier_epoch, self.epoch)
                    if 0 < earlier_epoch < self._last_epoch:
                        self.changes += 1
                    self._last_number = max([self._last_number, *(one.number for one in live)])
                    self._wake.set()
            except BrokerError as error:
                logger.warning("cannot watch the sessions of brokers; retrying: %s", error)
            await asyncio.sleep(RETRY_S)

    async def _act_forever(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                if await self._holds_session():
                    await self._fence_ended()
                    await self._start_moves()
            except BrokerError as error:
                logger.warning("the controller cannot act; retrying: %s", error)
                self._wake_later(RETRY_S)

    async def _holds_session(self) -> bool:
        if self._session is not None and self._session.is_alive:
            return True
        if CONTROLLER_SESSION in self._live:
            return False
        opened = await self._log.session(CONTROLLER_SESSION, self._broker_id)
        if isinstance(opened, Conflict):
            return False
        self._session = opened
        logger.info("this broker is the controller now", extra={"controller_epoch": opened.live.number})
        return True

    # -- fencing

    async def _fence_ended(self) -> None:
        for broker in self._catalog.cluster.brokers:
            if not broker.is_fenced and self._has_ended(broker):
                logger.warning(
                    "the session of broker %d has ended: fencing it",
                    broker.broker_id,
                    extra={"broker": broker.broker_id, "broker_epoch": broker.epoch},
                )
                await self._fence(broker)

    def _has_ended(self, broker: BrokerRegistration) -> bool:
        if self.has_session(broker):
            self._unseen_since.pop(broker.broker_id, None)
            return False
        if broker.session <= self._last_number:
            return True
        # The registration arrived before the news of its session. If the news never comes, the session was so short
        # that this controller has missed it.
        number, since_s = self._unseen_since.get(broker.broker_id, (-1, 0.0))
        if number != broker.session:
            since_s = self._loop.time()
            self._unseen_since[broker.broker_id] = broker.session, since_s
        left_s = since_s + UNSEEN_S_MAX - self._loop.time()
        if left_s > 0:
            self._wake_later(left_s)
        return left_s <= 0

    async def _fence(self, broker: BrokerRegistration) -> None:
        def decide(catalog: Catalog) -> list[Event]:
            found = catalog.cluster.find_broker(broker.broker_id)
            if found is None or (found.epoch, found.session) != (broker.epoch, broker.session):
                return []  # it was removed, registered again or told of a new session meanwhile
            return [*decide_fence(catalog.cluster, broker.broker_id, broker.epoch)]

        await self._host.change(decide)

    # -- moves

    async def _start_moves(self) -> None:
        """The state says what is left to do, so a controller that takes over goes on where the last one ended."""
        while (plan := propose_upkeep(self._catalog.cluster)) is not None:
            started = 0
            for moves in in_changes(plan.moves):
                started += await self._change(partial(decide_moves, moves=moves))
            if started:
                logger.info(
                    "started to move %d partitions %s broker %d, which %s",
                    *(started, "to" if plan.is_share else "from", plan.broker_id),
                    "has joined" if plan.is_share else "is drained",
                )
            if plan.is_share:
                started += await self._change(partial(decide_shared, broker_id=plan.broker_id))
            if not started:
                return

    async def _change(self, decide: Callable[[ClusterState], list[ClusterEvent]]) -> int:
        """Change the cluster; returns the number of events, of the decision that took effect."""
        decided: list[Event] = []

        def decide_again(catalog: Catalog) -> list[Event]:
            decided[:] = decide(catalog.cluster)
            return decided

        await self._host.change(decide_again)
        return len(decided)

    def _wake_later(self, delay_s: float) -> None:
        self._loop.call_later(delay_s, self._wake.set)
