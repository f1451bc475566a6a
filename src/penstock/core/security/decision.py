"""The access decision: one pure function over a table of ACLs, with the reason as a value, and its explanation.

Super users may do everything. Else a DENY that applies decides, else an ALLOW that applies, else access is denied.
The semantics are those of Kafka's StandardAuthorizer.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from enum import StrEnum
from heapq import nsmallest
from typing import NamedTuple

from penstock.core.access import Operation, Resource
from penstock.core.printable import escape
from penstock.core.security.acl import WILDCARD, Acl, AclOperation, AclResourceType, PatternType, Permission
from penstock.core.security.acl_table import AclTable
from penstock.core.security.security_limits import RELATED_ACLS_MAX

IMPLIED_BY: Mapping[int, frozenset[AclOperation]] = {
    Operation.DESCRIBE: frozenset(
        {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({AclOperation.ALTER_CONFIGS}),
}
"""Operations that an ALLOW of another operation grants as well. A DENY implies nothing: who may not read a topic may
still be allowed to describe it."""


class AccessReason(StrEnum):
    """What a decision is based on."""

    SUPER_USER = "super user"
    ALLOWED_BY_ACL = "allowed by an ACL"
    DENIED_BY_ACL = "denied by an ACL"
    NO_ACL = "no ACL matches"


class AccessRequest(NamedTuple):
    """Who wants to do what, with which resource, from where."""

    principal: str
    host: str
    operation: Operation
    resource: Resource


class AccessDecision(NamedTuple):
    """Whether access is allowed, and why. `acl` is the one that decided."""

    is_allowed: bool
    reason: AccessReason
    acl: Acl | None = None


_SUPER_USER = AccessDecision(True, AccessReason.SUPER_USER)
_NO_ACL = AccessDecision(False, AccessReason.NO_ACL)


def decide_access(table: AclTable, super_users: Container[str], request: AccessRequest) -> AccessDecision:
    """Decide about one resource."""
    principal, host, operation, (resource_type, name) = request
    if principal in super_users:
        return _SUPER_USER
    allowing: Acl | None = None
    for acl in table.applicable(resource_type, name, principal, host):
        if acl.permission == Permission.DENY:
            if acl.operation in (operation, AclOperation.ALL):
                return AccessDecision(False, AccessReason.DENIED_BY_ACL, acl)
        elif allowing is None and _grants(acl, operation):
            allowing = acl
    if allowing is None:
        return _NO_ACL
    return AccessDecision(True, AccessReason.ALLOWED_BY_ACL, allowing)


def _grants(acl: Acl, operation: int) -> bool:
    return acl.operation in (operation, AclOperation.ALL) or acl.operation in IMPLIED_BY.get(operation, ())


def decide_any_access(
    table: AclTable,
    super_users: Container[str],
    principal: str,
    host: str,
    operation: int,
    resource_type: int,
) -> AccessDecision:
    """Decide whether there is any resource of a type on which the operation is allowed, existing or not.

    Producers that have not named a topic yet need this: WRITE on any topic permits idempotent writes. An ALLOW counts
    unless a DENY covers its whole pattern.
    """
    if principal in super_users:
        return _SUPER_USER
    allowing: list[Acl] = []
    denying: list[Acl] = []
    for acl in table.of_principal(resource_type, principal, host):
        if acl.permission == Permission.DENY:
            if acl.operation in (operation, AclOperation.ALL):
                denying.append(acl)
        elif _grants(acl, operation):
            allowing.append(acl)
    # The wildcard first, then the most general pattern: what is explained should be the plainest reason.
    allowing.sort(key=lambda one: (one.name != WILDCARD, -one.pattern, one))
    denial = next((one for one in denying if _is_everything(one)), None)
    if denial is not None:
        return AccessDecision(False, AccessReason.DENIED_BY_ACL, denial)
    literals = {one.name: one for one in denying if one.pattern == PatternType.LITERAL}
    prefixes = {one.name: one for one in denying if one.pattern == PatternType.PREFIXED}
    for acl in allowing:
        found = _dominating(acl, literals, prefixes)
        if found is None:
            return AccessDecision(True, AccessReason.ALLOWED_BY_ACL, acl)
        denial = denial or found
    return _NO_ACL if denial is None else AccessDecision(False, AccessReason.DENIED_BY_ACL, denial)


def _is_everything(acl: Acl) -> bool:
    return acl.pattern == PatternType.LITERAL and acl.name == WILDCARD


def _dominating(acl: Acl, literals: Mapping[str, Acl], prefixes: Mapping[str, Acl]) -> Acl | None:
    """The DENY that covers everything that this ALLOW covers."""
    if _is_everything(acl):
        return None
    if acl.pattern == PatternType.LITERAL and acl.name in literals:
        return literals[acl.name]
    ends = range(1, len(acl.name) + 1)
    return next((prefixes[acl.name[:end]] for end in ends if acl.name[:end] in prefixes), None)


def related_acls(table: AclTable, request: AccessRequest) -> list[Acl]:
    """Some ACLs on the resource that did not decide: the reader sees what is missing. Those of the principal first."""
    found = table.related(*request.resource)
    return nsmallest(RELATED_ACLS_MAX, found, key=lambda one: (one.principal != request.principal, one))


def explain_access(request: AccessRequest, decision: AccessDecision) -> str:
    """One line for people: the answer and its reason. Safe to print."""
    kind = AclResourceType(request.resource.type).name
    may = "may" if decision.is_allowed else "may not"
    asked = (
        f"{escape(request.principal)} {may} {request.operation.name} {kind} {escape(request.resource.name)!r}"
    )
    if decision.acl is not None:
        return f"{asked}: {decision.acl.text}"
    if decision.reason is AccessReason.SUPER_USER:
        return f"{asked}: {escape(request.principal)} is a super user"
    return f"{asked}: no ACL allows it, and what is not allowed is denied"
