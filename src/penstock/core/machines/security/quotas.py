"""Decisions about client quotas: alter and describe. Messages are Kafka's where Kafka has one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from penstock.core.errors import InvalidRequest, UnsupportedVersion
from penstock.core.machines.security.events import QuotaSaved
from penstock.core.machines.security.security_decision import SecurityDecision
from penstock.core.machines.security.state import SecurityState
from penstock.core.security.acl import canonical_host
from penstock.core.security.entry_error import EntryError, EntryErrorCode, invalid_entry
from penstock.core.security.quota import EntityType, QuotaEntity, check_quota, parse_entity, sort_key
from penstock.core.security.security_limits import QUOTA_ENTITIES_MAX


class QuotaOp(NamedTuple):
    """One change: the new value of a key, None removes it."""

    key: str
    value: float | None


class QuotaAlteration(NamedTuple):
    """The changes of one entity: types and names as the client sent them, None for the default of a type."""

    entity: tuple[tuple[str, str | None], ...]
    ops: tuple[QuotaOp, ...]


class QuotaMatch(IntEnum):
    """How a filter names entities; numbers as in Kafka."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2
    """Any entity with this type, the default included."""


class QuotaFilterPart(NamedTuple):
    """One component of a filter, as the client sent it."""

    entity_type: str
    match_type: int
    name: str | None


def decide_alter_quotas(
    state: SecurityState, alterations: Sequence[QuotaAlteration]
) -> SecurityDecision[list[EntryError | None]]:
    """Change quotas; there is one result for each alteration, None for success. Each is applied as a whole."""
    entities = [parse_entity(one.entity) for one in alterations]
    named = Counter(entities)
    events: list[QuotaSaved] = []
    results: list[EntryError | None] = []
    room = QUOTA_ENTITIES_MAX - len(state.quotas)
    for entity, (_, ops) in zip(entities, alterations, strict=True):
        if isinstance(entity, EntryError):
            results.append(entity)
            continue
        if named[entity] > 1:
            results.append(invalid_entry(f"Ignoring duplicate entity {entity}"))
            continue
        before = state.quotas.of(entity)
        after = _altered(entity, before, ops)
        if isinstance(after, EntryError):
            results.append(after)
            continue
        room += bool(before) - bool(after)
        if room < 0 and not before:
            room += 1
            results.append(
                EntryError(
                    EntryErrorCode.POLICY_VIOLATION,
                    f"The limit of {QUOTA_ENTITIES_MAX} entities with quotas is reached; use defaults instead",
                )
            )
            continue
        results.append(None)
        if after != before:
            events.append(QuotaSaved(entity, after))
    return SecurityDecision(list(events), results)


def _altered(
    entity: QuotaEntity, before: Mapping[str, float], ops: Sequence[QuotaOp]
) -> dict[str, float] | EntryError:
    """The quotas of an entity after these changes."""
    after = dict(before)
    seen: set[str] = set()
    for key, value in ops:
        if key in seen:
            return invalid_entry(f"Duplicate quota key {key} not updating quota for this entity {entity}")
        seen.add(key)
        if value is None:
            # Removing an unknown key succeeds, as in Kafka.
            after.pop(key, None)
            continue
        error = check_quota(entity, key, value)
        if error is not None:
            return error
        after[key] = value
    return after


def describe_quotas(
    state: SecurityState, parts: Sequence[QuotaFilterPart], *, strict: bool
) -> list[tuple[QuotaEntity, dict[str, float]]]:
    """The entities that a filter selects, with their quotas. Strict: entities with other types too are left out.

    Raises InvalidRequest, or UnsupportedVersion for an entity type of a newer protocol.
    """
    exact, specified = _parse_filter(parts)
    found = []
    for entity in sorted(state.quotas, key=sort_key):
        names = entity.names
        if (
            (not strict or len(names) == len(exact) + len(specified))
            and all(kind in names and names[kind] == name for kind, name in exact.items())
            and all(kind in names for kind in specified)
        ):
            found.append((entity, dict(state.quotas.of(entity))))
    return found


def _parse_filter(parts: Sequence[QuotaFilterPart]) -> tuple[dict[EntityType, str | None], set[EntityType]]:
    exact: dict[EntityType, str | None] = {}
    specified: set[EntityType] = set()
    for entity_type, match_type, name in parts:
        if not entity_type:
            raise InvalidRequest("Invalid empty entity type.")
        if entity_type in exact or entity_type in specified:
            raise InvalidRequest(f"Entity type {entity_type} cannot appear more than once in the filter.")
        if entity_type not in list(EntityType):
            raise UnsupportedVersion(f"Unsupported entity type {entity_type}")
        kind = EntityType(entity_type)
        if match_type not in list(QuotaMatch):
            raise InvalidRequest(f"Unknown match type {match_type}")
        match = QuotaMatch(match_type)
        if match is QuotaMatch.EXACT:
            if name is None:
                raise InvalidRequest("Request specified MATCH_TYPE_EXACT, but set match string to null.")
            exact[kind] = canonical_host(name) if kind is EntityType.IP else name
            continue
        if name is not None:
            raise InvalidRequest(
                f"Request specified MATCH_TYPE_{match.name}, but also specified a match string."
            )
        if match is QuotaMatch.DEFAULT:
            exact[kind] = None
        else:
            specified.add(kind)
    if EntityType.IP in (*exact, *specified) and len(exact) + len(specified) > 1:
        raise InvalidRequest(
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId"
            " filter component."
        )
    return exact, specified
