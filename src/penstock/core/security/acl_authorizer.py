"""The authorizer of a node: decisions over its ACLs and super users, cached until an ACL changes.

Implements the protocol `Authorizer` of the waist. Super users are part of the node's settings and do not change.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.core.access import Operation, Resource, ResourceType
from penstock.core.errors import InvalidConfig
from penstock.core.security.acl import WILDCARD
from penstock.core.security.acl_table import AclTable
from penstock.core.security.bounded_cache import BoundedCache
from penstock.core.security.decision import AccessDecision, AccessRequest, decide_access, decide_any_access
from penstock.core.security.security_limits import DECISIONS_CACHED_MAX
from penstock.core.session import Session

_Key = tuple[str, str, Operation, Resource]


def parse_super_users(text: str) -> frozenset[str]:
    """Principals in the form of Kafka's `super.users`, as in `User:alice;User:CN=bob,O=org`. Raises InvalidConfig."""
    principals = [one.strip() for one in text.split(";") if one.strip()]
    for principal in principals:
        kind, _, name = principal.partition(":")
        if not kind or not name:
            raise InvalidConfig(
                f"super users: {principal!r} is not a principal; write a type and a name, as in User:alice"
            )
        if name == WILDCARD:
            raise InvalidConfig(
                f"super users: {principal!r} does not stand for everybody; name each super user"
            )
    return frozenset(principals)


class AclAuthorizer:
    """Decides for sessions. The cache is shared by all of them: clients of one service ask the same questions."""

    __slots__ = ("_any_cache", "_cache", "_table", "_version", "super_users")

    def __init__(
        self, table: AclTable, super_users: Iterable[str] = (), *, decisions_max: int = DECISIONS_CACHED_MAX
    ) -> None:
        self.super_users = frozenset(super_users)
        self._table = table
        self._version = table.version
        self._cache: BoundedCache[_Key, AccessDecision] = BoundedCache(decisions_max)
        self._any_cache: BoundedCache[tuple[str, str, Operation, ResourceType], AccessDecision] = (
            BoundedCache(decisions_max)
        )

    def allows(self, session: Session, operation: Operation, resource: Resource) -> bool:
        if self._version == self._table.version:
            found = self._cache.young.get((session.principal, session.address, operation, resource))
            if found is not None:
                return found[0]
        return self.decide(session, operation, resource).is_allowed

    def decide(self, session: Session, operation: Operation, resource: Resource) -> AccessDecision:
        """The decision with its reason, for the audit log."""
        self._drop_outdated()
        key = (session.principal, session.address, operation, resource)
        found = self._cache.get(key)
        if found is None:
            found = decide_access(self._table, self.super_users, AccessRequest(*key))
            self._cache.put(key, found)
        return found

    def decide_any(
        self, session: Session, operation: Operation, resource_type: ResourceType
    ) -> AccessDecision:
        """Whether the session may perform the operation on any resource of a type."""
        self._drop_outdated()
        key = (session.principal, session.address, operation, resource_type)
        found = self._any_cache.get(key)
        if found is None:
            found = decide_any_access(self._table, self.super_users, *key)
            self._any_cache.put(key, found)
        return found

    def _drop_outdated(self) -> None:
        if self._version != self._table.version:
            self._version = self._table.version
            self._cache.clear()
            self._any_cache.clear()
