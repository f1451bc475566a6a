"""The comparison of replicas: what a broker reads for others, and the rounds of the whole cluster."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from penstock.core.access import CLUSTER, Operation
from penstock.core.errors import BrokerError, ClusterForbidden, NotLeader, SingleBroker
from penstock.core.model import PartitionId
from penstock.core.session import Session
from penstock.node.broker import Broker
from penstock.node.waist.authorization import Authorization, require_peer

if TYPE_CHECKING:  # a single broker needs none of it
    from penstock.core.log.range_checksum import RangeChecksum
    from penstock.node.peers.scrub_calls import ScrubProgress
    from penstock.node.replicas.replication import Replication

OTHERS_MS_MAX = 3_000
"""How long the other brokers may take to answer."""


class BrokerScrub(NamedTuple):
    """What one broker has compared; None if it did not answer, with the reason."""

    broker_id: int
    progress: ScrubProgress | None
    error: BrokerError | None = None


class ScrubVerbs:
    """Compares replicas."""

    def __init__(self, broker: Broker, authorization: Authorization) -> None:
        self._broker = broker
        self._authorization = authorization

    # -- for other brokers

    async def checksum(
        self,
        session: Session,
        place: PartitionId,
        leader_epoch: int,
        start_offset: int,
        end_offset: int,
        expected: bytes | None,
    ) -> RangeChecksum:
        """The checksum of a range of the replica here. `expected`: the leader says that most replicas have this one; a
        replica that differs from it fails, and is copied again."""
        self._check_peer(session)
        from penstock.node.replicas.checksums import checksum_of
        from penstock.node.replicas.scrub import differing

        placed = self._broker.catalog.cluster.find_partition(place)
        partition = self._broker.find_held(place)
        if placed is None or partition is None or session.broker_id not in placed.replicas:
            raise NotLeader(
                f"{place}: this broker and broker {session.broker_id} do not share this partition"
            )
        partition.check_epoch(leader_epoch)
        if expected is not None and session.broker_id != placed.leader:
            raise ClusterForbidden(f"{partition}: only the leader knows what most replicas have")
        found = await checksum_of(self._broker.runtime, partition, start_offset, end_offset)
        if expected is not None and found.digest != expected:
            damage = differing(partition, start_offset, end_offset)
            partition.report_damage(damage)
            raise damage
        return found

    def scrub_here(self, session: Session, topic: str | None, *, is_started: bool) -> ScrubProgress:
        """What this broker has compared; with `is_started` it begins a round. For other brokers."""
        self._check_peer(session)
        return self._scrub(topic, is_started=is_started)

    def _check_peer(self, session: Session) -> None:
        self._authorization.authorize(session, Operation.CLUSTER_ACTION, CLUSTER)
        require_peer(session)

    def _scrub(self, topic: str | None, *, is_started: bool) -> ScrubProgress:
        scrub = self._replication.scrub
        if is_started:
            scrub.begin(topic)
        return scrub.progress()

    @property
    def _replication(self) -> Replication:
        if self._broker.replication is None:
            raise SingleBroker("this broker is alone: there is nothing to compare its records with")
        return self._broker.replication

    # -- for the whole cluster

    async def start(self, session: Session, topic: str | None) -> list[BrokerScrub]:
        """Begin a round on every broker: of all partitions that it leads, or of those of one topic."""
        self._authorization.authorize(session, Operation.ALTER, CLUSTER)
        if topic is not None:
            self._broker.catalog.topic(topic)
        return await self._ask_all(topic, is_started=True)

    async def progress(self, session: Session) -> list[BrokerScrub]:
        """What the brokers have compared since they were started."""
        self._authorization.authorize(session, Operation.DESCRIBE, CLUSTER)
        if self._broker.replication is None:
            return []
        return await self._ask_all(None, is_started=False)

    async def _ask_all(self, topic: str | None, *, is_started: bool) -> list[BrokerScrub]:
        own = BrokerScrub(self._broker.identity.node_id, self._scrub(topic, is_started=is_started))
        others = [
            one.broker_id
            for one in self._broker.catalog.cluster.brokers
            if one.broker_id != own.broker_id and not one.is_fenced
        ]
        asked = [self._ask(one, topic, is_started=is_started) for one in others]
        return sorted([own, *await asyncio.gather(*asked)], key=lambda one: one.broker_id)

    async def _ask(self, broker_id: int, topic: str | None, *, is_started: bool) -> BrokerScrub:
        from penstock.node.peers.scrub_calls import ask_scrub

        links = self._broker.links
        assert links is not None
        try:
            found = await ask_scrub(
                links, broker_id, is_started=is_started, topic=topic, timeout_ms=OTHERS_MS_MAX
            )
        except BrokerError as error:
            return BrokerScrub(broker_id, None, error)
        return BrokerScrub(broker_id, found)
