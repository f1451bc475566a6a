"""Reconciles one member with its target: revoke first, assign later. Pure; never decides for another member.

STABLE      target epoch is newer        → next step
UNREVOKED   member still owns some       → waits
            member has revoked all       → next step, one epoch on
UNRELEASED  at every heartbeat           → next step

next step   something to revoke          → UNREVOKED, epoch unchanged
            all target partitions free   → STABLE at the target epoch
            others still own some        → UNRELEASED at the target epoch, with the free ones
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.core.machines.consumer_group.assignors import Assignment
from penstock.core.machines.consumer_group.events import CurrentAssignment, MemberState, assignment_of

IsFree = Callable[[bytes, int], bool]
"""Whether no other member owns this partition."""

_NONE: frozenset[int] = frozenset()


def reconcile(
    current: CurrentAssignment,
    target_epoch: int,
    target: Assignment,
    owned: Assignment | None,
    is_free: IsFree,
) -> CurrentAssignment:
    """The member's state after this heartbeat. `owned` is what it reports; None means that it reports nothing."""
    match current.state:
        case MemberState.STABLE:
            if current.epoch == target_epoch:
                return current
            return _next_step(current, current.epoch, target_epoch, target, owned, is_free)
        case MemberState.UNREVOKED:
            if _owns_any(owned, current.revoking):
                return current
            # The bump fences a late duplicate of an earlier heartbeat, which still reports the revoked partitions. The
            # target epoch is for members that have nothing left to revoke.
            return _next_step(current, current.epoch + 1, target_epoch, target, owned, is_free)
        case MemberState.UNRELEASED:
            return _next_step(current, current.epoch, target_epoch, target, owned, is_free)


def _next_step(
    current: CurrentAssignment,
    epoch: int,
    target_epoch: int,
    target: Assignment,
    owned: Assignment | None,
    is_free: IsFree,
) -> CurrentAssignment:
    keeping: dict[bytes, set[int]] = {}
    revoking: dict[bytes, set[int]] = {}
    coming: dict[bytes, set[int]] = {}
    is_waiting = False
    for topic in sorted(target.keys() | current.assigned.keys()):
        wanted, has = target.get(topic, _NONE), current.assigned.get(topic, _NONE)
        keeping[topic] = set(has & wanted)
        revoking[topic] = set(has - wanted)
        coming[topic] = {partition for partition in wanted - has if is_free(topic, partition)}
        is_waiting = is_waiting or len(coming[topic]) < len(wanted - has)
    # Revocation comes first and adds nothing: a partition is free for its next owner only after this member has
    # acknowledged that it stopped reading it, so that no partition ever has two readers.
    giving_up = assignment_of(revoking)
    if giving_up and _owns_any(owned, giving_up):
        return _moved(current, epoch, MemberState.UNREVOKED, assignment_of(keeping), giving_up)
    for topic, partitions in coming.items():
        keeping[topic] |= partitions
    # UNRELEASED members are in the target epoch already: later heartbeats only collect partitions as they become free.
    state = MemberState.UNRELEASED if is_waiting else MemberState.STABLE
    return _moved(current, target_epoch, state, assignment_of(keeping), {})


def _moved(
    current: CurrentAssignment, epoch: int, state: MemberState, assigned: Assignment, revoking: Assignment
) -> CurrentAssignment:
    previous_epoch = current.previous_epoch if epoch == current.epoch else current.epoch
    return CurrentAssignment(epoch, previous_epoch, state, assigned, revoking)


def _owns_any(owned: Assignment | None, some: Assignment) -> bool:
    if owned is None:  # not reported means unchanged, so the member may still own everything
        return True
    return any(not partitions.isdisjoint(owned.get(topic, _NONE)) for topic, partitions in some.items())
