"""Converts a consumer group back to a classic one, once only classic members are left. Pure; never fails."""

from __future__ import annotations

from typing import Any

from penstock.core.machine import Moment
from penstock.core.machines.classic_group.values import (
    CONSUMERS,
    GroupSaved,
    RoundOpened,
    SavedGroup,
    SavedMember,
    Touched,
)
from penstock.core.machines.consumer_group.events import (
    ConsumerGroupMember,
    CurrentAssignmentSet,
    GroupEpochSet,
    MemberSet,
    RegexSet,
    TargetEpochSet,
    TargetSet,
)
from penstock.core.machines.consumer_group.state import ConsumerGroupState


def downgrade(state: ConsumerGroupState, moment: Moment) -> list[Any]:
    """Delete the consumer group's records and save a classic group that is about to rebalance.

    The group's epoch becomes its generation. No member was ever in it, so each must rejoin, even if the node restarts
    in between; until then no assignment is valid.
    """
    members = dict(sorted(state.members.items()))
    protocol = shared_protocols(members)[0]
    saved = SavedGroup(
        protocol_type=CONSUMERS,
        generation=state.epoch,
        protocol=protocol,
        leader=next(iter(members)),
        since_ms=moment.wall_ms,
        members=tuple(_saved(member_id, member, protocol) for member_id, member in members.items()),
    )
    rebalance_ms = max(member.rebalance_ms for member in members.values())
    return [
        *_traces(state),
        GroupSaved(state.id, saved),
        *(Touched(state.id, one.id, moment.now_ms + one.session_ms) for one in saved.members),
        RoundOpened(state.id, moment.now_ms, moment.now_ms + rebalance_ms, is_initial=False),
    ]


def shared_protocols(members: dict[str, ConsumerGroupMember]) -> list[str]:
    """The protocols that all classic members support, in the first one's order of preference."""
    sides = [member.classic for member in members.values() if member.classic is not None]
    known = [[name for name, _ in side.protocols] for side in sides]
    return [name for name in known[0] if all(name in names for names in known)] if known else []


def _saved(member_id: str, member: ConsumerGroupMember, protocol: str) -> SavedMember:
    assert member.classic is not None, member_id
    return SavedMember(
        id=member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_ms=member.rebalance_ms,
        session_ms=member.classic.session_ms,
        subscription=dict(member.classic.protocols)[protocol],
        assignment=b"",
    )


def _traces(state: ConsumerGroupState) -> list[Any]:
    """Tombstones for all persisted state; the group epoch, which proves that the group existed, goes last."""
    events: list[Any] = []
    for member_id in sorted(state.members.keys() | state.current_assignments.keys() | state.targets.keys()):
        events += (
            CurrentAssignmentSet(state.id, member_id, None),
            TargetSet(state.id, member_id, None),
            MemberSet(state.id, member_id, None),
        )
    events += [RegexSet(state.id, regex, None) for regex in sorted(state.regexes)]
    return [*events, TargetEpochSet(state.id, None), GroupEpochSet(state.id, None)]
