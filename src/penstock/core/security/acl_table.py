"""All ACLs, indexed by resource pattern, principal and host. Finds the ACLs that apply; decision.py decides.

A lookup visits the literal name, one prefix per distinct length of the prefixed patterns, and the wildcard: its cost
does not depend on the number of ACLs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock.core.security.acl import (
    EVERY_PRINCIPAL,
    WILDCARD,
    Acl,
    AclFilter,
    AclResourceType,
    PatternType,
    canonical_host,
)

_Pattern = tuple[int, int, str]
_ByHost = dict[str, dict[Acl, None]]


class AclTable:
    """A set of ACLs. `version` changes with every change, so that decisions can be cached."""

    __slots__ = ("_acls", "_by_principal", "_lengths", "_patterns", "_prefix_counts", "version")

    def __init__(self, acls: Iterable[Acl] = ()) -> None:
        self.version = 0
        self._acls: dict[Acl, None] = {}
        self._patterns: dict[_Pattern, dict[str, _ByHost]] = {}
        self._by_principal: dict[tuple[int, str], dict[Acl, str]] = {}
        """The ACLs of a principal for each resource type, with their hosts in the form in which they are compared."""
        self._prefix_counts: dict[int, dict[int, int]] = {}
        """How many prefixed patterns of each length a resource type has."""
        self._lengths: dict[int, tuple[int, ...]] = {}
        """The same lengths, the longest first."""
        for acl in acls:
            self.add(acl)

    def __len__(self) -> int:
        return len(self._acls)

    def __iter__(self) -> Iterator[Acl]:
        return iter(self._acls)

    def __contains__(self, acl: object) -> bool:
        return acl in self._acls

    # --- writing ---

    def add(self, acl: Acl) -> None:
        """Add an ACL; nothing happens if it is there already."""
        if acl in self._acls:
            return
        self.version += 1
        self._acls[acl] = None
        pattern = _pattern_of(acl)
        if pattern not in self._patterns:
            self._count(acl, 1)
        host = canonical_host(acl.host)
        self._patterns.setdefault(pattern, {}).setdefault(acl.principal, {}).setdefault(host, {})[acl] = None
        self._by_principal.setdefault((acl.resource_type, acl.principal), {})[acl] = host

    def remove(self, acl: Acl) -> None:
        """Remove this ACL and no other; nothing happens if it is not there."""
        if acl not in self._acls:
            return
        self.version += 1
        del self._acls[acl]
        pattern, host = _pattern_of(acl), canonical_host(acl.host)
        principals = self._patterns[pattern]
        by_host = principals[acl.principal]
        del by_host[host][acl]
        if not by_host[host]:
            del by_host[host]
        if not by_host:
            del principals[acl.principal]
        if not principals:
            del self._patterns[pattern]
            self._count(acl, -1)
        owned = self._by_principal[acl.resource_type, acl.principal]
        del owned[acl]
        if not owned:
            del self._by_principal[acl.resource_type, acl.principal]

    def copy(self) -> AclTable:
        """An independent table with the same ACLs and version."""
        copied = AclTable(self._acls)
        copied.version = self.version
        return copied

    def _count(self, acl: Acl, change: int) -> None:
        if acl.pattern != PatternType.PREFIXED:
            return
        counts = self._prefix_counts.setdefault(acl.resource_type, {})
        length = len(acl.name)
        counts[length] = counts.get(length, 0) + change
        if not counts[length]:
            del counts[length]
        self._lengths[acl.resource_type] = tuple(sorted(counts, reverse=True))

    # --- reading ---

    def applicable(self, resource_type: int, name: str, principal: str, host: str) -> Iterator[Acl]:
        """ACLs of this principal, or of everybody, at this host on a resource: the most specific pattern first."""
        where = (canonical_host(host), WILDCARD)
        who = (principal, EVERY_PRINCIPAL) if principal != EVERY_PRINCIPAL else (principal,)
        for principals in self._covering(resource_type, name):
            for one in who:
                by_host = principals.get(one)
                if by_host is not None:
                    for place in where:
                        yield from by_host.get(place, ())

    def related(self, resource_type: int, name: str) -> Iterator[Acl]:
        """All ACLs whose pattern covers a resource, whomever they are for."""
        for principals in self._covering(resource_type, name):
            for by_host in principals.values():
                for acls in by_host.values():
                    yield from acls

    def of_principal(self, resource_type: int, principal: str, host: str) -> Iterator[Acl]:
        """ACLs of this principal, or of everybody, at this host on resources of a type."""
        where = (canonical_host(host), WILDCARD)
        who = (principal, EVERY_PRINCIPAL) if principal != EVERY_PRINCIPAL else (principal,)
        for one in who:
            for acl, place in self._by_principal.get((resource_type, one), {}).items():
                if place in where:
                    yield acl

    def hosts_of(self, resource_type: int, principal: str) -> set[str]:
        """The hosts that ACLs of this principal, or of everybody, name."""
        owned = (self._by_principal.get((resource_type, one), ()) for one in (principal, EVERY_PRINCIPAL))
        return {acl.host for acls in owned for acl in acls} - {WILDCARD}

    def matching(self, wanted: AclFilter) -> Iterator[Acl]:
        """The ACLs that a filter selects. Filters with a principal or a name of a resource do not scan all ACLs."""
        if wanted == AclFilter():
            return iter(self._acls)
        return (acl for acl in self._candidates(wanted) if wanted.matches(acl))

    def _candidates(self, wanted: AclFilter) -> Iterable[Acl]:
        types = [wanted.resource_type]
        if wanted.resource_type == AclResourceType.ANY:
            types = [one for one in AclResourceType if one != AclResourceType.ANY]
        if wanted.principal is not None:
            found = (self._by_principal.get((one, wanted.principal), ()) for one in types)
            return (acl for acls in found for acl in acls)
        if wanted.name is not None:
            # A pattern with exactly this name covers it, whatever its type: no candidate is missed.
            name = wanted.name
            return (acl for one in types for acl in self.related(one, name))
        return self._acls

    def _covering(self, resource_type: int, name: str) -> Iterator[dict[str, _ByHost]]:
        """ACLs by principal and host of each pattern that covers a name."""
        patterns = self._patterns
        found = patterns.get((resource_type, PatternType.LITERAL, name))
        if found is not None:
            yield found
        for length in self._lengths.get(resource_type, ()):
            if length <= len(name):
                found = patterns.get((resource_type, PatternType.PREFIXED, name[:length]))
                if found is not None:
                    yield found
        if name != WILDCARD:
            found = patterns.get((resource_type, PatternType.LITERAL, WILDCARD))
            if found is not None:
                yield found


def _pattern_of(acl: Acl) -> _Pattern:
    return acl.resource_type, acl.pattern, acl.name
