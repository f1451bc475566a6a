"""Settings of the queue door's subscriptions. `node/settings` assembles the sections."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.node.definitions.definition import INT32_MAX, count, duration


@dataclass(frozen=True, init=False, repr=False, eq=False)
class SubscriptionSettings:
    """Defaults of subscriptions and limits of their members."""

    subscription_hold_ms: int = duration(
        "subscriptions", 30_000, "How long a member may hold a message, by default.", low=1, high=INT32_MAX
    )
    subscription_deliveries_max: int = count(
        "subscriptions",
        5,
        "Deliveries of a message before it is a dead letter, by default.",
        low=1,
        high=INT32_MAX,
    )
    subscription_window_max: int = count(
        "subscriptions",
        1_000,
        "The most messages that one member may hold at a time.",
        low=1,
        high=INT32_MAX,
    )
    subscription_heartbeat_ms: int = duration(
        "subscriptions", 30_000, "Members give a sign of life this often; silent three times as long, they are gone.",
        low=1, high=INT32_MAX,
    )  # fmt: skip
