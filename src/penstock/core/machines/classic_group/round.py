"""A decision about a classic group in progress: events apply to a draft, so that each step sees the earlier ones.

Shared by several commands: how a rebalance round opens, waits, closes and elects a leader. Never writes to the group.
"""

from __future__ import annotations

from typing import Any, Generic

from penstock.core.errors import FencedInstance, Rebalancing, UnknownMember
from penstock.core.limits import GROUP_COMING_MS
from penstock.core.machine import AnswerT, Decision, Moment, Waiter
from penstock.core.machines.classic_group.state import NEXT, ClassicState, GroupState
from penstock.core.machines.classic_group.values import (
    JOIN,
    SYNC,
    GroupLimits,
    GroupSaved,
    Joined,
    JoinedMember,
    MemberGone,
    RoundClosed,
    RoundMoved,
    RoundOpened,
    SavedGroup,
)


class Round(Generic[AnswerT]):
    """One decision: `state` is the draft, `decision` the result so far."""

    def __init__(self, group: GroupState, limits: GroupLimits, moment: Moment) -> None:
        self.state = group.draft()
        self.limits = limits
        self.moment = moment
        self.decision: Decision[AnswerT] = Decision()

    def emit(self, event: Any) -> None:
        before = self.state.state
        self.decision.events.append(event)
        self.state.apply(event)
        after = self.state.state
        assert after is before or (before, after) in NEXT, f"{event} moves a group from {before} to {after}"

    def reply(self, slot: str, member_id: str, answer: Any) -> None:
        self.decision.replies.append((Waiter(slot, member_id), answer))

    # -- leaving members

    def drop(self, member_id: str) -> None:
        """Remove a member and respond to its parked calls."""
        state = self.state
        if member_id in state.joining:
            self.reply(
                JOIN, member_id, UnknownMember(f"member {member_id!r} was dropped from group {state.id!r}")
            )
        if member_id in state.syncing:
            self.reply(
                SYNC, member_id, UnknownMember(f"member {member_id!r} was dropped from group {state.id!r}")
            )
        self.emit(MemberGone(state.id, member_id))

    def fence(self, member_id: str) -> None:
        """Respond to the parked calls of a static member that was replaced."""
        state = self.state
        for slot, waiting in ((JOIN, state.joining), (SYNC, state.syncing)):
            if member_id in waiting:
                self.reply(
                    slot, member_id, FencedInstance(f"another member has taken over from {member_id!r}")
                )

    # -- the round

    def open(self) -> None:
        """All members must rejoin. An empty group first waits for members that start together."""
        state = self.state
        for member_id in list(state.syncing):
            self.reply(SYNC, member_id, Rebalancing(f"group {state.id!r} has begun to rebalance"))
        self._open(is_initial=state.state is ClassicState.EMPTY)
        if state.round_is_initial:
            self.gather(has_grown=True)
        else:
            self.close_if_complete()

    def _open(self, *, is_initial: bool) -> None:
        now_ms = self.moment.now_ms
        self.emit(RoundOpened(self.state.id, now_ms, now_ms + self._rebalance_ms(), is_initial))

    def gather(self, *, has_grown: bool) -> None:
        """Schedule the end of the first round; other rounds are not affected.

        It closes a quiet period after the last new member, so that a single member is not delayed for long. Static
        members belong to deployments whose processes start together, so the period is longer if there is one. An
        assigned id announces a member: the round waits for it, but not forever, because its client may have died.
        """
        state, now_ms = self.state, self.moment.now_ms
        if not state.round_is_initial:
            return
        quiet_ms = now_ms + self._quiet_period_ms() if has_grown else state.round_quiet_ms
        coming_ms = min(max(state.coming.values(), default=0), state.round_opened_ms + GROUP_COMING_MS)
        deadline_ms = min(max(quiet_ms, coming_ms), state.round_limit_ms)
        if (quiet_ms, deadline_ms) != (state.round_quiet_ms, state.round_deadline_ms):
            self.emit(RoundMoved(state.id, quiet_ms, deadline_ms))

    def _quiet_period_ms(self) -> int:
        period_ms, static_ms = self.limits.initial_rebalance_ms, self.limits.initial_rebalance_static_ms
        return max(period_ms, static_ms) if self.state.statics else period_ms

    def _rebalance_ms(self) -> int:
        return max((one.rebalance_ms for one in self.state.members.values()), default=0)

    def close_if_complete(self) -> None:
        """Close the round once all known members have joined; the first round of a group waits for its deadline."""
        state = self.state
        if not state.round_is_initial and not state.pending and len(state.joining) == len(state.members):
            self.close()

    def close(self) -> None:
        """Begin the next generation with the joined members; dynamic members that have not joined are removed."""
        state = self.state
        for member in list(state.members.values()):
            if member.instance_id is None and member.id not in state.joining:
                self.drop(member.id)
        if not state.members:
            self._become_empty()
        elif not state.joining:
            self._open(is_initial=False)
        else:
            self._begin_generation()

    def _become_empty(self) -> None:
        state = self.state
        saved = SavedGroup(
            state.protocol_type or "", state.generation + 1, None, None, self.moment.wall_ms, ()
        )
        self.emit(GroupSaved(state.id, saved))

    def _begin_generation(self) -> None:
        state = self.state
        leader = state.leader if state.leader in state.joining else next(iter(state.joining))
        assert leader is not None
        joined = list(state.joining)
        sync_deadline_ms = self.moment.now_ms + self._rebalance_ms()
        self.emit(
            RoundClosed(
                state.id,
                state.generation + 1,
                choose_protocol(state),
                leader,
                self.moment.now_ms,
                sync_deadline_ms,
            )
        )
        for member_id in joined:
            self.reply(JOIN, member_id, joined_answer(state, member_id))


def joined_answer(state: GroupState, member_id: str, *, skip_assignment: bool = False) -> Joined:
    """The join response for a member of the current generation; only the leader gets the member list."""
    assert state.protocol_type is not None and state.protocol is not None and state.leader is not None
    members: tuple[JoinedMember, ...] = ()
    if member_id == state.leader:
        members = tuple(
            JoinedMember(one.id, one.instance_id, one.metadata_for(state.protocol))
            for one in state.members.values()
        )
    return Joined(
        member_id,
        state.generation,
        state.protocol_type,
        state.protocol,
        state.leader,
        members,
        skip_assignment and member_id == state.leader,
    )


def choose_protocol(state: GroupState) -> str:
    """Each member votes for its first protocol that all support; the first member's preference breaks ties."""
    total = len(state.members)
    common = {name for name, count in state.votes.items() if count == total}
    assert common, f"group {state.id!r} has members without a protocol in common"
    ballots: dict[str, int] = {}
    for member in state.members.values():
        vote = next(one.name for one in member.protocols if one.name in common)
        ballots[vote] = ballots.get(vote, 0) + 1
    first = next(iter(state.members.values()))
    preference = {one.name: place for place, one in reversed(list(enumerate(first.protocols)))}
    return min(ballots, key=lambda name: (-ballots[name], preference[name]))
