"""Kafka's topic settings that have no effect, accepted and described so that tools and mirrors work unchanged.

A value that would change the topic's guarantees (tiered storage) is rejected with the reason.
"""

from __future__ import annotations

import re

from penstock.core.setting import INT32_MAX, INT64_MAX, Kind, Setting, flag, number

_AS_RETENTION = -2
"""The value with which local retention follows the topic's retention."""

_REPLICA = re.compile(r"\s*[0-9]{1,10}:[0-9]{1,10}\s*")


def _replicas(name: str, doc: str) -> Setting:
    """All replicas (`*`), or `partition:broker` pairs."""

    def canonical(text: str) -> str | None:
        if text in ("", "*"):
            return text
        pairs = text.split(",")
        return ",".join(pair.strip() for pair in pairs) if all(map(_REPLICA.fullmatch, pairs)) else None

    allowed = "'*' or comma-separated partition:broker pairs"
    return Setting(name, "", Kind.LIST, "", allowed, doc, canonical)


def _only_false(name: str, reason: str, doc: str) -> Setting:
    allowed = f"false: {reason}"
    return flag(name, "", doc)._replace(
        allowed=allowed,
        canonical=lambda text: "false" if text.lower() == "false" else None,
    )


_long_as_retention = number(Kind.LONG, _AS_RETENTION, INT64_MAX)

INERT_SETTINGS: tuple[Setting, ...] = (
    number(Kind.INT, 1, 9, special=-1)(
        "compression.gzip.level",
        "compression.gzip.level",
        -1,
        "No effect: batches are recompressed at the default level of gzip.",
    ),
    number(Kind.INT, 1, 17)(
        "compression.lz4.level",
        "compression.lz4.level",
        9,
        "No effect: batches are recompressed at the default level of lz4.",
    ),
    number(Kind.INT, -131_072, 22)(
        "compression.zstd.level",
        "compression.zstd.level",
        3,
        "No effect: batches are recompressed at the default level of zstd.",
    ),
    number(Kind.LONG, 0, INT64_MAX)(
        "file.delete.delay.ms",
        "log.segment.delete.delay.ms",
        60_000,
        "No effect: the files of deleted segments are removed at once.",
    ),
    _replicas(
        "follower.replication.throttled.replicas",
        "No effect: every replica that is being moved is throttled, listed or not.",
    ),
    _replicas(
        "leader.replication.throttled.replicas",
        "No effect: every replica that is being moved is throttled, listed or not.",
    ),
    _long_as_retention(
        "local.retention.bytes",
        "log.local.retention.bytes",
        _AS_RETENTION,
        "No effect: there is no tiered storage, only retention.bytes applies.",
    ),
    _long_as_retention(
        "local.retention.ms",
        "log.local.retention.ms",
        _AS_RETENTION,
        "No effect: there is no tiered storage, only retention.ms applies.",
    ),
    flag("preallocate", "log.preallocate", "No effect: segments grow as they are written."),
    flag("remote.log.copy.disable", "", "No effect: there is no tiered storage to copy to."),
    flag("remote.log.delete.on.disable", "", "No effect: there is no tiered storage to delete from."),
    _only_false(
        "remote.storage.enable",
        "tiered storage is not supported",
        "Always false: there is no tiered storage.",
    ),
    number(Kind.INT, 4, INT32_MAX)(
        "segment.index.bytes",
        "log.index.size.max.bytes",
        10_485_760,
        "No effect: an index grows with its segment.",
    ),
)
"""In the order of their names."""
