"""Client quotas as values: entities, keys, bounds, and the quota that applies to a client. Measures nothing.

An entity is a user, a client id, both, or an IP address, each by name or as the default of its type. Names, bounds and
precedence are Kafka's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

from penstock.core.security.acl import canonical_host, is_ip_address
from penstock.core.security.bounded_cache import BoundedCache
from penstock.core.security.entry_error import EntryError, EntryErrorCode, invalid_entry
from penstock.core.security.security_limits import DECISIONS_CACHED_MAX, QUOTA_NAME_CHARS_MAX

FRACTION_MAX = 1e-6
"""How far an integral quota may be from an integer; Kafka's tolerance."""


class EntityType(StrEnum):
    """Parts of an entity, in the order in which an entity lists them."""

    USER = "user"
    CLIENT_ID = "client-id"
    IP = "ip"


class QuotaKey(StrEnum):
    """What a quota limits."""

    PRODUCER_BYTE_RATE = "producer_byte_rate"
    """Bytes per second of Produce requests."""
    CONSUMER_BYTE_RATE = "consumer_byte_rate"
    """Bytes per second of Fetch responses."""
    REQUEST_PERCENTAGE = "request_percentage"
    """Time of the broker for requests, in percent of one core."""
    CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
    """Partitions created or deleted per second."""
    CONNECTION_CREATION_RATE = "connection_creation_rate"
    """New connections per second from an address."""


CLIENT_KEYS: Mapping[QuotaKey, float | None] = {
    QuotaKey.PRODUCER_BYTE_RATE: float(2**63 - 1),
    QuotaKey.CONSUMER_BYTE_RATE: float(2**63 - 1),
    QuotaKey.REQUEST_PERCENTAGE: None,
    QuotaKey.CONTROLLER_MUTATION_RATE: None,
}
"""Keys of users and client ids, with the highest value of those that must be integers."""

IP_KEYS: Mapping[QuotaKey, float | None] = {QuotaKey.CONNECTION_CREATION_RATE: float(2**31 - 1)}
"""The same for addresses."""

_TYPE_NAMES = {float(2**63 - 1): "a LONG", float(2**31 - 1): "an INT"}


class QuotaEntity(NamedTuple):
    """Who a quota is for: names by type, in the order of EntityType. None is the default of the type."""

    parts: tuple[tuple[EntityType, str | None], ...]

    @property
    def names(self) -> dict[EntityType, str | None]:
        return dict(self.parts)

    @property
    def is_ip(self) -> bool:
        return self.parts[0][0] is EntityType.IP

    def __str__(self) -> str:
        """As Kafka prints it."""
        entries = ", ".join(f"{kind.value}={'null' if name is None else name}" for kind, name in self.parts)
        return f"ClientQuotaEntity(entries={{{entries}}})"


def sort_key(entity: QuotaEntity) -> list[tuple[str, bool, str]]:
    """Entities in a stable order; the default of a type before its names."""
    return [(kind, name is not None, name or "") for kind, name in entity.parts]


class AppliedQuota(NamedTuple):
    """The quota of a client. Clients with the same `meter` share it: a user quota counts all client ids together."""

    bound: float
    entity: QuotaEntity
    meter: tuple[str | None, str | None]


def quota_user(principal: str) -> str:
    """The user name of a principal, which quotas are for, whatever the type of the principal."""
    return principal.partition(":")[2]


def user_entity(user: str | None) -> QuotaEntity:
    return QuotaEntity(((EntityType.USER, user),))


def client_entity(client_id: str | None) -> QuotaEntity:
    return QuotaEntity(((EntityType.CLIENT_ID, client_id),))


def user_client_entity(user: str | None, client_id: str | None) -> QuotaEntity:
    return QuotaEntity(((EntityType.USER, user), (EntityType.CLIENT_ID, client_id)))


def ip_entity(ip: str | None) -> QuotaEntity:
    return QuotaEntity(((EntityType.IP, ip if ip is None else canonical_host(ip)),))


def parse_entity(parts: Iterable[tuple[str, str | None]]) -> QuotaEntity | EntryError:
    """The entity that a request names, or the reason why there is no such entity, in Kafka's words."""
    found: dict[EntityType, str | None] = {}
    for kind_text, name in parts:
        if kind_text not in list(EntityType):
            return invalid_entry(f"Unhandled client quota entity type: {kind_text}")
        kind = EntityType(kind_text)
        if kind in found:
            return invalid_entry(f"Invalid client quota entity, duplicate entity entry {kind_text}")
        if name == "":
            return invalid_entry(f"Empty {kind_text} not supported")
        if name is not None and len(name) > QUOTA_NAME_CHARS_MAX:
            return EntryError(
                EntryErrorCode.POLICY_VIOLATION,
                f"A {kind_text} has at most {QUOTA_NAME_CHARS_MAX} characters",
            )
        found[kind] = name
    if not found:
        return invalid_entry("Invalid empty client quota entity")
    ip = found.get(EntityType.IP)
    if EntityType.IP in found:
        if len(found) > 1:
            return invalid_entry(
                "Invalid quota entity combination, IP entity should not be combined with User or ClientId"
            )
        if ip is not None and not is_ip_address(ip):
            return invalid_entry(f"{ip} is not a valid IP or resolvable host.")
        return ip_entity(ip)
    return QuotaEntity(tuple((kind, found[kind]) for kind in EntityType if kind in found))


