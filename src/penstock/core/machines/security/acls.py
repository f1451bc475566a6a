"""Decisions about ACLs: create, delete, describe. Takes what Kafka's requests contain, numbers included."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple, TypeVar

from penstock.core.errors import InvalidRequest
from penstock.core.machines.security.events import AclRemoved, AclSaved
from penstock.core.machines.security.security_decision import SecurityDecision
from penstock.core.machines.security.state import SecurityState
from penstock.core.security.acl import (
    Acl,
    AclFilter,
    AclOperation,
    AclResourceType,
    PatternType,
    Permission,
    check_acl,
)
from penstock.core.security.entry_error import EntryError, EntryErrorCode, invalid_entry
from penstock.core.security.security_limits import ACL_REMOVALS_MAX, ACLS_MAX

ResourcePattern = tuple[AclResourceType, PatternType, str]
"""What ACLs are listed by: the first fields of each."""

_Number = TypeVar("_Number", bound=IntEnum)


class AclCreation(NamedTuple):
    """An ACL that a client wants. Numbers are what it sent, valid or not."""

    resource_type: int
    pattern: int
    name: str
    principal: str
    host: str
    operation: int
    permission: int


class AclSelection(NamedTuple):
    """A filter that a client sent. Numbers as above; None matches everything."""

    resource_type: int
    pattern: int
    name: str | None
    principal: str | None
    host: str | None
    operation: int
    permission: int


def decide_create_acls(
    state: SecurityState, creations: Sequence[AclCreation]
) -> SecurityDecision[list[EntryError | None]]:
    """Create ACLs; there is one result for each, None for success. An ACL that exists is a success."""
    events: dict[Acl, AclSaved] = {}
    results: list[EntryError | None] = []
    for creation in creations:
        acl = parse_acl(creation)
        error = acl if isinstance(acl, EntryError) else None
        if isinstance(acl, Acl) and acl not in state.acls and acl not in events:
            if len(state.acls) + len(events) >= ACLS_MAX:
                error = EntryError(
                    EntryErrorCode.POLICY_VIOLATION,
                    f"The limit of {ACLS_MAX} ACLs is reached; delete some, or replace several by a prefixed one",
                )
            else:
                events[acl] = AclSaved(acl)
        results.append(error)
    return SecurityDecision(list(events.values()), results)


def decide_delete_acls(
    state: SecurityState, selections: Sequence[AclSelection]
) -> SecurityDecision[list[list[Acl] | EntryError]]:
    """Delete what filters select; the results list the ACLs of each, which may overlap. Raises InvalidRequest if they
    are too many for one request."""
    removed: dict[Acl, AclRemoved] = {}
    results: list[list[Acl] | EntryError] = []
    for selection in selections:
        wanted = parse_filter(selection)
        if isinstance(wanted, EntryError):
            results.append(wanted)
            continue
        found = list(state.acls.matching(wanted))
        removed |= {acl: AclRemoved(acl) for acl in found}
        if len(removed) > ACL_REMOVALS_MAX:
            raise InvalidRequest(
                f"Cannot remove more than {ACL_REMOVALS_MAX} acls in a single delete operation."
            )
        results.append(found)
    return SecurityDecision(list(removed.values()), results)


def describe_acls(state: SecurityState, selection: AclSelection) -> dict[ResourcePattern, list[Acl]]:
    """The ACLs that a filter selects, by resource pattern. Raises InvalidRequest."""
    wanted = parse_filter(selection)
    if isinstance(wanted, EntryError):
        raise InvalidRequest(wanted.message)
    found: dict[ResourcePattern, list[Acl]] = {}
    for acl in state.acls.matching(wanted):
        found.setdefault(acl[:3], []).append(acl)
    return found


def parse_acl(creation: AclCreation) -> Acl | EntryError:
    """The ACL, or the reason why it cannot be created."""
    resource_type = _member(AclResourceType, creation.resource_type)
    pattern = _member(PatternType, creation.pattern)
    operation = _member(AclOperation, creation.operation)
    permission = _member(Permission, creation.permission)
    if resource_type is None:
        return invalid_entry("Invalid resourceType UNKNOWN")
    if pattern is None:
        return invalid_entry("Invalid patternType UNKNOWN")
    if operation is None:
        return invalid_entry("Invalid operation UNKNOWN")
    if permission is None:
        return invalid_entry("Invalid permissionType UNKNOWN")
    acl = Acl(resource_type, pattern, creation.name, creation.principal, creation.host, operation, permission)
    return check_acl(acl) or acl


def parse_filter(selection: AclSelection) -> AclFilter | EntryError:
    """The filter, or the reason why it is invalid."""
    resource_type = _member(AclResourceType, selection.resource_type)
    pattern = _member(PatternType, selection.pattern)
    operation = _member(AclOperation, selection.operation)
    permission = _member(Permission, selection.permission)
    if resource_type is None or pattern is None:
        return invalid_entry("Unknown patternFilter.")
    if operation is None or permission is None:
        return invalid_entry("Unknown entryFilter.")
    return AclFilter(
        resource_type, pattern, selection.name, selection.principal, selection.host, operation, permission
    )


def _member(kind: type[_Number], number: int) -> _Number | None:
    try:
        return kind(number)
    except ValueError:
        return None
