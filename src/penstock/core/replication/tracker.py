"""What the leader of a partition knows about the other replicas, in one leader epoch. Decides who is in sync.

A replica is in sync if it has fetched in this epoch, holds every committed record and everything before the start of
the epoch, and if the broker that fetched is the one that is registered now and not fenced or stopping.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from penstock.core.errors import NotLeader
from penstock.core.machines.cluster.partition_state import IsrChange, IsrMember
from penstock.core.machines.cluster.values import BrokerRegistration, PartitionReplicas


class FollowerFetch(NamedTuple):
    """The last fetch of a replica."""

    broker_epoch: int
    offset: int
    """Everything before it is as durable there as the topic requires."""
    start_offset: int
    """Where its log starts."""


class RegisteredBrokers(Protocol):
    """What the tracker has to know about brokers."""

    def find_broker(self, broker_id: int) -> BrokerRegistration | None: ...

    def can_lead(self, broker_id: int) -> bool: ...


class ReplicaTracker:
    """The other replicas of one partition. A new one is made for every state of the partition: what a replica fetched
    before it was removed and added again says nothing about what it has now."""

    def __init__(self, placed: PartitionReplicas, epoch_start: int) -> None:
        self.placed = placed
        self._epoch_start = epoch_start
        self._fetched: dict[int, FollowerFetch] = {}

    def note_fetch(self, broker_id: int, fetched: FollowerFetch) -> None:
        """A replica has everything before the offset that it asks for. Raises NotLeader if it is none."""
        if broker_id not in self.placed.replicas:
            raise NotLeader(
                f"{self.placed.place}: broker {broker_id} holds no replica as far as this leader knows; retry"
            )
        self._fetched[broker_id] = fetched

    def find(self, broker_id: int) -> FollowerFetch | None:
        return self._fetched.get(broker_id)

    def are_equal(self, start_offset: int, end_offset: int) -> bool:
        """Whether every replica that is being added has exactly the records from `start_offset` to `end_offset`."""
        added = [self._fetched.get(one) for one in self.placed.adding]
        return all(
            one is not None and (one.start_offset, one.offset) == (start_offset, end_offset) for one in added
        )

    def is_in_sync(self, broker_id: int, high_watermark: int, membership: RegisteredBrokers) -> bool:
        """Whether a replica may join the ISR."""
        fetched, registered = self._fetched.get(broker_id), membership.find_broker(broker_id)
        return (
            fetched is not None
            and registered is not None
            and membership.can_lead(broker_id)
            and registered.epoch == fetched.broker_epoch
            and fetched.offset >= max(high_watermark, self._epoch_start)
        )

    def expansion(
        self, leader_epoch: int, high_watermark: int, membership: RegisteredBrokers
    ) -> IsrChange | None:
        """The change that brings every added replica into the ISR; None while one of them is not in sync.

        `leader_epoch`: the broker epoch of the leader.
        """
        placed = self.placed
        if not placed.adding:
            return None
        members = [IsrMember(placed.leader, leader_epoch)]
        for broker_id in placed.replicas:
            fetched = self._fetched.get(broker_id)
            if broker_id == placed.leader or broker_id not in (*placed.isr, *placed.adding):
                continue
            if fetched is None or not self.is_in_sync(broker_id, high_watermark, membership):
                return None
            members.append(IsrMember(broker_id, fetched.broker_epoch))
        return IsrChange(placed.id, placed.leader_epoch, placed.partition_epoch, members)