def check_quota(entity: QuotaEntity, key: str, value: float) -> EntryError | None:
    """The reason why an entity cannot have this quota; None if it can."""
    keys = IP_KEYS if entity.is_ip else CLIENT_KEYS
    if key not in keys:
        return invalid_entry(f"Invalid configuration key {key}")
    if not value > 0.0:
        return invalid_entry(f"Quota {key} must be greater than 0")
    highest = keys[QuotaKey(key)]
    if highest is None:
        return invalid_entry(f"Quota {key} must be a finite number") if math.isinf(value) else None
    if value > highest or math.isinf(value):
        return invalid_entry(f"Proposed value for {key} is too large for {_TYPE_NAMES[highest]}.")
    if math.fmod(value, 1.0) > FRACTION_MAX:
        return invalid_entry(f"{key} cannot be a fractional value.")
    return None


class QuotaTable:
    """All quotas. `version` changes with every change."""

    __slots__ = ("_applied", "_by_key", "_cached_version", "_entities", "version")

    def __init__(self, quotas: Mapping[QuotaEntity, Mapping[str, float]] | None = None) -> None:
        self.version = 0
        self._entities: dict[QuotaEntity, dict[str, float]] = {}
        self._by_key: dict[str, dict[QuotaEntity, float]] = {}
        self._applied: BoundedCache[tuple[str, str, str], AppliedQuota | bool] = BoundedCache(
            DECISIONS_CACHED_MAX
        )
        self._cached_version = 0
        for entity, values in (quotas or {}).items():
            self.put(entity, values)

    def __len__(self) -> int:
        return len(self._entities)

    def __iter__(self) -> Iterator[QuotaEntity]:
        return iter(self._entities)

    def of(self, entity: QuotaEntity) -> Mapping[str, float]:
        """The quotas of exactly this entity, by key."""
        return self._entities.get(entity, {})

    def put(self, entity: QuotaEntity, values: Mapping[str, float]) -> None:
        """Replace the quotas of an entity; none removes it."""
        self.version += 1
        for key in self._entities.pop(entity, {}):
            del self._by_key[key][entity]
        if values:
            self._entities[entity] = dict(values)
        for key, value in values.items():
            self._by_key.setdefault(key, {})[entity] = value

    def copy(self) -> QuotaTable:
        """An independent table with the same quotas and version."""
        copied = QuotaTable(self._entities)
        copied.version = self.version
        return copied

    def applied(self, key: QuotaKey, user: str, client_id: str | None) -> AppliedQuota | None:
        """The quota of a client, by the name of its user; None if nothing limits it."""
        if not self._by_key.get(key):
            return None
        if self._cached_version != self.version:
            self._applied.clear()
            self._cached_version = self.version
        asked = (key, user, client_id or "")
        found = self._applied.get(asked)
        if found is None:
            found = _most_specific(self._by_key[key], user, client_id or "") or False
            self._applied.put(asked, found)
        return found if isinstance(found, AppliedQuota) else None

    def connection_rate(self, ip: str) -> float | None:
        """The quota of an address for new connections; None if nothing limits it."""
        quotas = self._by_key.get(QuotaKey.CONNECTION_CREATION_RATE)
        if not quotas:
            return None
        own = quotas.get(ip_entity(ip))
        return quotas.get(ip_entity(None)) if own is None else own


def _most_specific(quotas: Mapping[QuotaEntity, float], user: str, client_id: str) -> AppliedQuota | None:
    """Kafka's order: a named user before the default user, and inside of both the client id before its default."""
    client = client_id or None
    both, user_alone, client_alone = (user, client), (user, None), (None, client)
    # A client without an id has no entity of its own: what is named client must not be looked up as the default.
    order: list[tuple[QuotaEntity, tuple[str | None, str | None]]] = []
    for owner in (user, None):
        if client is not None:
            order.append((user_client_entity(owner, client), both))
        order += [(user_client_entity(owner, None), both), (user_entity(owner), user_alone)]
    if client is not None:
        order.append((client_entity(client), client_alone))
    order.append((client_entity(None), client_alone))
    for entity, meter in order:
        bound = quotas.get(entity)
        if bound is not None:
            return AppliedQuota(bound, entity, meter)
    return None
