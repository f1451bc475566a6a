"""Kafka broker settings that tools read but Penstock does not have, with the values that describe its behaviour."""

from __future__ import annotations

from typing import NamedTuple

from penstock.core.limits import OFFSET_METADATA_BYTES_MAX
from penstock.core.machines.consumer_group.assignors import ASSIGNORS
from penstock.core.resource_config import GROUP_BOUNDS, HEARTBEAT_MS, SESSION_MS
from penstock.core.setting import Kind
from penstock.node.settings import Settings

_MINUTE_MS = 60_000


class Fact(NamedTuple):
    """One such setting. None means unset."""

    name: str
    kind: Kind
    value: str | None
    doc: str


def broker_facts(settings: Settings, factor: int) -> list[Fact]:
    """All of them, for a node with the given settings and default replication factor."""
    session_ms, heartbeat_ms = settings.consumer_group_session_ms, settings.consumer_group_heartbeat_ms
    (session_low, session_high), (beat_low, beat_high) = GROUP_BOUNDS[SESSION_MS], GROUP_BOUNDS[HEARTBEAT_MS]
    retention = str(settings.offsets_retention_ms // _MINUTE_MS)
    isr_size_min = str(factor - 1 if factor > 2 else 1)
    derived = (
        ("group.consumer.min.session.timeout.ms", min(session_low, session_ms), "Bound for groups."),
        ("group.consumer.max.session.timeout.ms", max(session_high, session_ms), "Bound for groups."),
        ("group.consumer.min.heartbeat.interval.ms", min(beat_low, heartbeat_ms), "Bound for groups."),
        ("group.consumer.max.heartbeat.interval.ms", max(beat_high, heartbeat_ms), "Bound for groups."),
        ("group.consumer.max.size", settings.group_size_max, "As group.max.size."),
    )
    return [
        *FACTS,
        *(Fact(name, Kind.INT, str(value), doc) for name, value, doc in derived),
        Fact("broker.rack", Kind.STRING, settings.rack or None, "Set as rack; by default the machine."),
        Fact(
            "replica.selector.class", Kind.STRING, settings.read_replica.kafka_class, "Set as read_replica."
        ),
        Fact("offsets.retention.minutes", Kind.INT, retention, "Set as offsets_retention_ms."),
        Fact("offsets.topic.replication.factor", Kind.SHORT, str(factor), _CLUSTER),
        Fact(
            "transaction.state.log.min.isr",
            Kind.INT,
            isr_size_min,
            "One less than 3 or more replicas, else 1.",
        ),
        Fact("transaction.state.log.replication.factor", Kind.SHORT, str(factor), _CLUSTER),
    ]


_CLUSTER = "As default.replication.factor."
_ALIKE = "Brokers and clients use the same listener."
_OPEN = "Clients are not authenticated and nothing is encrypted."

FACTS = (
    Fact(
        "authorizer.class.name",
        Kind.STRING,
        "",
        "There is no authorizer: ACL calls answer SECURITY_DISABLED.",
    ),
    Fact(
        "controlled.shutdown.enable",
        Kind.BOOLEAN,
        "true",
        "A stopping broker gives its leadership away first.",
    ),
    Fact("delete.topic.enable", Kind.BOOLEAN, "true", "Topics can be deleted."),
    Fact("group.consumer.assignors", Kind.LIST, ",".join(ASSIGNORS), "Assignors of the consumer protocol."),
    Fact(
        "group.consumer.migration.policy",
        Kind.STRING,
        "bidirectional",
        "Groups change their protocol online.",
    ),
    Fact("group.coordinator.rebalance.protocols", Kind.LIST, "classic,consumer", "Supported protocols."),
    Fact("inter.broker.listener.name", Kind.STRING, None, _ALIKE),
    Fact("listener.security.protocol.map", Kind.STRING, "PLAINTEXT:PLAINTEXT", _OPEN),
    Fact("log.cleaner.enable", Kind.BOOLEAN, "true", "Compacted topics are compacted."),
    Fact("log.retention.minutes", Kind.INT, None, "Unset: log.retention.ms or log.retention.hours counts."),
    Fact("max.incremental.fetch.session.cache.slots", Kind.INT, "0", "Fetch sessions are not supported."),
    Fact(
        "offset.metadata.max.bytes",
        Kind.INT,
        str(OFFSET_METADATA_BYTES_MAX),
        "Metadata of one committed offset.",
    ),
    Fact("process.roles", Kind.LIST, "broker,controller", "One process is both."),
    Fact("remote.log.storage.system.enable", Kind.BOOLEAN, "false", "There is no tiered storage."),
    Fact("sasl.enabled.mechanisms", Kind.LIST, "", _OPEN),
    Fact("security.inter.broker.protocol", Kind.STRING, "PLAINTEXT", _OPEN),
    Fact("transaction.two.phase.commit.enable", Kind.BOOLEAN, "false", "Two-phase commit is not supported."),
)
"""Facts that do not depend on the node's settings."""
