"""The classic group: members join in rounds, a leader assigns partitions, sessions expire. No I/O, no clock of its own.

    Empty ── join ──▶ PreparingRebalance ── all joined, or time is up ──▶ CompletingRebalance ── leader syncs ──▶ Stable
      ▲                   │        ▲                                            │                                  │
      └── nobody is left ─┘        └──── a member comes, changes, leaves or falls silent ───────────────────────────┘

`state.NEXT` is the transition table. A rejected command raises and changes nothing; the one exception is
MemberIdRequired, which is a response: the assigned id is remembered.
"""

from __future__ import annotations

from typing import Any

from penstock.core.errors import (
    BrokerError,
    FencedInstance,
    GroupFull,
    GroupNotEmpty,
    InconsistentProtocol,
    InvalidSession,
    MemberIdRequired,
    Rebalancing,
    StaleGeneration,
    UnknownMember,
)
from penstock.core.limits import GROUP_COMING_MS, GROUP_NEWCOMER_MS
from penstock.core.machine import NEVER_MS, Decision, Moment, Waiter
from penstock.core.machines.classic_group.round import Round, choose_protocol, joined_answer
from penstock.core.machines.classic_group.state import ClassicState, GroupState
from penstock.core.machines.classic_group.values import (
    CONSUMERS,
    JOIN,
    SYNC,
    Assigned,
    ClassicGroupMember,
    GroupLimits,
    GroupRemoved,
    GroupSaved,
    JoinAwaited,
    JoinCommand,
    Joined,
    LeaveCommand,
    MemberPut,
    MemberReplaced,
    PendingGone,
    PendingPut,
    Protocol,
    SyncAwaited,
    SyncCommand,
    SyncMade,
    Touched,
    Woken,
)


