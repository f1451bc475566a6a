"""Committed offsets of all groups: commit, fetch, remove, expire; including offsets pended in transactions.

The group decides who may commit; the caller checks that topics exist. Every call invokes its callback exactly once,
when its effect is durable. Does not raise.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Container, Sequence
from typing import NamedTuple

from penstock.core.errors import (
    BrokerError,
    GroupSubscribed,
    NotCoordinator,
    NotLeader,
    UnknownGroup,
    UnstableOffset,
)
from penstock.core.machine import NEVER_MS, Decision, GroupMachine, Moment
from penstock.core.machines.offsets.offsets import NO_EXPIRY, Committed, Event
from penstock.core.model import TopicPartition
from penstock.node.coordinators.group_shard import Answered, GroupShard
from penstock.node.coordinators.groups import Groups
from penstock.node.coordinators.shard import Stage
from penstock.node.replicas.offset_waits import Settled
from penstock.node.runtime.slices import Sliced, chunks

logger = logging.getLogger("penstock.groups")

NO_RETENTION = -1

Outcomes = list[BrokerError | None]
"""One entry per offset of a call: None, or the error."""


class Committer(NamedTuple):
    """Who commits: a member at its generation or member epoch, or ("", -1, None) for a client outside the group."""

    member_id: str = ""
    epoch: int = -1
    instance_id: str | None = None


class NewOffset(NamedTuple):
    """An offset to be committed."""

    place: TopicPartition
    offset: int
    leader_epoch: int
    metadata: str


class CommittedOffsets:
    """The offsets of the groups of one node."""

    def __init__(self, groups: Groups, retention_ms: int) -> None:
        self._groups = groups
        self._retention_ms = retention_ms

    def commit(
        self,
        group_id: str,
        by: Committer,
        offsets: Sequence[NewOffset],
        retention_ms: int,
        answered: Answered[Outcomes],
    ) -> None:
        """Answered with one entry per offset: None, or the error."""
        try:
            shard = self._groups.shard_of(group_id)
            moment = shard.moment()
            seen = self._check_committer(shard, group_id, by, moment, transactional=False)
        except BrokerError as error:
            answered(error)
            return
        machine = shard.roster.offsets
        expire_ms = (
            NO_EXPIRY if retention_ms == NO_RETENTION else min(moment.wall_ms + retention_ms, NEVER_MS)
        )

        def decide(one: NewOffset) -> Event:
            return machine.decide_commit(group_id, one.place, _committed(one, moment, expire_ms))

        shard.commit(group_id, _each(offsets, decide, seen), answered)

    def _check_committer(
        self, shard: GroupShard, group_id: str, by: Committer, moment: Moment, *, transactional: bool
    ) -> list[object]:
        """Raises unless the committer may commit; returns the events that renew the member's session."""
        group = shard.roster.find(group_id)
        if group is None:
            if by.epoch >= 0:
                raise UnknownGroup(f"there is no group {group_id!r}")
            return []
        group.check_commit(by.member_id, by.epoch, by.instance_id, transactional=transactional)
        return group.decide_seen(by.member_id, moment)

    def fetch(
        self,
        group_id: str,
        by: Committer,
        wanted: Sequence[TopicPartition] | None,
        answered: Answered[dict[TopicPartition, Committed | BrokerError | None]],
        *,
        require_stable: bool,
    ) -> Sliced[None]:
        """Answered with {partition: Committed, None or UnstableOffset}; `wanted` None fetches all."""
        try:
            shard = self._groups.shard_of(group_id)
            _check_current(shard)
            group = shard.roster.find(group_id)
            if group is not None:
                group.check_fetch(by.member_id or None, by.epoch)
        except BrokerError as error:
            answered(error)
            return
        machine = shard.roster.offsets
        places = list(machine.of_group(group_id)) if wanted is None else wanted
        found: dict[TopicPartition, Committed | BrokerError | None] = {}
        for some in chunks(places):
            for place in some:
                if require_stable and machine.is_unstable(group_id, place):
                    found[place] = UnstableOffset(f"an open transaction has a pending offset for {place}")
                else:
                    found[place] = machine.find(group_id, place)
            yield len(some) // 4
        if shard.roster.offsets is not machine:
            answered(
                NotCoordinator(
                    f"{shard.partition} was replayed again while offsets of group {group_id!r} were read"
                )
            )
            return
        shard.commit(group_id, Decision(answer=found), answered)

    def remove(self, group_id: str, wanted: Sequence[TopicPartition], answered: Answered[Outcomes]) -> None:
        """Answered with one entry per partition: None, or the error."""
        try:
            shard = self._groups.shard_of(group_id)
            group = shard.roster.find(group_id)
            if group is None:
                raise UnknownGroup(f"there is no group {group_id!r}")
            group.check_remove_offsets()
        except BrokerError as error:
            answered(error)
            return
        decision: Decision[Outcomes] = Decision()
        outcomes: Outcomes = []
        for place in wanted:
            if group.is_subscribed(place.topic):
                outcomes.append(
                    GroupSubscribed(f"group {group_id!r} has members subscribed to {place.topic!r}")
                )
            else:
                decision.events += shard.roster.offsets.decide_remove(group_id, place)
                outcomes.append(None)
        decision.answer = outcomes
        shard.commit(group_id, decision, answered)

    # -- for transactions

    def pend(
        self,
        group_id: str,
        by: Committer,
        producer: tuple[int, int],
        offsets: Sequence[NewOffset],
        answered: Answered[Outcomes],
    ) -> None:
        """Persist offsets that are committed if the transaction of this (producer id, epoch) commits. Answered like
        `commit`.

        The caller has checked that the transaction is open and includes this group.
        """
        try:
            shard = self._groups.shard_of(group_id)
            moment = shard.moment()
            seen = self._check_committer(shard, group_id, by, moment, transactional=True)
        except BrokerError as error:
            answered(error)
            return
        machine = shard.roster.offsets

        def decide(one: NewOffset) -> Event:
            return machine.decide_pend(group_id, *producer, one.place, _committed(one, moment, NO_EXPIRY))

        shard.commit(group_id, _each(offsets, decide, seen), answered)

    def settle(
        self,
        index: int,
        producer_id: int,
        epoch: int,
        *,
        is_bumped: bool,
        is_commit: bool,
        settled: Settled,
    ) -> None:
        """Commit or drop the offsets that an ended transaction has pended on one partition of the groups' topic.
        Epoch and `is_bumped` are those of its marker.

        Calls back once that is durable, or with an error; then the caller retries. Idempotent, so it may be repeated
        after a crash.
        """
        host = self._groups.host
        if not 0 <= index < host.partition_count:
            settled(None)
            return
        try:
            shard = host.get(index)
            shard.check_ready()
        except BrokerError as error:
            settled(error)
            return
        shard.partition.guards.void(producer_id, epoch, is_bumped=is_bumped)
        shard.persist_all(shard.roster.offsets.decide_settle(producer_id, is_commit=is_commit), settled)

    # -- expiry

    def forget_topics(self, topics: Collection[str]) -> Sliced[None]:
        """Drop the offsets of deleted topics: new topics of the same names start without committed offsets."""
        for shard in self._groups.host.shards:
            if shard.stage is Stage.REPLAYING:
                shard.gone_topics.update(topics)
            elif shard.stage is not Stage.RESIGNED:
                yield from self.forget_topics_of(shard, topics)

    def forget_topics_of(self, shard: GroupShard, topics: Container[str]) -> Sliced[None]:
        """The same on one shard."""
        machine = shard.roster.offsets
        for group_ids in chunks(machine.group_ids):
            events = [
                event for group_id in group_ids for event in machine.decide_remove_topics(group_id, topics)
            ]
            if events:
                shard.persist_all(events, _logged)
            yield len(group_ids) // 2 + len(events)

    def expire(self, shard: GroupShard, group_id: str) -> None:
        """Remove a group's expired offsets, and the group itself if it is empty and has none left."""
        group = shard.roster.find(group_id)
        if group is None:
            return
        machine, moment = shard.roster.offsets, shard.moment()
        events: list[object] = list(
            machine.decide_expire(group_id, group.offsets_expire_from_ms, moment.wall_ms, self._retention_ms)
        )
        if _is_spent(group, len(machine.of_group(group_id)) - len(events), machine.has_pended(group_id)):
            events += group.decide_remove()
        if events:
            shard.persist_all(events, _logged)


