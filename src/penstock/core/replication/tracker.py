"""What the leader of a partition knows about the other replicas, in one leader epoch: who is in sync, and what is
committed. Proposes changes of the ISR; the metadata log decides about them.

A record is committed once it is flushed on every member of the *maximal ISR*: the ISR of the metadata and that of a
proposal whose outcome is unknown, because either may be the one that elects the next leader. Nothing is committed while
the ISR is below its minimum.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from penstock.core.errors import NotLeader
from penstock.core.machines.cluster.partition_state import IsrChange, IsrMember
from penstock.core.machines.cluster.values import BrokerRegistration, PartitionReplicas

NEAR_S_MAX = 1.0
"""A replica outside of the ISR that keeps up with the log and has fetched this recently holds back what is committed:
under load it would otherwise never have everything that is."""
NOTHING = -1
"""An offset before every record."""


class FollowerFetch(NamedTuple):
    """The last fetch of a replica."""

    broker_epoch: int
    offset: int
    """Everything before it is as durable there as the topic requires."""
    start_offset: int
    """Where its log starts."""


class FollowerProgress(NamedTuple):
    """How far a replica is, and since when."""

    fetch: FollowerFetch
    fetched_s: float
    end_offset: int
    """Where the leader's log ended when it fetched."""
    caught_up_s: float
    """The last time at which it had everything that the leader had."""


class RegisteredBrokers(Protocol):
    """What the tracker has to know about brokers."""

    def find_broker(self, broker_id: int) -> BrokerRegistration | None: ...

    def can_lead(self, broker_id: int) -> bool: ...


