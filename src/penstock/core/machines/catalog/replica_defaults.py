"""The default of `min.insync.replicas`: one less than the replicas of a topic that has three or more."""

from __future__ import annotations

from collections.abc import Mapping

ISR_SIZE_MIN = "min.insync.replicas"
_FACTOR_MIN = 3
"""With two replicas, the default of 1 keeps the partition writable when one of them is down."""


def with_isr_size_min(
    overrides: Mapping[str, str], defaults: Mapping[str, str], factor: int
) -> dict[str, str]:
    """The overrides of a topic with this replication factor. A value of its own or of the whole cluster stays."""
    if factor < _FACTOR_MIN or ISR_SIZE_MIN in overrides or ISR_SIZE_MIN in defaults:
        return dict(overrides)
    return dict(sorted({**overrides, ISR_SIZE_MIN: str(factor - 1)}.items()))
