"""Kafka's feature levels: the supported ones, their ranges and the allowed updates. The catalog stores the levels."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from penstock.core.errors import InvalidConfig

TRANSACTION_VERSION = "transaction.version"
GROUP_VERSION = "group.version"
METADATA_VERSION = "metadata.version"


class Levels(NamedTuple):
    """The supported level range of one feature."""

    low: int
    high: int


class Move(IntEnum):
    """The direction in which an update may change a level; numbers as in Kafka."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """One requested update. `move` is what the client sent, valid or not."""

    name: str
    level: int
    move: int


FEATURES: dict[str, Levels] = {
    GROUP_VERSION: Levels(1, 1),
    METADATA_VERSION: Levels(30, 30),
    TRANSACTION_VERSION: Levels(0, 2),
}
"""Consumer-protocol groups are always enabled, with the APIs of Kafka 4.3. Unsupported features (share groups, streams
groups, eligible leader replicas) are not listed, so that no client relies on them."""


def check_update(update: FeatureUpdate, levels: Mapping[str, int], node_id: int) -> None:
    """Reject an update that Kafka would reject, with Kafka's message."""
    reason = _reason(update, levels.get(update.name, 0), node_id)
    if reason is not None:
        raise InvalidConfig(
            "The update failed for all features since the following feature had an error: "
            f"Invalid update version {update.level} for feature {update.name}. {reason}"
        )


def _reason(update: FeatureUpdate, present: int, node_id: int) -> str | None:
    if update.move not in list(Move):
        return "The controller does not support the given upgrade type."
    if update.level < 0:
        return "A feature version cannot be less than 0."
    known = FEATURES.get(update.name)
    if known is None:
        return f"Local controller {node_id} does not support this feature."
    if not known.low <= update.level <= known.high:
        return f"Local controller {node_id} only supports versions {known.low}-{known.high}"
    if update.level < present and update.move == Move.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe"
            " downgrade."
        )
    return None