class ReplicaTracker:
    """The other replicas of one partition in one leader epoch. A replica that is removed or has failed starts a new
    epoch, so what it fetched before does not count."""

    def __init__(
        self,
        placed: PartitionReplicas,
        epoch_start: int,
        brokers: RegisteredBrokers,
        now_s: float,
        proposed: IsrChange | None = None,
    ) -> None:
        self._epoch_start = epoch_start
        self._brokers = brokers
        self._since_s = now_s
        self._followers: dict[int, FollowerProgress] = {}
        self.placed = placed
        self.proposed = proposed
        """A proposal whose outcome is unknown."""
        self._maximal: tuple[int, ...] = ()
        self._others: tuple[int, ...] = ()
        """The replicas outside of the maximal ISR that may hold back what is committed."""
        self.adopt(placed)

    # -- what is known

    def adopt(self, placed: PartitionReplicas) -> None:
        """The partition has changed, in the same leader epoch. A proposal that was based on an earlier state has either
        led to this one or is refused."""
        self.placed = placed
        if self.proposed is not None and self.proposed.partition_epoch < placed.partition_epoch:
            self.proposed = None
        self._arrange()

    def propose(self, change: IsrChange | None) -> None:
        """The outcome of this change is unknown from now on; None: it is known."""
        self.proposed = change
        self._arrange()

    def _arrange(self) -> None:
        placed = self.placed
        members = {
            *placed.isr,
            *(() if self.proposed is None else [one.broker_id for one in self.proposed.isr]),
        }
        members.discard(placed.leader)
        self._maximal = tuple(sorted(members))
        # Those that are added by a move of the leader join together, while it accepts no records.
        excluded = placed.adding if placed.leader in placed.removing else ()
        self._others = tuple(
            one for one in placed.replicas if one not in members and one not in (placed.leader, *excluded)
        )

    def note_fetch(self, broker_id: int, fetch: FollowerFetch, end_offset: int, now_s: float) -> None:
        """A replica has everything before the offset that it asks for. Raises NotLeader if it is none."""
        if broker_id not in self.placed.replicas:
            raise NotLeader(
                f"{self.placed.place}: broker {broker_id} holds no replica as far as this leader knows; retry"
            )
        known = self._followers.get(broker_id)
        caught_up_s = self._since_s if known is None else known.caught_up_s
        if fetch.offset >= end_offset:
            caught_up_s = now_s
        elif known is not None and fetch.offset >= known.end_offset:
            caught_up_s = known.fetched_s
        self._followers[broker_id] = FollowerProgress(fetch, now_s, end_offset, caught_up_s)

    def find(self, broker_id: int) -> FollowerFetch | None:
        """The last fetch of a replica in this leader epoch."""
        known = self._followers.get(broker_id)
        return None if known is None else known.fetch

    def caught_up_s(self, broker_id: int, end_offset: int, now_s: float) -> float:
        """The last time at which a replica had everything up to the end of the leader's log. One that has not fetched
        in this epoch counts from its start."""
        known = self._followers.get(broker_id)
        if known is None:
            return self._since_s
        return now_s if known.fetch.offset >= end_offset else known.caught_up_s

    def followers(self) -> Iterator[tuple[int, FollowerProgress | None]]:
        """Every other replica, with its progress if it has fetched in this leader epoch."""
        return ((one, self._followers.get(one)) for one in self.placed.replicas if one != self.placed.leader)

    @property
    def isr_size(self) -> int:
        """In-sync replicas as `min.insync.replicas` counts them."""
        placed = self.placed
        return sum(one not in placed.adding for one in placed.isr)

    @property
    def replica_count(self) -> int:
        """All replicas, counted likewise: a minimum above it means all of them."""
        return len(self.placed.replicas) - len(self.placed.adding)

    def start_offset(self, own_offset: int) -> int:
        """Every in-sync replica has deleted the records before this offset, and the leader those before
        `own_offset`. NOTHING until all of them have fetched in this epoch."""
        offset = own_offset
        for one in self.placed.isr:
            if one != self.placed.leader:
                fetch = self.find(one)
                offset = min(offset, NOTHING if fetch is None else fetch.start_offset)
        return offset

    # -- what is committed

    def committable(self, flushed_offset: int, isr_size_min: int, now_s: float) -> int:
        """Everything before this offset is committed, if it is flushed here up to `flushed_offset`. NOTHING while the
        ISR is too small, and until all its members have fetched in this epoch."""
        if not self.placed.is_isr_sufficient(isr_size_min):
            return NOTHING
        offset = flushed_offset
        for one in self._maximal:
            known = self._followers.get(one)
            if known is None:
                return NOTHING
            offset = min(offset, known.fetch.offset)
        for one in self._others:
            known = self._followers.get(one)
            if known is not None and self._is_near(one, known, now_s):
                offset = min(offset, known.fetch.offset)
        return offset

    def _is_near(self, broker_id: int, known: FollowerProgress, now_s: float) -> bool:
        """Whether a replica is about to join the ISR."""
        return (
            now_s - known.fetched_s <= NEAR_S_MAX
            and now_s - known.caught_up_s <= NEAR_S_MAX
            and self._is_eligible(broker_id, known.fetch)
        )

    def _is_eligible(self, broker_id: int, fetch: FollowerFetch) -> bool:
        registered = self._brokers.find_broker(broker_id)
        return (
            registered is not None
            and self._brokers.can_lead(broker_id)
            and registered.epoch == fetch.broker_epoch
        )

    # -- who is in sync

    def is_in_sync(self, broker_id: int, high_watermark: int) -> bool:
        """Whether a replica may join the ISR: it has fetched in this epoch, holds everything that is committed and
        everything before the start of the epoch, and the broker that fetched is the one that is registered now."""
        fetch = self.find(broker_id)
        return (
            fetch is not None
            and fetch.offset >= max(high_watermark, self._epoch_start)
            and self._is_eligible(broker_id, fetch)
        )

    def is_behind(self, broker_id: int, end_offset: int, now_s: float, lag_s_max: float) -> bool:
        """Whether a member of the ISR has not caught up with the leader for too long."""
        known = self._followers.get(broker_id)
        if known is None:
            return now_s - self._since_s > lag_s_max
        return known.fetch.offset < end_offset and now_s - known.caught_up_s > lag_s_max

    def wanted_change(
        self, own_epoch: int, high_watermark: int, end_offset: int, now_s: float, lag_s_max: float
    ) -> IsrChange | None:
        """The ISR as it should be, if it differs; None while the outcome of another change is unknown.

        `own_epoch`: the broker epoch of the leader.
        """
        placed = self.placed
        if self.proposed is not None:
            return None
        if placed.is_recovering:  # it has led with an incomplete log; the others join afterwards
            return self._change([], own_epoch)
        members = [
            one
            for one in placed.replicas
            if one != placed.leader
            and (
                not self.is_behind(one, end_offset, now_s, lag_s_max)
                if one in placed.isr
                else self.is_in_sync(one, high_watermark)
            )
        ]
        if {placed.leader, *members} == set(placed.isr):
            return None
        return self._change(members, own_epoch)

    def _change(self, members: list[int], own_epoch: int) -> IsrChange:
        placed = self.placed
        isr = [IsrMember(placed.leader, own_epoch)]
        for one in members:
            fetch, registered = self.find(one), self._brokers.find_broker(one)
            known = fetch.broker_epoch if fetch is not None else NOTHING
            # A member that has not fetched in this epoch yet stays in the ISR as it is registered: a broker that
            # registers again has left the ISR before.
            stays = one in placed.isr and registered is not None
            isr.append(IsrMember(one, registered.epoch if stays and registered is not None else known))
        return IsrChange(placed.id, placed.leader_epoch, placed.partition_epoch, isr)

    def is_followed(self, now_s: float, within_s: float, *, trusts_new: bool = False) -> bool:
        """Whether all other members of the ISR have fetched within this time. Nobody follows a leader that was replaced
        without hearing of it. `trusts_new`: a leader that is elected needs no fetch for the same time."""
        unknown_s = self._since_s if trusts_new else -math.inf
        return all(
            now_s - (unknown_s if known is None else known.fetched_s) <= within_s
            for known in map(self._followers.get, self._maximal)
        )

    # -- moves of the leader

    def moves_leader(self, change: IsrChange) -> bool:
        """Whether a change may complete a reassignment after which another broker leads."""
        placed = self.placed
        members = {one.broker_id for one in change.isr}
        return placed.leader in placed.removing and bool(placed.adding) and set(placed.adding) <= members

    def without_move(self, change: IsrChange) -> IsrChange | None:
        """The same change without the added replicas that would join by it: the others join while the leader cannot be
        moved, because it may need them to commit its last records. None if nothing else changes."""
        placed = self.placed
        isr = [one for one in change.isr if one.broker_id in placed.isr or one.broker_id not in placed.adding]
        rest = change._replace(isr=isr)
        if {one.broker_id for one in isr} == set(placed.isr) or self.moves_leader(rest):
            return None
        return rest

    def are_equal(self, start_offset: int, end_offset: int) -> bool:
        """Whether every replica that may lead after the move has exactly the records from `start_offset`, if it is
        being added, to `end_offset`."""
        placed = self.placed
        for one in placed.target:
            fetch = self.find(one)
            if one in placed.adding:
                if fetch is None or (fetch.start_offset, fetch.offset) != (start_offset, end_offset):
                    return False
            elif one in placed.isr and (fetch is None or fetch.offset != end_offset):
                return False
        return True
