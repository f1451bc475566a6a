"""One broker's place in its cluster: session, registration, unfencing, controlled shutdown.

    OUTSIDE ── session, register ──▶ FENCED ── unfence ──▶ ACTIVE
                                        ▲                    │ fenced by others
                                        └────────────────────┘
Metadata says who leads what, and epochs in it keep two brokers from leading one partition. The session gives liveness
only: a broker that loses it serves on, because the store may be unreachable for all brokers, and asks for a new one.
What it leads is taken from it by events, once it hears of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from penstock.core.errors import BrokerError, DuplicateBroker, TornSegment
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Event
from penstock.core.machines.cluster.brokers import (
    RegistrationRequest,
    decide_fence,
    decide_link_key,
    decide_stop,
    decide_unfence,
)
from penstock.core.machines.cluster.partition_state import decide_replica_failed
from penstock.core.machines.cluster.values import NO_BROKER_EPOCH, BrokerRegistration, PartitionReplicas
from penstock.core.model import Address, PartitionId
from penstock.node.cluster.catalog_host import CatalogHost
from penstock.node.cluster.metadata_log import (
    SESSION_TTL_S,
    BrokerSession,
    Conflict,
    MetadataLog,
    broker_session_name,
)
from penstock.node.runtime.tasks import Tasks

logger = logging.getLogger("penstock.cluster")

RETRY_S_MIN, RETRY_S_MAX = 0.1, 2.0
"""Delays between attempts to join again."""
SESSION_WAIT_S_MAX = 2.5 * SESSION_TTL_S
"""How long a starting broker waits for the session of its predecessor to expire."""
HAND_OVER_S = 0.3
"""How long a broker that stops goes on to answer after others took over: clients hear of the new leaders from it, and
connect to them. librdkafka forgets all brokers, and records wait for two seconds, if its only connection is lost."""
LEAVE_S_MAX = 5.0
"""How long a stopping broker waits for the metadata log. The controller fences it later in any case."""


PARTITIONS_SHOWN = 10
"""Partitions that an error names."""


def _partition_name(catalog: Catalog, partition: PartitionReplicas) -> str:
    return f"{catalog.topic_by_id(partition.topic_id).name}-{partition.partition}"


class MemberProfile:
    """What a broker says about itself when it registers."""

    has_directory = True
    """Whether its data directory existed before this start, or may be empty: the storage is memory."""

    def __init__(
        self,
        cluster_id: str,
        broker_id: int,
        incarnation_id: str,
        rack: str,
        link_key: bytes,
        *,
        takes_share: bool = False,
    ) -> None:
        self.takes_share = takes_share
        self.link_key = link_key
        """The key that it proposes if the cluster has none."""
        self.cluster_id = cluster_id
        self.broker_id = broker_id
        self.incarnation_id = incarnation_id
        self.rack = rack
        self.listeners: Mapping[str, Address] = {}
        self.previous_epoch = NO_BROKER_EPOCH
        """The broker epoch of the last run, if no record of that run can be missing."""
        self.flushed_epoch = NO_BROKER_EPOCH
        """The same, if no record of that run can be missing that was flushed to disk."""
        self.attempts: Sequence[str] = ()
        """The incarnations since that run that may have registered, but have not been active."""
        self.previous_session = 0
        """The number of the session of the last run in the same data directory."""
        self.leader_epoch = 0
        """The highest leader epoch in its logs."""


class ClusterMembership:
    """The membership of this broker. `set_active` tells whether it takes part; `save` stores broker epoch and session
    number before they are used."""

    def __init__(
        self,
        log: MetadataLog,
        host: CatalogHost,
        catalog: Catalog,
        profile: MemberProfile,
        set_active: Callable[[bool], None],
        save: Callable[[int, int], None],
    ) -> None:
        self._log = log
        self._host = host
        self._catalog = catalog
        self._profile = profile
        self._set_active = set_active
        self._save = save
        self._session: BrokerSession | None = None
        self._is_active = False
        self._fenced = asyncio.Event()
        self._broken = asyncio.Event()
        """Set if nothing keeps this broker in the cluster any more."""
        self._tasks = Tasks()
        self.failed_replicas: Callable[[], Sequence[PartitionId]] = lambda: ()
        """The replicas of this broker that have failed: others must not count on them."""
        self.recent_brokers: Callable[[], Sequence[int]] = lambda: ()
        """The brokers that have returned lately."""
        self.epoch = NO_BROKER_EPOCH
        """The broker epoch of this registration."""

    @property
    def is_active(self) -> bool:
        """Whether this broker takes part: it has joined and is not fenced."""
        return self._is_active and not self._catalog.cluster.is_fenced(self._profile.broker_id)

    @property
    def inactive_reason(self) -> str:
        """Why this broker does not take part, as a sentence; empty if it does."""
        if not self._is_active:
            return "this broker has not joined its cluster"
        if self._catalog.cluster.is_fenced(self._profile.broker_id):
            return "this broker is fenced: the others count it as failed until it has joined again"
        return ""

    @property
    def has_session(self) -> bool:
        """Whether the store knows that this broker is alive. Without a session it will be fenced."""
        return self._session is not None and self._session.is_alive

    @property
    def _is_well(self) -> bool:
        return self.has_session and self.is_active

    # -- join

    async def join(self, listeners: Mapping[str, Address]) -> None:
        """Register under these addresses; returns once this broker is active. Raises if it is not accepted."""
        self._profile.listeners = dict(listeners)
        self._session = await self._open_session()
        try:
            await self._enter(self._session)
        except BrokerError:
            self._session.end()
            raise
        self._tasks.spawn(self._stay(), lambda bug: self._broken.set())

    async def _open_session(self) -> BrokerSession:
        """Waits for the session of a predecessor that died. Raises DuplicateBroker if it stays alive."""
        broker_id = self._profile.broker_id
        name = broker_session_name(broker_id)
        opened = await self._log.session(name, broker_id)
        if isinstance(opened, Conflict):
            logger.info("waiting for the session of an earlier process of broker %d to end", broker_id)
            try:
                async with asyncio.timeout(SESSION_WAIT_S_MAX):
                    async for live in self._log.follow_sessions():
                        held = next((one for one in live if one.name == name), None)
                        if held is None:
                            opened = await self._log.session(name, broker_id)
                            if not isinstance(opened, Conflict):
                                break
                        elif held.number == self._profile.previous_session:
                            # Its holder had locked the directory that this process has locked now: it is dead.
                            await self._log.end_session(held)
            except TimeoutError:
                pass
        if isinstance(opened, Conflict):
            raise DuplicateBroker(
                f"another process is running as broker {broker_id} of this cluster: give each broker its own node id"
                " (--node-id), or stop the other process"
            )
        return opened

    async def _enter(self, session: BrokerSession) -> None:
        """Register under this session and be unfenced. May be repeated."""
        await self._host.change(lambda catalog: self._register(catalog, session.live.number))
        self.epoch = self._own(self._catalog).epoch
        self._save(self.epoch, session.live.number)
        await self._host.change(self._unfence)
        if not self._is_active:
            self._is_active = True
            self._set_active(True)

    def _register(self, catalog: Catalog, session_number: int) -> Sequence[Event]:
        """An earlier registration that nobody has fenced yet is fenced here: this process holds the session."""
        profile, draft = self._profile, catalog.draft()
        events: list[Event] = []
        present = catalog.cluster.find_broker(profile.broker_id)
        if present is not None and present.incarnation_id != profile.incarnation_id:
            if not profile.has_directory:
                self._check_empty(catalog)
            events += decide_fence(catalog.cluster, profile.broker_id, present.epoch)
            for event in events:
                draft.apply(event)
        request = RegistrationRequest(
            profile.cluster_id,
            profile.broker_id,
            profile.incarnation_id,
            profile.listeners,
            profile.rack,
            session_number,
            profile.previous_epoch,
            profile.flushed_epoch,
            profile.takes_share,
            profile.attempts,
        )
        events += decide_link_key(catalog.cluster, profile.link_key)
        return [*events, *draft.decide_register_broker(request, leader_epoch=profile.leader_epoch)]

    def _unfence(self, catalog: Catalog) -> Sequence[Event]:
        """Replicas that failed to open leave ISR and ELR together with it: none of them is elected."""
        broker_id, failed = self._profile.broker_id, self.failed_replicas()
        events, draft = list[Event](), catalog.draft() if failed else catalog
        for place in failed:
            placed = draft.cluster.find_partition(place)
            if placed is not None:
                left = decide_replica_failed(draft.cluster, broker_id, self.epoch, place, placed.leader_epoch)
                for event in left:
                    draft.apply(event)
                events += left
        return [*events, *decide_unfence(draft.cluster, broker_id, self.epoch)]

    def _check_empty(self, catalog: Catalog) -> None:
        """A new directory may take the place of one whose records other brokers have: this broker copies them. In the
        place of the only complete replica it would lead as an empty log."""
        broker_id = self._profile.broker_id
        lost = [one for one in catalog.cluster.held_by(broker_id) if not set(one.isr + one.elr) - {broker_id}]
        if lost:
            names = [_partition_name(catalog, one) for one in lost[:PARTITIONS_SHOWN]]
            more = f" and {len(lost) - len(names)} more" if len(lost) > len(names) else ""
            raise TornSegment(
                f"the data directory of broker {broker_id} is new and empty, but no other broker has all records of"
                f" {', '.join(names)}{more}: start it with the directory that it had. If that is lost, so are those"
                " records; --node-id with an unused number starts a new broker instead"
            )
        logger.warning(
            "the data directory of this broker is new and empty: it copies its partitions from the other brokers"
        )

    def _own(self, catalog: Catalog) -> BrokerRegistration:
        return catalog.cluster.broker(self._profile.broker_id)

    # -- stay

    def follow_registration(self, broker: BrokerRegistration) -> None:
        """A registration was applied to the catalog."""
        if broker.broker_id == self._profile.broker_id and broker.is_fenced:
            self._fenced.set()

    async def _stay(self) -> None:
        """Open a new session when the present one has ended, and ask to be unfenced if others have fenced this
        broker."""
        while True:
            assert self._session is not None
            await _first(self._session.ended(), self._fenced.wait())
            # What is true is in the catalog. A fence that is undone by the time it is looked at leaves nothing to do.
            self._fenced.clear()
            if not self._is_well:
                await self._join_again()

    async def _join_again(self) -> None:
        if self.has_session:
            logger.warning("this broker was fenced although its session is alive; it asks to be unfenced")
        else:
            logger.warning(
                "the session of this broker has ended: others will fence it if it cannot open a new one soon"
            )
        pause_s = RETRY_S_MIN
        while not self._is_well:
            try:
                if self._session is None or not self._session.is_alive:
                    self._session = await self._open_session()
                await self._enter(self._session)
            except BrokerError as error:
                logger.warning("cannot join the cluster again; retrying in %.1f s: %s", pause_s, error)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, RETRY_S_MAX)
        logger.info("this broker has joined the cluster again", extra={"broker_epoch": self.epoch})

    async def lost(self) -> None:
        """Returns once this broker cannot follow the metadata of its cluster any more, or cannot stay in it because of
        a defect: what it knows of leaders and replicas is outdated from then on, so its process has to end."""
        await _first(self._host.failed.wait(), self._broken.wait())

    # -- leave

    async def begin_leaving(self) -> None:
        """Controlled shutdown: other replicas take over what they can while this broker still serves the rest. If they
        took over something, clients have some time to hear of it."""
        await self._tasks.stop()
        led = self._led_count
        await self._attempt(
            lambda catalog: decide_stop(
                catalog.cluster, self._profile.broker_id, self.epoch, self.recent_brokers()
            ),
            "announce its shutdown",
        )
        if self._led_count < led:
            await asyncio.sleep(HAND_OVER_S)

    @property
    def _led_count(self) -> int:
        """Partitions that this broker leads."""
        broker_id = self._profile.broker_id
        return sum(one.leader == broker_id for one in self._catalog.cluster.held_by(broker_id))

    async def leave(self) -> None:
        """Everything is flushed and closed: fence this broker and end its session."""
        self._is_active = False
        self._set_active(False)
        await self._attempt(
            lambda catalog: decide_fence(catalog.cluster, self._profile.broker_id, self.epoch),
            "leave the cluster",
        )
        if self._session is not None:
            self._session.end()

    async def _attempt(self, decide: Callable[[Catalog], Sequence[Event]], what: str) -> None:
        if self.epoch == NO_BROKER_EPOCH:
            return
        try:
            async with asyncio.timeout(LEAVE_S_MAX):
                await self._host.change(decide)
        except (BrokerError, TimeoutError) as error:
            logger.warning(
                "this broker could not %s, the controller will notice its end: %s",
                what,
                error or "no answer from the metadata log",
            )


async def _first(*waits: Coroutine[Any, Any, object]) -> None:
    """Wait until one of them returns; the others are cancelled."""
    tasks = [asyncio.ensure_future(one) for one in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
