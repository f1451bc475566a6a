"""Where the logs of a leader and a follower diverge, by leader epochs. Never by high watermarks.

The follower states the epoch of its last record with every fetch. The leader looks up where its own log ends that
epoch; the follower truncates to the earlier of the two ends and fetches again, until the epochs match.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.core.errors import OffsetOutOfRange
from penstock.core.log.epochs import Epochs
from penstock.core.model import NO_EPOCH


class EpochEnd(NamedTuple):
    """The largest epoch of the leader's log that is not above the follower's, and where it ends there."""

    epoch: int
    end_offset: int


def find_divergence(
    epochs: Epochs, end_offset: int, fetch_offset: int, last_fetched_epoch: int
) -> EpochEnd | None:
    """The leader's answer to a fetch; None if the follower's log is a prefix of the leader's.

    Raises OffsetOutOfRange if the leader does not know that epoch: an unknown epoch ends nowhere, least of all at the
    end of the log.
    """
    if last_fetched_epoch == NO_EPOCH:
        return None
    epoch, epoch_end = epochs.end_of(last_fetched_epoch, end_offset)
    if epoch == NO_EPOCH:
        raise OffsetOutOfRange(f"epoch {last_fetched_epoch} is unknown, the latest one is {epochs.latest}")
    if epoch < last_fetched_epoch or epoch_end < fetch_offset:
        return EpochEnd(epoch, epoch_end)
    return None


def truncation_offset(epochs: Epochs, end_offset: int, diverging: EpochEnd) -> int:
    """Where the follower truncates its log: the earlier end of the epoch that the leader named."""
    epoch, own_end = epochs.end_of(diverging.epoch, end_offset)
    if (
        epoch == NO_EPOCH
    ):  # the follower knows no epoch as late: it has nothing that could diverge after that end
        return min(end_offset, diverging.end_offset)
    return min(own_end, diverging.end_offset)
