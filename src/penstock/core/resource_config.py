"""Definitions of the settings of consumer groups and client metrics subscriptions. Stores no value.

Of a group's settings, session timeout and heartbeat interval of the consumer protocol have an effect. The others belong
to protocols that are not supported: they are validated as in Kafka, stored and described.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

from penstock.core.config_entry import ConfigEntry, Synonym, entry_of, inherited_synonyms
from penstock.core.errors import BrokerError, InvalidConfig, InvalidRequest
from penstock.core.setting import (
    INT32_MAX,
    Kind,
    Setting,
    canonical_value,
    choice,
    find_setting,
    flag,
    number,
)

SESSION_MS = "consumer.session.timeout.ms"
HEARTBEAT_MS = "consumer.heartbeat.interval.ms"


class ResourceKind(StrEnum):
    """Resources with settings, besides topics and brokers."""

    GROUP = "group"
    CLIENT_METRICS = "client-metrics"


def validate_resource(kind: ResourceKind, name: str, value: str) -> str:
    """The canonical form of a value. InvalidConfig for groups, InvalidRequest for client metrics, as in Kafka."""
    definition = resource_setting(kind, name)
    try:
        return canonical_value(definition, name, value)
    except InvalidConfig as error:
        raise _refused(kind, error) from None


def resource_setting(kind: ResourceKind, name: str) -> Setting:
    """The definition of a setting by name."""
    try:
        return find_setting(RESOURCE_SETTINGS[kind], name, _OWNERS[kind])
    except InvalidConfig as error:
        raise _refused(kind, error) from None


def _refused(kind: ResourceKind, error: InvalidConfig) -> BrokerError:
    return InvalidRequest(str(error)) if kind is ResourceKind.CLIENT_METRICS else error


def check_group(overrides: Mapping[str, str], configured: Mapping[str, str]) -> None:
    """Reject values outside the broker's bounds, which include its own value, and a heartbeat interval that is not
    below the session timeout."""
    for name, (low, high) in GROUP_BOUNDS.items():
        if name in overrides:
            own = int(configured.get(GROUP_SETTINGS[name].inherits, GROUP_SETTINGS[name].default))
            low, high = min(low, own), max(high, own)
            if not low <= int(overrides[name]) <= high:
                raise InvalidConfig(
                    f"{name}: found {overrides[name]}, allowed is a whole number from {low} to {high}"
                )
    session_ms, heartbeat_ms = (
        int(effective(GROUP_SETTINGS[name], overrides, configured)) for name in (SESSION_MS, HEARTBEAT_MS)
    )
    if heartbeat_ms >= session_ms and overrides.keys() & {SESSION_MS, HEARTBEAT_MS}:
        raise InvalidConfig(
            f"{HEARTBEAT_MS} is {heartbeat_ms}, which is not less than {SESSION_MS}, {session_ms}"
        )


def effective(definition: Setting, overrides: Mapping[str, str], configured: Mapping[str, str]) -> str:
    """The effective value: the resource's override, else the broker's value, else the default."""
    return overrides.get(definition.name) or configured.get(definition.inherits, definition.default)


def describe_resource(
    kind: ResourceKind, overrides: Mapping[str, str], configured: Mapping[str, str]
) -> list[ConfigEntry]:
    """Every setting of a resource, overridden or not, sorted by name."""
    entries = []
    for name, definition in sorted(RESOURCE_SETTINGS[kind].items()):
        synonyms = inherited_synonyms(definition, {}, configured)
        if name in overrides:
            synonyms.insert(0, Synonym(name, overrides[name], kind.value))
        entries.append(entry_of(name, definition, synonyms, definition.default))
    return entries


def _reset(name: str, doc: str) -> Setting:
    duration = re.compile(r"by_duration:P(?=.)(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?")

    def canonical(text: str) -> str | None:
        return text if text in ("earliest", "latest") or duration.fullmatch(text) else None

    return Setting(
        name, name, Kind.STRING, "latest", "earliest, latest or by_duration:PnDTnHnMn.nS", doc, canonical
    )


def _texts(name: str, doc: str) -> Setting:
    return Setting(name, "", Kind.LIST, "", "a comma-separated list", doc, lambda text: text)


_int = number(Kind.INT, 0, INT32_MAX)
_SHARE = "No effect: share groups are not supported."
_STREAMS = "No effect: streams groups are not supported."
_METRICS = "No effect: client metrics are not collected."

GROUP_BOUNDS = {
    SESSION_MS: (45_000, 60_000),
    HEARTBEAT_MS: (5_000, 15_000),
    "consumer.assignment.interval.ms": (0, 15_000),
    "share.session.timeout.ms": (45_000, 60_000),
    "share.heartbeat.interval.ms": (5_000, 15_000),
    "share.assignment.interval.ms": (0, 15_000),
    "share.record.lock.duration.ms": (15_000, 60_000),
    "share.delivery.count.limit": (2, 10),
    "share.partition.max.record.locks": (100, 4_000),
    "streams.session.timeout.ms": (45_000, 60_000),
    "streams.heartbeat.interval.ms": (5_000, 15_000),
    "streams.assignment.interval.ms": (0, 15_000),
    "streams.num.standby.replicas": (0, 2),
}
"""Kafka's bounds. Those of the consumer protocol extend to the broker's configured value."""

_GROUP = (
    _int(SESSION_MS, "group.consumer.session.timeout.ms", 45_000, "How long a member may be silent."),
    _int(
        HEARTBEAT_MS,
        "group.consumer.heartbeat.interval.ms",
        5_000,
        "How often members are told to send a heartbeat; a change reaches them with the next one.",
    ),
    _int(
        "consumer.assignment.interval.ms",
        "group.consumer.assignment.interval.ms",
        0,
        "No effect: partitions are assigned as soon as members or topics change.",
    ),
    _int("share.session.timeout.ms", "group.share.session.timeout.ms", 45_000, _SHARE),
    _int("share.heartbeat.interval.ms", "group.share.heartbeat.interval.ms", 5_000, _SHARE),
    _int("share.assignment.interval.ms", "group.share.assignment.interval.ms", 1_000, _SHARE),
    _int("share.record.lock.duration.ms", "group.share.record.lock.duration.ms", 30_000, _SHARE),
    _int("share.delivery.count.limit", "group.share.delivery.count.limit", 5, _SHARE),
    _int("share.partition.max.record.locks", "group.share.partition.max.record.locks", 2_000, _SHARE),
    _reset("share.auto.offset.reset", _SHARE),
    choice("share.isolation.level", "share.isolation.level", ("read_uncommitted", "read_committed"), _SHARE),
    flag("share.renew.acknowledge.enable", "share.renew.acknowledge.enable", _SHARE, default=True),
    _int("streams.session.timeout.ms", "group.streams.session.timeout.ms", 45_000, _STREAMS),
    _int("streams.heartbeat.interval.ms", "group.streams.heartbeat.interval.ms", 5_000, _STREAMS),
    _int("streams.assignment.interval.ms", "group.streams.assignment.interval.ms", 1_000, _STREAMS),
    _int("streams.initial.rebalance.delay.ms", "group.streams.initial.rebalance.delay.ms", 3_000, _STREAMS),
    _int("streams.num.standby.replicas", "group.streams.num.standby.replicas", 0, _STREAMS),
)
_CLIENT_METRICS = (
    number(Kind.INT, 100, 3_600_000)("interval.ms", "", 300_000, _METRICS),
    _texts("match", _METRICS),
    _texts("metrics", _METRICS),
)

GROUP_SETTINGS: dict[str, Setting] = {definition.name: definition for definition in _GROUP}
RESOURCE_SETTINGS: dict[ResourceKind, dict[str, Setting]] = {
    ResourceKind.GROUP: GROUP_SETTINGS,
    ResourceKind.CLIENT_METRICS: {definition.name: definition for definition in _CLIENT_METRICS},
}
_OWNERS = {ResourceKind.GROUP: "groups", ResourceKind.CLIENT_METRICS: "client metrics"}
