"""Settings of the queue door's subscriptions. `node/settings` assembles the sections."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.node.definitions.definition import INT32_MAX, count_setting, duration_setting


@dataclass(frozen=True, init=False, repr=False, eq=False)
class SubscriptionSettings:
    """Defaults of subscriptions and limits of their members."""

    subscription_hold_ms: int = duration_setting(
        "subscriptions",
        30_000,
        "How long a member may hold a message before it is redelivered; default for new subscriptions.",
        low=1,
        high=INT32_MAX,
    )
    subscription_deliveries_max: int = count_setting(
        "subscriptions",
        5,
        "Maximum deliveries of a message before it becomes a dead letter; default for new subscriptions.",
        low=1,
        high=INT32_MAX,
    )
    subscription_window_max: int = count_setting(
        "subscriptions",
        1_000,
        "Maximum number of messages that a member may hold.",
        low=1,
        high=INT32_MAX,
    )
    subscription_heartbeat_ms: int = duration_setting(
        "subscriptions",
        30_000,
        "Members must send a heartbeat this often; after three missed intervals they are removed.",
        low=1,
        high=INT32_MAX,
    )
