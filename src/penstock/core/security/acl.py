"""ACLs as values, filters over them, and the form of hosts in which they are compared. Decides no access.

Names and numbers are Kafka's. `core/access` has the operations and resources that this broker asks about; ACLs name
more: everything, and resources that only Kafka's protocol knows.
"""

from __future__ import annotations

from enum import IntEnum
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple

from penstock.core.access import CLUSTER
from penstock.core.printable import escape
from penstock.core.security.entry_error import EntryError, EntryErrorCode, invalid_entry
from penstock.core.security.security_limits import ACL_TEXT_CHARS_MAX

WILDCARD = "*"
"""Every host, or every resource of a type."""

EVERY_PRINCIPAL = "User:*"
"""The principal of ACLs that apply to everybody, clients that did not authenticate included."""


class AclOperation(IntEnum):
    """Operations that ACLs and filters name: those of `access.Operation`, and a few more."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclResourceType(IntEnum):
    """Resource types that ACLs and filters name. Tokens and users are accepted from Kafka's tools and never asked
    about."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How an ACL names resources. ANY and MATCH occur in filters only."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """ANY occurs in filters only."""

    ANY = 1
    DENY = 2
    ALLOW = 3


class Acl(NamedTuple):
    """One rule. All of it is its identity: two ACLs that differ anywhere are two ACLs."""

    resource_type: AclResourceType
    pattern: PatternType
    name: str
    principal: str
    host: str
    operation: AclOperation
    permission: Permission

    def covers(self, name: str) -> bool:
        """Whether a resource of this type with this name falls under the pattern."""
        if self.pattern == PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD)

    @property
    def text(self) -> str:
        """The rule in one line, safe to print."""
        kind = self.resource_type.name
        if self.pattern == PatternType.PREFIXED:
            resources = f"every {kind} that starts with {escape(self.name)!r}"
        elif self.name == WILDCARD:
            resources = f"every {kind}"
        else:
            resources = f"{kind} {escape(self.name)!r}"
        host = "any host" if self.host == WILDCARD else f"host {escape(self.host)}"
        return f"{self.permission.name} {self.operation.name} on {resources} for {escape(self.principal)} from {host}"


class AclFilter(NamedTuple):
    """Selects ACLs. None and ANY match everything."""

    resource_type: AclResourceType = AclResourceType.ANY
    pattern: PatternType = PatternType.ANY
    name: str | None = None
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: Permission = Permission.ANY

    def matches(self, acl: Acl) -> bool:
        """With pattern MATCH the name is that of a resource, and every ACL that applies to it matches."""
        return (
            self.resource_type in (AclResourceType.ANY, acl.resource_type)
            and (self.pattern in (acl.pattern, PatternType.ANY, PatternType.MATCH))
            and (self.name is None or self._names(acl))
            and (self.principal in (None, acl.principal))
            and (self.host in (None, acl.host))
            and (self.operation in (AclOperation.ANY, acl.operation))
            and (self.permission in (Permission.ANY, acl.permission))
        )

    def _names(self, acl: Acl) -> bool:
        assert self.name is not None
        return acl.covers(self.name) if self.pattern == PatternType.MATCH else self.name == acl.name


def canonical_host(host: str) -> str:
    """The one form of an IP address; other text as it is.

    A client may connect as `::1`, as `::ffff:10.0.0.1` or with a zone, and Kafka writes `0:0:0:0:0:0:0:1`. A DENY must
    hit all of them.
    """
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)


def is_ip_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def check_acl(acl: Acl) -> EntryError | None:
    """The reason why this ACL cannot be created; None if it can. Messages are Kafka's where Kafka has one."""
    if acl.resource_type == AclResourceType.CLUSTER and acl.name != CLUSTER.name:
        return invalid_entry(f"The only valid name for the CLUSTER resource is {CLUSTER.name}")
    if not acl.name:
        return invalid_entry("Invalid empty resource name")
    for field, value in (
        ("resourceType", acl.resource_type),
        ("patternType", acl.pattern),
        ("operation", acl.operation),
        ("permissionType", acl.permission),
    ):
        if value.name in ("ANY", "MATCH"):
            return invalid_entry(f"Invalid {field} {value.name}")
    if ":" not in acl.principal:
        return invalid_entry(
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the principal type"
            " from the principal name)"
        )
    return _check_beyond_kafka(acl)


def _check_beyond_kafka(acl: Acl) -> EntryError | None:
    """Kafka accepts an ACL that can never apply. A DENY of that kind would protect nothing, so it is refused here."""
    principal_type, _, name = acl.principal.partition(":")
    if not principal_type or not name:
        return invalid_entry(f"The principal `{acl.principal}` needs a type and a name, as in User:alice")
    if acl.host != WILDCARD and not is_ip_address(acl.host):
        return invalid_entry(
            f"The host {acl.host!r} is neither an IP address nor '*': ACLs are compared with the address of a"
            " connection, and names are not resolved"
        )
    if len(acl.name) > ACL_TEXT_CHARS_MAX or len(acl.principal) > ACL_TEXT_CHARS_MAX:
        return EntryError(
            EntryErrorCode.POLICY_VIOLATION,
            f"Principal and resource name have at most {ACL_TEXT_CHARS_MAX} characters each",
        )
    return None
