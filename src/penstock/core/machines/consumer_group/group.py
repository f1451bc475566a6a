"""The consumer group of KIP-848: members send heartbeats, the broker assigns. Decides; never writes or waits.

Every change of members, subscriptions or topics bumps the group's epoch, for which the assignor computes a target for
every member. A member moves to its target on its own heartbeats: it first revokes partitions, then gets new ones once
their owners have released them (see `reconciliation`). Then it is in the target's epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from penstock.core.errors import (
    FencedInstance,
    FencedMember,
    GroupFull,
    GroupNotEmpty,
    InvalidRequest,
    StaleGeneration,
    StaleMember,
    UnknownAssignor,
    UnknownMember,
    UnreleasedInstance,
)
from penstock.core.machine import NEVER_MS, Decision, GroupKind, Moment
from penstock.core.machines.consumer_group.assignors import ASSIGNORS, NOTHING, Assignment
from penstock.core.machines.consumer_group.downgrade import downgrade
from penstock.core.machines.consumer_group.events import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    PAUSE_EPOCH,
    ClassicMetadata,
    ConsumerGroupMember,
    ConsumerGroupWoken,
    CurrentAssignment,
    CurrentAssignmentSet,
    GroupEpoch,
    GroupEpochSet,
    MemberSet,
    MemberState,
    RegexSet,
    RevocationDue,
    SessionRenewed,
    TargetEpochSet,
    TargetSet,
)
from penstock.core.machines.consumer_group.reconciliation import reconcile
from penstock.core.machines.consumer_group.state import UNKNOWN_HASH, ConsumerGroupState
from penstock.core.machines.consumer_group.targets import (
    Draft,
    Topics,
    advance,
    forget_unused_regexes,
)
from penstock.core.machines.consumer_group.topic_regex import check_regex

PROTOCOL_TYPE = "consumer"
NO_EPOCH = -1
"""The epoch of a caller that is not a member."""

_NOT_GIVEN_MS = -1


class ConsumerGroupTerms(NamedTuple):
    """Timeouts and limits for all groups."""

    session_ms: int
    heartbeat_ms: int
    size_max: int
    classic_session_ms_min: int
    classic_session_ms_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberHeartbeat:
    """One heartbeat. None means unchanged."""

    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_ms: int = _NOT_GIVEN_MS
    topic_names: tuple[str, ...] | None = None
    topic_regex: str | None = None
    assignor: str | None = None
    owned: Assignment | None = None
    classic: ClassicMetadata | None = None
    """Set if the member uses the classic protocol and this represents its join."""

    @property
    def may_reassign(self) -> bool:
        """Whether all targets may have to be recomputed: the member joins, leaves, or sends a subscription."""
        return self.epoch <= JOIN_EPOCH or self.topic_names is not None or self.topic_regex is not None

    def check(self) -> None:
        """Validate the heartbeat by itself, independently of the group."""
        for name, value in (("InstanceId", self.instance_id), ("RackId", self.rack_id)):
            if value == "":
                raise InvalidRequest(f"{name} can't be empty.")
        if not self.member_id:
            raise InvalidRequest("MemberId can't be empty.")
        if self.epoch < PAUSE_EPOCH:
            raise InvalidRequest(
                f"MemberEpoch is {self.epoch}, but must be greater than or equal to {PAUSE_EPOCH}."
            )
        if self.epoch == PAUSE_EPOCH and self.instance_id is None:
            raise InvalidRequest("InstanceId can't be null.")
        if self.epoch == JOIN_EPOCH:
            self._check_join()
        if self.assignor is not None and self.assignor not in ASSIGNORS:
            names = ", ".join(ASSIGNORS)
            raise UnknownAssignor(
                f"ServerAssignor {self.assignor} is not supported. Supported assignors: {names}."
            )
        if self.topic_regex:
            check_regex(self.topic_regex)

    def _check_join(self) -> None:
        if self.rebalance_ms == _NOT_GIVEN_MS:
            raise InvalidRequest("RebalanceTimeoutMs must be provided in first request.")
        if self.owned:
            raise InvalidRequest("TopicPartitions must be empty when (re-)joining.")
        if self.topic_names is None and self.topic_regex is None:
            raise InvalidRequest(
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
            )

    @property
    def is_full(self) -> bool:
        """Whether all fields are set, as after a join or a lost response; the response is then complete too."""
        has_subscription = self.topic_names is not None or self.topic_regex is not None
        says_all = self.rebalance_ms != _NOT_GIVEN_MS and has_subscription and self.owned is not None
        return self.epoch == JOIN_EPOCH or says_all


class HeartbeatAnswer(NamedTuple):
    """The heartbeat response. Without an assignment the previous one is unchanged."""

    member_id: str
    epoch: int
    heartbeat_ms: int
    assignment: Assignment | None


class ConsumerGroup(ConsumerGroupState):
    """The machine of one group."""

    kind = GroupKind.CONSUMER
    protocol_type: str | None = PROTOCOL_TYPE

    def __init__(self, group_id: str, terms: ConsumerGroupTerms) -> None:
        super().__init__(group_id)
        self.terms = terms

    # -- reading

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        if all(self._is_settled(self.current_assignment(member_id)) for member_id in self.members):
            return "Stable"
        return "Reconciling"

    def _is_settled(self, current: CurrentAssignment) -> bool:
        return current.state is MemberState.STABLE and current.epoch == self.target_epoch

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def is_vacant(self) -> bool:
        return self.has_no_state

    @property
    def is_dead(self) -> bool:
        return self.has_no_state

    def is_subscribed(self, topic: str) -> bool:
        return self.reads(topic)

    def offsets_expire_from_ms(self, topic: str, commit_ms: int) -> int | None:
        return None if self.reads(topic) else commit_ms

    def check_commit(
        self, member_id: str, epoch: int, instance_id: str | None, *, transactional: bool
    ) -> None:
        """Members commit in their own epoch; an empty group accepts commits of non-members."""
        if epoch < 0 and not self.members:
            return
        if transactional and epoch == NO_EPOCH and not member_id and instance_id is None:
            return
        self._check_epoch_now(member_id, epoch)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Any client may read; one that names a member must be in its epoch."""
        if not member_id and epoch < 0:
            return
        self._check_epoch_now(member_id or "", epoch)

    def check_remove_offsets(self) -> None:
        """Offsets of topics without subscribers may be deleted at any time."""

    def _check_epoch_now(self, member_id: str, epoch: int) -> None:
        member, now = self._known(member_id), self.current_assignment(member_id).epoch
        if epoch != now:
            stale = StaleMember if member.classic is None else StaleGeneration
            raise stale(f"member {member_id!r} of group {self.id!r} is in epoch {now}, not {epoch}")

    def _known(self, member_id: str) -> ConsumerGroupMember:
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMember(f"group {self.id!r} has no member {member_id!r}")
        return member

    # -- heartbeats

    def decide_heartbeat(
        self, heartbeat: MemberHeartbeat, topics: Topics, moment: Moment
    ) -> Decision[HeartbeatAnswer]:
        """A member joins, renews its session, changes its subscription, acknowledges a revocation, or leaves."""
        heartbeat.check()
        if heartbeat.epoch < 0:
            return self._decide_leave(heartbeat, moment)
        draft = Draft(self)
        self._admit(draft, heartbeat)
        is_changed = self._update_member(draft, heartbeat)
        advance(draft, topics, moment.wall_ms, is_changed=is_changed)
        before, after = self._reconcile(draft, heartbeat)
        self._settle_deadlines(draft, heartbeat.member_id, before, after, moment)
        is_news = heartbeat.is_full or after.assigned != before.assigned
        answer = HeartbeatAnswer(
            heartbeat.member_id, after.epoch, self.terms.heartbeat_ms, after.assigned if is_news else None
        )
        return Decision(draft.events, answer)

    def _admit(self, draft: Draft, heartbeat: MemberHeartbeat) -> None:
        """Raises unless this is a member in the given epoch, or may become one."""
        holder = (
            self.instances.get(heartbeat.instance_id)
            if heartbeat.instance_id is not None
            else heartbeat.member_id
        )
        if heartbeat.epoch != JOIN_EPOCH:
            self.check_member(heartbeat.member_id, heartbeat.instance_id)
            self._check_epoch(heartbeat)
            return
        if holder is not None and holder != heartbeat.member_id:
            self._replace_static(draft, holder, heartbeat)
        elif heartbeat.member_id not in self.members and len(self.members) >= self.terms.size_max:
            raise GroupFull(f"group {self.id!r} has reached its limit of {len(self.members)} members")

    def check_member(self, member_id: str, instance_id: str | None) -> ConsumerGroupMember:
        """The member with that id and instance id, if given. Raises if there is none, or the instance id is fenced."""
        if instance_id is not None:
            holder = self.instances.get(instance_id)
            if holder is None:
                raise UnknownMember(f"group {self.id!r} has no member with the instance id {instance_id!r}")
            if holder != member_id:
                raise FencedInstance(
                    f"instance id {instance_id!r} of group {self.id!r} belongs to another member"
                )
        return self._known(member_id)

    def _check_epoch(self, heartbeat: MemberHeartbeat) -> None:
        """The previous epoch is accepted, because the response with the new one may have been lost."""
        current = self.current_assignment(heartbeat.member_id)
        if heartbeat.epoch == current.epoch:
            return
        if heartbeat.epoch == current.previous_epoch and _is_within(heartbeat.owned, current.assigned):
            return
        raise FencedMember(
            f"member {heartbeat.member_id!r} of group {self.id!r} is in epoch {current.epoch}, not {heartbeat.epoch}:"
            " it must give up all partitions and join again"
        )

    def _replace_static(self, draft: Draft, old_id: str, heartbeat: MemberHeartbeat) -> None:
        """A static member returns under another id and takes over its state, without a rebalance."""
        current = self.current_assignment(old_id)
        if current.epoch != PAUSE_EPOCH and heartbeat.classic is None:
            raise UnreleasedInstance(
                f"instance id {heartbeat.instance_id!r} of group {self.id!r} is still held by member {old_id!r}"
            )
        member, target = self.members[old_id], self.targets.get(old_id)
        for event in self._removal_events(old_id):
            draft.record(event)
        draft.record(MemberSet(self.id, heartbeat.member_id, member))
        draft.record(TargetSet(self.id, heartbeat.member_id, target))
        back = CurrentAssignment(0, 0, MemberState.STABLE, current.assigned, {})
        draft.record(CurrentAssignmentSet(self.id, heartbeat.member_id, back))

    def _removal_events(self, member_id: str) -> list[Any]:
        return [
            CurrentAssignmentSet(self.id, member_id, None),
            TargetSet(self.id, member_id, None),
            MemberSet(self.id, member_id, None),
        ]

    def _update_member(self, draft: Draft, heartbeat: MemberHeartbeat) -> bool:
        """Record the member's metadata; True if the group's subscriptions change."""
        known = draft.state.members.get(heartbeat.member_id)
        member = _updated(known or ConsumerGroupMember(), heartbeat)
        if member == known:
            return False
        draft.record(MemberSet(self.id, heartbeat.member_id, member))
        return known is None or (known.topic_names, known.topic_regex) != (
            member.topic_names,
            member.topic_regex,
        )

    def _reconcile(
        self, draft: Draft, heartbeat: MemberHeartbeat
    ) -> tuple[CurrentAssignment, CurrentAssignment]:
        """Take one reconciliation step. A joining member owns nothing, whatever it owned before."""
        state, member_id = draft.state, heartbeat.member_id
        before = state.current_assignment(member_id)
        after = reconcile(
            before,
            state.target_epoch,
            state.target(member_id),
            NOTHING if heartbeat.epoch == JOIN_EPOCH else heartbeat.owned,
            lambda topic, partition: state.is_free_for(member_id, topic, partition),
        )
        if after != before or member_id not in state.current_assignments:
            draft.record(CurrentAssignmentSet(self.id, member_id, after))
        return before, after

    def _settle_deadlines(
        self,
        draft: Draft,
        member_id: str,
        before: CurrentAssignment,
        after: CurrentAssignment,
        moment: Moment,
    ) -> None:
        draft.record(self.session_renewed(member_id, draft.state.members[member_id], moment))
        is_due = member_id in draft.state.revocations
        if after.state is MemberState.UNREVOKED:
            if not is_due or after.epoch != before.epoch:
                deadline_ms = moment.now_ms + draft.state.members[member_id].rebalance_ms
                draft.record(RevocationDue(self.id, member_id, deadline_ms))
        elif is_due:
            draft.record(RevocationDue(self.id, member_id, None))

    # -- leaving

    def _decide_leave(self, heartbeat: MemberHeartbeat, moment: Moment) -> Decision[HeartbeatAnswer]:
        self.check_member(heartbeat.member_id, heartbeat.instance_id)
        answer = HeartbeatAnswer(heartbeat.member_id, heartbeat.epoch, 0, None)
        if heartbeat.epoch == LEAVE_EPOCH:
            return Decision(self.decide_drop([heartbeat.member_id], moment), answer)
        current = self.current_assignment(heartbeat.member_id)
        paused = CurrentAssignment(PAUSE_EPOCH, PAUSE_EPOCH, MemberState.STABLE, current.assigned, {})
        return Decision(
            [
                CurrentAssignmentSet(self.id, heartbeat.member_id, paused),
                RevocationDue(self.id, heartbeat.member_id, None),
            ],
            answer,
        )

    def decide_drop(self, member_ids: list[str], moment: Moment) -> list[Any]:
        """Remove members and bump the epoch; the next heartbeat of another member computes the new targets.

        If only classic members are left, the group is downgraded to a classic one.
        """
        draft = Draft(self)
        for member_id in member_ids:
            for event in self._removal_events(member_id):
                draft.record(event)
        forget_unused_regexes(draft)
        draft.record(GroupEpochSet(self.id, GroupEpoch(self.epoch + 1, UNKNOWN_HASH)))
        if draft.state.members and all(member.classic is not None for member in draft.state.members.values()):
            return draft.events + downgrade(draft.state, moment)
        return draft.events

    def decide_remove(self) -> list[Any]:
        """Delete the group; the record that proves its existence goes last."""
        if self.members:
            raise GroupNotEmpty(f"group {self.id!r} has {len(self.members)} members")
        events: list[Any] = [RegexSet(self.id, regex, None) for regex in sorted(self.regexes)]
        return [*events, TargetEpochSet(self.id, None), GroupEpochSet(self.id, None)]

    # -- time

    def session_renewed(self, member_id: str, member: ConsumerGroupMember, moment: Moment) -> SessionRenewed:
        """Extend a member's session. Classic members have their own session timeout."""
        session_ms = self.terms.session_ms if member.classic is None else member.classic.session_ms
        return SessionRenewed(self.id, member_id, moment.now_ms + session_ms)

    def decide_tick(self, moment: Moment) -> Decision[None]:
        """Remove members whose session expired or that did not revoke partitions in time."""
        late = {
            member_id
            for row in (self.deadlines, self.revocations)
            for member_id, deadline_ms in row.items()
            if deadline_ms <= moment.now_ms
        }
        draft = Draft(self)
        if late:
            events = self.decide_drop(sorted(late), moment)
            if any(event.kind is not self.kind for event in events):
                return Decision(events)
            for event in events:
                draft.record(event)
        left = [*draft.state.deadlines.values(), *draft.state.revocations.values()]
        draft.record(ConsumerGroupWoken(self.id, min(left, default=NEVER_MS)))
        return Decision(draft.events)

    def decide_revive(self, moment: Moment) -> Decision[None]:
        """After a restart sessions and pending revocations get their full timeout again."""
        events: list[Any] = []
        for member_id, member in self.members.items():
            events.append(self.session_renewed(member_id, member, moment))
            if self.current_assignment(member_id).state is MemberState.UNREVOKED:
                events.append(RevocationDue(self.id, member_id, moment.now_ms + member.rebalance_ms))
        return Decision(events)

    def decide_seen(self, member_id: str, moment: Moment) -> list[Any]:
        """Only heartbeats renew sessions in this protocol."""
        return []


def _updated(member: ConsumerGroupMember, heartbeat: MemberHeartbeat) -> ConsumerGroupMember:
    names = member.topic_names if heartbeat.topic_names is None else tuple(sorted(set(heartbeat.topic_names)))
    return replace(
        member,
        instance_id=heartbeat.instance_id if heartbeat.instance_id is not None else member.instance_id,
        rack_id=heartbeat.rack_id if heartbeat.rack_id is not None else member.rack_id,
        client_id=heartbeat.client_id,
        client_host=heartbeat.client_host,
        topic_names=names,
        topic_regex=member.topic_regex if heartbeat.topic_regex is None else heartbeat.topic_regex or None,
        rebalance_ms=member.rebalance_ms
        if heartbeat.rebalance_ms == _NOT_GIVEN_MS
        else heartbeat.rebalance_ms,
        assignor=member.assignor if heartbeat.assignor is None else heartbeat.assignor,
        classic=heartbeat.classic,
    )


def _is_within(owned: Assignment | None, assigned: Assignment) -> bool:
    return owned is not None and all(
        partitions <= assigned.get(topic, frozenset()) for topic, partitions in owned.items()
    )
