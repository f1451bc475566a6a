"""Broker settings of replication that can be changed at run time, by Kafka's names. Topics do not inherit them."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.core.setting import INT64_MAX, Kind, Setting, number

FOLLOWER_RATE = "follower.replication.throttled.rate"
CATCH_UP_RATE = "follower.catch.up.throttled.rate"
LEADER_RATE = "leader.replication.throttled.rate"

_rate = number(Kind.LONG, 0, INT64_MAX)

REPLICATION_SETTINGS: dict[str, Setting] = {
    name: _rate(name, name, default, doc)
    for name, default, doc in (
        (
            FOLLOWER_RATE,
            64 * 2**20,
            "Bytes per second that a broker copies at most of partitions that are being moved to it; 0: no limit.",
        ),
        (
            CATCH_UP_RATE,
            128 * 2**20,
            "Bytes per second that a broker copies at most of partitions whose in-sync replicas it left and returns to;"
            " 0: no limit.",
        ),
        (
            LEADER_RATE,
            INT64_MAX,
            "Bytes per second that a broker sends at most of partitions that are being moved away; 0: no limit.",
        ),
    )
}


def replication_rate(values: Mapping[str, str], name: str) -> int:
    """The limit in bytes per second; 0 if there is none."""
    rate = int(values.get(name, REPLICATION_SETTINGS[name].default))
    return 0 if rate == INT64_MAX else rate
