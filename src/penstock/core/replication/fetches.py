"""Values of a replica's fetch: who asks, for what, and what the leader answers."""

from __future__ import annotations

from typing import NamedTuple

from penstock.core.errors import BrokerError
from penstock.core.model import PartitionId
from penstock.core.replication.divergence import EpochEnd


class ReplicaIdentity(NamedTuple):
    """The broker that fetches as a replica, and the broker epoch of its registration."""

    broker_id: int
    epoch: int


WATERMARK_UNTOLD = 2**63 - 1
"""In place of a replica's high watermark: it need not hear of a later one before there are records."""


class ReplicaFetch(NamedTuple):
    """What a replica asks its leader for: batches from the end of its own log on."""

    partition: PartitionId
    offset: int
    leader_epoch: int
    last_fetched_epoch: int
    """The epoch of its last record, by which the leader detects that the logs diverge."""
    start_offset: int
    bytes_max: int
    high_watermark: int = WATERMARK_UNTOLD
    """What is committed as far as the replica knows, if its readers wait for more: the leader answers as soon as its
    own is later."""


class ReplicatedBatches(NamedTuple):
    """The leader's answer for one partition."""

    error: BrokerError | None
    records: memoryview
    high_watermark: int
    start_offset: int
    diverging: EpochEnd | None
    """Where the leader's log ends the epoch in which the replica's log diverges."""