def _is_spent(group: GroupMachine, offsets_left: int, has_pended: bool) -> bool:
    return group.is_empty and not offsets_left and not has_pended and group.wake_ms == NEVER_MS


def _committed(one: NewOffset, moment: Moment, expire_ms: int) -> Committed:
    return Committed(one.offset, one.leader_epoch, one.metadata, moment.wall_ms, expire_ms)


def _each(
    offsets: Sequence[NewOffset], decide: Callable[[NewOffset], Event], seen: list[object]
) -> Decision[Outcomes]:
    """One decision for many offsets, some of which may be rejected."""
    decision: Decision[Outcomes] = Decision(seen)
    outcomes: Outcomes = []
    for one in offsets:
        try:
            decision.events.append(decide(one))
            outcomes.append(None)
        except BrokerError as error:
            outcomes.append(error)
    decision.answer = outcomes
    return decision


def _logged(error: BrokerError | None) -> None:
    if error is not None:
        logger.warning("cannot persist the removal of expired offsets; the next check retries: %s", error)


def _check_current(shard: GroupShard) -> None:
    """Raise NotCoordinator if another broker may have taken over: offsets that it has committed are unknown here."""
    try:
        shard.partition.check_followed()
    except NotLeader as error:
        raise NotCoordinator(str(error)) from error
