"""One member on its way to its target: give up first, be given later. Pure; never decides for another member.

STABLE      target epoch is newer        → next step
UNREVOKED   member still owns some       → waits
            member has given all up      → next step, one epoch on
UNRELEASED  at every heartbeat           → next step

next step   something to give up         → UNREVOKED, epoch as it was
            all of the target is there   → STABLE at the target epoch
            others still hold some of it → UNRELEASED at the target epoch, with what is free
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.core.machines.consumer_group.assignors import Assignment
from penstock.core.machines.consumer_group.events import CurrentAssignment, MemberState, assignment_of

IsFree = Callable[[bytes, int], bool]
"""Does no other member hold this partition?"""

_NONE: frozenset[int] = frozenset()


def reconcile(
    current: CurrentAssignment,
    target_epoch: int,
    target: Assignment,
    owned: Assignment | None,
    is_free: IsFree,
) -> CurrentAssignment:
    """Where the member stands after this heartbeat. `owned` is what it says it has; None means that it does not say."""
    match current.state:
        case MemberState.STABLE:
            if current.epoch == target_epoch:
                return current
            return _next_step(current, current.epoch, target_epoch, target, owned, is_free)
        case MemberState.UNREVOKED:
            if _owns_any(owned, current.revoking):
                return current
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
    giving_up = assignment_of(revoking)
    if giving_up and _owns_any(owned, giving_up):
        return _moved(current, epoch, MemberState.UNREVOKED, assignment_of(keeping), giving_up)
    for topic, partitions in coming.items():
        keeping[topic] |= partitions
    state = MemberState.UNRELEASED if is_waiting else MemberState.STABLE
    return _moved(current, target_epoch, state, assignment_of(keeping), {})


def _moved(
    current: CurrentAssignment, epoch: int, state: MemberState, assigned: Assignment, revoking: Assignment
) -> CurrentAssignment:
    previous_epoch = current.previous_epoch if epoch == current.epoch else current.epoch
    return CurrentAssignment(epoch, previous_epoch, state, assigned, revoking)


def _owns_any(owned: Assignment | None, some: Assignment) -> bool:
    if owned is None:
        return True
    return any(not partitions.isdisjoint(owned.get(topic, _NONE)) for topic, partitions in some.items())