class Group(GroupState):
    """The machine."""

    def __init__(self, group_id: str, limits: GroupLimits) -> None:
        super().__init__(group_id)
        self._limits = limits

    # -- reading

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

    @property
    def is_dead(self) -> bool:
        return self.state is ClassicState.DEAD

    @property
    def is_vacant(self) -> bool:
        return self.state is ClassicState.EMPTY and self.saved is None and not self.pending

    # -- joining

    def decide_join(self, command: JoinCommand, moment: Moment) -> Decision[Joined]:
        """A member joins or rejoins."""
        limits = self._limits
        if not limits.session_ms_min <= command.session_ms <= limits.session_ms_max:
            raise InvalidSession(
                f"session timeout {command.session_ms} ms is outside {limits.session_ms_min} to {limits.session_ms_max}"
            )
        self._check_room(command.member_id)
        self._check_protocols(command)
        if not command.member_id:
            return self._decide_join_new(command, moment)
        if command.member_id in self.pending and command.instance_id is None:
            return self._decide_join_pending(command, moment)
        self._check_member(command.member_id, command.instance_id)
        return self._decide_join_again(command, moment)

    def _check_room(self, member_id: str) -> None:
        limit = self._limits.size_max
        if self.state is ClassicState.PREPARING:
            has_room = member_id in self.joining or len(self.joining) < limit
        else:
            has_room = member_id in self.members or len(self.members) < limit
        if not has_room or (not member_id and len(self.pending) >= limit):
            raise GroupFull(f"group {self.id!r} has reached its limit of {limit} members")

    def _check_protocols(self, command: JoinCommand) -> None:
        if not command.protocol_type or not command.protocols:
            raise InconsistentProtocol("a member must name a protocol type and at least one protocol")
        if self.state is ClassicState.EMPTY:
            return
        total = len(self.members)
        knows_one = any(self.votes.get(one.name, 0) == total for one in command.protocols)
        if command.protocol_type != self.protocol_type or not knows_one:
            names = ", ".join(one.name for one in command.protocols)
            raise InconsistentProtocol(
                f"group {self.id!r} ({self.protocol_type}) shares no protocol with {command.protocol_type}: {names}"
            )

    def _check_member(self, member_id: str, instance_id: str | None) -> None:
        """Raises unless this is a member, and the current holder of its instance id."""
        if instance_id is not None:
            holder = self.statics.get(instance_id)
            if holder is None:
                raise UnknownMember(f"group {self.id!r} has no static member {instance_id!r}")
            if holder != member_id:
                raise FencedInstance(
                    f"{instance_id!r} of group {self.id!r} is now held by {holder!r}, not {member_id!r}"
                )
        if member_id not in self.members:
            raise UnknownMember(f"group {self.id!r} has no member {member_id!r}")

    def _decide_join_new(self, command: JoinCommand, moment: Moment) -> Decision[Joined]:
        round: Round[Joined] = Round(self, self._limits, moment)
        if command.instance_id is not None:
            holder = self.statics.get(command.instance_id)
            if holder is not None:
                return self._decide_replace(round, holder, command)
        elif command.needs_known_id:
            now_ms = moment.now_ms
            deadline_ms, coming_ms = now_ms + command.session_ms, now_ms + GROUP_COMING_MS
            round.emit(PendingPut(self.id, command.fresh_id, deadline_ms, min(deadline_ms, coming_ms)))
            round.gather(has_grown=False)
            round.decision.answer = MemberIdRequired(command.fresh_id)
            return round.decision
        return _enter(round, _member(command, command.fresh_id), command)

    def _decide_join_pending(self, command: JoinCommand, moment: Moment) -> Decision[Joined]:
        round: Round[Joined] = Round(self, self._limits, moment)
        round.emit(PendingGone(self.id, command.member_id))
        return _enter(round, _member(command, command.member_id), command)

    def _decide_join_again(self, command: JoinCommand, moment: Moment) -> Decision[Joined]:
        """An existing member rejoins: in the open round, after a change, or because a response was lost."""
        round: Round[Joined] = Round(self, self._limits, moment)
        known = self.members[command.member_id]
        is_same = known.protocols == _protocols(command)
        leads_stable = self.state is ClassicState.STABLE and self.leader == known.id
        if self.state in (ClassicState.COMPLETING, ClassicState.STABLE) and is_same and not leads_stable:
            round.emit(Touched(self.id, known.id, moment.now_ms + known.session_ms))
            round.decision.answer = joined_answer(round.state, known.id)
            return round.decision
        member = _member(command, known.id, known.assignment)
        is_new = known.id in self.newcomers
        round.emit(
            MemberPut(self.id, member, command.protocol_type, _session_end(member, moment, is_new), is_new)
        )
        return _await_join(round, member.id)

    def _decide_replace(self, round: Round[Joined], old_id: str, command: JoinCommand) -> Decision[Joined]:
        """A static member returns under a new id. A stable group rebalances only if its protocol would change."""
        state, moment = round.state, round.moment
        leader_before = state.leader or ""
        member = _member(command, command.fresh_id, state.members[old_id].assignment)
        round.fence(old_id)
        round.emit(MemberReplaced(self.id, old_id, member, moment.now_ms + member.session_ms))
        if state.state is not ClassicState.STABLE or choose_protocol(state) != state.protocol:
            return _await_join(round, member.id)
        assert self.saved is not None
        round.emit(GroupSaved(self.id, state.snapshot(moment.wall_ms)))
        answer = joined_answer(state, member.id, skip_assignment=True)
        if not command.may_skip:
            # A client that cannot skip the assignment gets another member as leader, so that it computes none.
            answer = answer._replace(leader=leader_before, members=(), skip_assignment=False)
        round.decision.answer = answer
        return round.decision

    # -- assigning

    def decide_sync(self, command: SyncCommand, moment: Moment) -> Decision[Assigned]:
        """A member fetches its assignment; the leader's call provides all assignments and makes the group stable."""
        self._check_member(command.member_id, command.instance_id)
        self._check_generation(command.generation)
        for stated, actual in (
            (command.protocol_type, self.protocol_type),
            (command.protocol, self.protocol),
        ):
            if stated is not None and stated != actual:
                raise InconsistentProtocol(f"group {self.id!r} uses {actual!r}, not {stated!r}")
        if self.state is ClassicState.PREPARING:
            raise Rebalancing(f"group {self.id!r} is rebalancing")
        round: Round[Assigned] = Round(self, self._limits, moment)
        member = self.members[command.member_id]
        round.emit(Touched(self.id, member.id, moment.now_ms + member.session_ms))
        if self.state is ClassicState.STABLE:
            round.emit(SyncMade(self.id, member.id))
            round.decision.answer = self._assigned(member.assignment)
            return round.decision
        round.emit(SyncAwaited(self.id, member.id))
        round.decision.waits = Waiter(SYNC, member.id)
        if member.id == self.leader:
            self._assign(round, command.assignments)
        return round.decision

    def _assign(self, round: Round[Assigned], assignments: dict[str, bytes]) -> None:
        waiting = list(round.state.syncing)
        round.emit(GroupSaved(self.id, round.state.snapshot(round.moment.wall_ms, assignments)))
        for member_id in waiting:
            round.reply(SYNC, member_id, self._assigned(assignments.get(member_id, b"")))

    def _assigned(self, assignment: bytes) -> Assigned:
        assert self.protocol_type is not None and self.protocol is not None
        return Assigned(self.protocol_type, self.protocol, assignment)

    def _check_generation(self, generation: int) -> None:
        if generation != self.generation:
            raise StaleGeneration(f"group {self.id!r} is at generation {self.generation}, not {generation}")

    # -- staying and leaving

    def decide_heartbeat(
        self, member_id: str, instance_id: str | None, generation: int, moment: Moment
    ) -> Decision[None]:
        """Renew a member's session; while a round is open the member is told to rejoin."""
        self._check_member(member_id, instance_id)
        self._check_generation(generation)
        decision: Decision[None] = Decision(self.decide_seen(member_id, moment))
        if self.state is ClassicState.PREPARING:
            decision.answer = Rebalancing(f"group {self.id!r} is rebalancing")
        return decision

    def decide_seen(self, member_id: str, moment: Moment) -> list[Any]:
        member = self.members.get(member_id)
        if member is None or member_id in self.newcomers:
            return []
        return [Touched(self.id, member_id, moment.now_ms + member.session_ms)]

    def decide_leave(
        self, commands: list[LeaveCommand], moment: Moment
    ) -> Decision[list[BrokerError | None]]:
        """Members leave. The response is None or an error for each of them."""
        round: Round[list[BrokerError | None]] = Round(self, self._limits, moment)
        outcomes: list[BrokerError | None] = []
        for command in commands:
            try:
                _leave(round, command, self)
                outcomes.append(None)
            except BrokerError as error:
                outcomes.append(error)
        if round.decision.events:
            self._after_losses(round)
        round.decision.answer = outcomes
        return round.decision

    # -- time

    def decide_tick(self, moment: Moment) -> Decision[None]:
        """Expire unused member ids, sessions, members that did not fetch their assignment, and rounds."""
        round: Round[None] = Round(self, self._limits, moment)
        state, now_ms = round.state, moment.now_ms
        for member_id in [one for one, deadline_ms in self.pending.items() if deadline_ms <= now_ms]:
            round.emit(PendingGone(self.id, member_id))
        for member_id in [one for one, deadline_ms in self.deadlines.items() if deadline_ms <= now_ms]:
            self._expire(round, member_id)
        syncs_are_due = self.sync_deadline_ms <= now_ms
        if syncs_are_due:
            for member_id in list(state.unsynced):
                round.drop(member_id)
        self._after_losses(round)
        if state.state is ClassicState.PREPARING and state.round_deadline_ms <= now_ms:
            round.close()
        round.emit(Woken(self.id, _next_deadline_ms(state, syncs_are_due), syncs_are_due))
        return round.decision

    def _after_losses(self, round: Round[Any]) -> None:
        """After members or pending ids were removed: open a round, or close the open one if it is complete."""
        if round.state.state is ClassicState.PREPARING:
            round.gather(has_grown=False)
            round.close_if_complete()
        elif len(round.state.members) < len(self.members):
            round.open()

    def _expire(self, round: Round[None], member_id: str) -> None:
        """Expire a session, unless the member has a call parked here: then it is alive."""
        waits = member_id in self.joining or member_id in self.syncing
        if waits and member_id not in self.newcomers:
            deadline_ms = round.moment.now_ms + self.members[member_id].session_ms
            round.emit(Touched(self.id, member_id, deadline_ms))
        else:
            round.drop(member_id)

    def decide_revive(self, moment: Moment) -> Decision[None]:
        """After a restart every member has a full session timeout to reconnect."""
        members = self.members.values()
        return Decision([Touched(self.id, one.id, moment.now_ms + one.session_ms) for one in members])

    # -- administration

    def decide_remove(self) -> list[Any]:
        if self.state is not ClassicState.EMPTY:
            raise GroupNotEmpty(f"group {self.id!r} is not empty, it is {self.state.value}")
        return [GroupRemoved(self.id)]

    def check_commit(
        self, member_id: str, epoch: int, instance_id: str | None, *, transactional: bool
    ) -> None:
        """Members commit in their generation; an empty group accepts commits without a generation.

        So does any group from a transaction: older versions of that API cannot name the member.
        """
        if self.state is ClassicState.EMPTY and epoch < 0:
            return
        if epoch >= 0 or member_id or instance_id is not None:
            self._check_member(member_id, instance_id)
            self._check_generation(epoch)
        elif not transactional:
            raise UnknownMember(f"group {self.id!r} has members, so only they may commit offsets")
        if self.state is ClassicState.COMPLETING and not transactional:
            raise Rebalancing(f"group {self.id!r} is waiting for its assignment")

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Any client may read the offsets of a classic group."""

    def check_remove_offsets(self) -> None:
        if self.state is not ClassicState.EMPTY and self.protocol_type != CONSUMERS:
            raise GroupNotEmpty(f"group {self.id!r} has members whose subscriptions are unknown")

    def is_subscribed(self, topic: str) -> bool:
        if self.state is ClassicState.EMPTY or self.protocol_type != CONSUMERS:
            return False
        return self.topics is None or topic in self.topics

    def offsets_expire_from_ms(self, topic: str, commit_ms: int) -> int | None:
        """Offsets expire from when the group became empty, or from their commit if no member is subscribed."""
        if self.protocol_type is None:
            return commit_ms
        if self.state is ClassicState.EMPTY:
            return max(commit_ms, self.saved.since_ms if self.saved is not None else commit_ms)
        is_known = (
            self.state is ClassicState.STABLE and self.topics is not None and self.protocol_type == CONSUMERS
        )
        return commit_ms if is_known and not self.is_subscribed(topic) else None


def _protocols(command: JoinCommand) -> tuple[Protocol, ...]:
    """The protocols without duplicates, in order."""
    first = {one.name: one for one in reversed(command.protocols)}
    return tuple(first[name] for name in dict.fromkeys(one.name for one in command.protocols))


def _member(command: JoinCommand, member_id: str, assignment: bytes = b"") -> ClassicGroupMember:
    return ClassicGroupMember(
        id=member_id,
        instance_id=command.instance_id,
        client_id=command.client_id,
        client_host=command.client_host,
        session_ms=command.session_ms,
        rebalance_ms=command.rebalance_ms,
        protocols=_protocols(command),
        assignment=assignment,
    )


def _session_end(member: ClassicGroupMember, moment: Moment, is_new: bool) -> int:
    return moment.now_ms + (GROUP_NEWCOMER_MS if is_new else member.session_ms)


def _enter(round: Round[Joined], member: ClassicGroupMember, command: JoinCommand) -> Decision[Joined]:
    deadline_ms = _session_end(member, round.moment, True)
    round.emit(MemberPut(round.state.id, member, command.protocol_type, deadline_ms, is_new=True))
    round.gather(has_grown=True)
    return _await_join(round, member.id)


def _await_join(round: Round[Joined], member_id: str) -> Decision[Joined]:
    """The member joins the round, which opens if needed, and waits until it closes."""
    round.decision.waits = Waiter(JOIN, member_id)
    if round.state.state is not ClassicState.PREPARING:
        round.open()
    round.emit(JoinAwaited(round.state.id, member_id))
    round.close_if_complete()
    return round.decision


def _leave(round: Round[Any], command: LeaveCommand, group: Group) -> None:
    state = round.state
    if not command.member_id and command.instance_id is not None:
        holder = state.statics.get(command.instance_id)
        if holder is None:
            raise UnknownMember(f"group {state.id!r} has no static member {command.instance_id!r}")
        round.drop(holder)
        return
    if command.member_id in state.pending and command.instance_id is None:
        round.emit(PendingGone(state.id, command.member_id))
        return
    group._check_member(command.member_id, command.instance_id)
    if command.member_id not in state.members:
        raise UnknownMember(f"member {command.member_id!r} was removed by an earlier entry of this request")
    round.drop(command.member_id)


def _next_deadline_ms(state: GroupState, syncs_are_done: bool) -> int:
    sync_deadline_ms = NEVER_MS if syncs_are_done else state.sync_deadline_ms
    return min(state.round_deadline_ms, sync_deadline_ms, *state.pending.values(), *state.deadlines.values())
