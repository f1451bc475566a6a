"""The controller: the broker that holds the controller session fences brokers whose sessions have ended, empties those
that are drained, gives new ones their share, raises the replicas of internal topics, and gives leadership back to
preferred replicas.

It has no state of its own. Every broker runs this and stands by; two controllers at once are harmless, because each
decision is appended at the index of the state that it was made on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from penstock.core.errors import BrokerError
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Event
from penstock.core.machines.catalog.internal_topics import decide_raise_internal
from penstock.core.machines.cluster.assignment import shares_rack
from penstock.core.machines.cluster.brokers import decide_fence
from penstock.core.machines.cluster.events import ClusterEvent
from penstock.core.machines.cluster.partition_state import decide_preferred, preferred_elections
from penstock.core.machines.cluster.reassignment import (
    decide_moves,
    decide_shared,
    in_changes,
    propose_upkeep,
)
from penstock.core.machines.cluster.state import ClusterState
from penstock.core.machines.cluster.values import NO_LEADER, BrokerRegistration, PartitionReplicas
from penstock.node.cluster.catalog_host import CatalogHost
from penstock.node.cluster.cluster_settings import ClusterSettings
from penstock.node.cluster.elections import Elections
from penstock.node.cluster.metadata_log import (
    CONTROLLER_SESSION,
    SESSION_TTL_S,
    BrokerSession,
    Conflict,
    LiveSession,
    MetadataLog,
)
from penstock.node.cluster.peer_probes import PeerProbes
from penstock.node.runtime.tasks import Tasks

logger = logging.getLogger("penstock.controller")

RETRY_S = 1.0
"""Delay after a failed call to the metadata log."""
UNSEEN_S_MAX = SESSION_TTL_S
"""A registration may name a session that the controller has not seen yet. After this time it counts as ended."""
LEAVING_S = 1.0
"""Clients that ask for leaders are told of a fenced broker for so long. librdkafka drops a broker that is missing from
an answer together with the new leaders in it, if it led partitions, and needs a second to find them again. Not longer:
it would go on trying to connect to the dead one, with growing pauses, and find it late once it is back."""
PREFERRED_S = 2.0
"""Delay between the moment in which a preferred replica is in sync and its election, so that one election serves all
partitions of a broker that catch up together; also between two elections of many."""
RECENT_S = 10.0
"""A broker that has returned gets leaders only if nobody else can lead for so long. Clients that failed to connect to
it while it was away wait before they try again, librdkafka up to this time, and their records would wait as well."""
PREFERRED_MAX = 100
"""Partitions whose leaders change at a time: their clients look up the new leaders at the same moment."""


class Controller:
    """Watches sessions, and acts while this broker holds the controller session."""

    def __init__(
        self,
        log: MetadataLog,
        host: CatalogHost,
        catalog: Catalog,
        broker_id: int,
        settings: ClusterSettings,
    ) -> None:
        self._log = log
        self._settings = settings
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
        self._preferred_in_sync = asyncio.Event()
        """A preferred replica is in sync and does not lead."""
        self._fenced_s: dict[int, float] = {}
        """When each broker that is fenced was fenced, as far as this broker has seen it."""
        self._returned_s: dict[int, float] = {}
        """When each broker was seen to return, in this order."""
        self._has_warned_of_racks = False
        self._tasks = Tasks()
        self._loop = asyncio.get_running_loop()
        self.probes = PeerProbes(log, catalog, broker_id, lambda: self._live.values())
        self.elections = Elections(catalog, broker_id)

    @property
    def holder_id(self) -> int:
        """The broker that is the controller; -1 if there is none. One that is fenced is not: it is gone, and its
        session is about to end."""
        holder = self._live.get(CONTROLLER_SESSION)
        if holder is None:
            return NO_LEADER
        broker = self._catalog.cluster.find_broker(holder.holder)
        return NO_LEADER if broker is not None and broker.is_fenced else holder.holder

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
        self.elections.start()
        self.probes.start()
        self._tasks.spawn(self._watch())
        self._tasks.spawn(self._act_forever())
        if self._settings.leader_rebalance:
            self._tasks.spawn(self._elect_preferred_forever())

    async def stop(self) -> None:
        await self.probes.stop()
        await self._tasks.stop()
        if self._session is not None:
            self._session.end()

    def wake(self) -> None:
        """Brokers have registered or changed: look at them again."""
        self._wake.set()

    def follow_registration(self, broker: BrokerRegistration) -> None:
        """A broker has registered or changed."""
        self.probes.follow_registration(broker)
        if broker.is_fenced:
            self._fenced_s.setdefault(broker.broker_id, self._loop.time())
            self._returned_s.pop(broker.broker_id, None)
        elif self._fenced_s.pop(broker.broker_id, None) is not None:
            self._returned_s[broker.broker_id] = self._loop.time()
        self._wake.set()

    def recent_brokers(self) -> list[int]:
        """The brokers that have returned lately, in this order."""
        since_s = self._loop.time() - RECENT_S
        return [broker_id for broker_id, at_s in self._returned_s.items() if at_s > since_s]

    def is_leaving(self, broker: BrokerRegistration) -> bool:
        """Whether a broker was fenced so recently that clients which look for new leaders should still know it."""
        fenced_s = self._fenced_s.get(broker.broker_id)
        return fenced_s is not None and self._loop.time() - fenced_s < LEAVING_S

    def follow_partition(self, placed: PartitionReplicas) -> None:
        """A partition was placed or changed."""
        self.elections.follow(placed)
        if placed.leader not in (NO_LEADER, placed.replicas[0]) and placed.replicas[0] in placed.isr:
            self._preferred_in_sync.set()
        if not placed.is_moving and (self._is_internal(placed) or self._is_draining):
            # An internal topic may get its next replicas, and who has arrived on a drained broker has to move on.
            self._wake.set()
        if placed.partition_epoch == 0 and self.is_acting and not self._has_warned_of_racks:
            self._warn_of_racks(placed)

    def _is_internal(self, placed: PartitionReplicas) -> bool:
        topic = self._catalog.find_by_id(placed.topic_id)
        return topic is not None and topic.internal

    @property
    def _is_draining(self) -> bool:
        return any(one.is_draining for one in self._catalog.cluster.brokers)

    def _warn_of_racks(self, placed: PartitionReplicas) -> None:
        """Once, not for every topic: it is a property of the cluster."""
        if shares_rack(self._catalog.cluster, placed.replicas):
            self._has_warned_of_racks = True
            logger.warning(
                "partitions have several replicas on one machine: these protect from the end of a process, not from"
                " the loss of the machine or its disk. Run brokers on more machines (or set their racks)",
                extra={"replicas": list(placed.replicas)},
            )

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
                    await self._raise_internal_topics()
                    await self._start_moves()
            except BrokerError as error:
                logger.warning("the controller cannot act; retrying: %s", error)
                self._wake_later(RETRY_S)

    @property
    def is_acting(self) -> bool:
        """Whether this broker holds the controller session."""
        return self._session is not None and self._session.is_alive

    async def _holds_session(self) -> bool:
        if self.is_acting:
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
            return [*decide_fence(catalog.cluster, broker.broker_id, broker.epoch, self.recent_brokers())]

        await self._host.change(decide)

    # -- leaders

    async def _elect_preferred_forever(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._settings.leader_check_s):
                    await self._preferred_in_sync.wait()
                    await asyncio.sleep(PREFERRED_S)
            except TimeoutError:
                pass
            self._preferred_in_sync.clear()
            try:
                if self.is_acting:
                    await self._elect_preferred()
                    if any(preferred_elections(self._catalog.cluster)):
                        self._preferred_in_sync.set()  # some have returned too lately
            except BrokerError as error:
                logger.warning("cannot elect preferred leaders; the next check retries: %s", error)

    async def _elect_preferred(self) -> None:
        count = PREFERRED_MAX
        while count == PREFERRED_MAX:
            count = await self._change_cluster(
                partial(decide_preferred, count_max=PREFERRED_MAX, recent=self.recent_brokers())
            )
            if count:
                logger.info("gave the leadership of %d partitions back to their preferred replicas", count)
                await asyncio.sleep(PREFERRED_S)

    # -- moves

    async def _raise_internal_topics(self) -> None:
        factor = self._settings.default_replication_factor
        while count := await self._change(partial(decide_raise_internal, configured=factor)):
            logger.info("internal topics get more replicas: %d partitions and topics changed", count)

    async def _start_moves(self) -> None:
        """The state says what is left to do, so a controller that takes over goes on where the last one ended."""
        while (plan := propose_upkeep(self._catalog.cluster)) is not None:
            started = 0
            for moves in in_changes(plan.moves):
                started += await self._change_cluster(partial(decide_moves, moves=moves))
            if started:
                logger.info(
                    "started to move %d partitions %s broker %d, which %s",
                    *(started, "to" if plan.is_share else "from", plan.broker_id),
                    "has joined" if plan.is_share else "is drained",
                )
            if plan.is_share:
                started += await self._change_cluster(partial(decide_shared, broker_id=plan.broker_id))
            if not started:
                return

    async def _change_cluster(self, decide: Callable[[ClusterState], list[ClusterEvent]]) -> int:
        return await self._change(lambda catalog: decide(catalog.cluster))

    async def _change(self, decide: Callable[[Catalog], Sequence[Event]]) -> int:
        """Change the catalog; returns the number of events, of the decision that took effect."""
        decided: list[Event] = []

        def decide_again(catalog: Catalog) -> list[Event]:
            decided[:] = decide(catalog)
            return decided

        await self._host.change(decide_again)
        return len(decided)

    def _wake_later(self, delay_s: float) -> None:
        self._loop.call_later(delay_s, self._wake.set)
