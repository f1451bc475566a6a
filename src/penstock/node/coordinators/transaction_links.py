"""Transactions across brokers: markers in partitions that others lead, entries at coordinators elsewhere. Decides
nothing.

A transaction's coordinator, the partitions it writes to and the groups whose offsets it commits may be on different
brokers. Calls go over links; the callers retry.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.core.errors import BrokerError, NotLeader, UnknownTopic
from penstock.core.machines.transactions.transactions import Claim
from penstock.core.model import TopicPartition
from penstock.core.records.control import Marker
from penstock.node.peers.links import PeerLinks
from penstock.node.peers.peer_calls import add_partitions_to_transaction, write_markers
from penstock.node.replicas.offset_waits import Settled
from penstock.node.runtime.tasks import Tasks

CALL_MS_MAX = 5_000
"""Time limit of one call; the caller retries."""


class TransactionLinks:
    """Calls of one broker about transactions."""

    def __init__(self, links: PeerLinks) -> None:
        self._links = links
        self._tasks = Tasks()

    async def end(
        self,
        broker_id: int,
        place: TopicPartition,
        producer_id: int,
        epoch: int,
        marker: Marker,
        *,
        is_bumped: bool,
    ) -> None:
        """End a producer's transaction in a partition of another broker, or settle its offsets there. Raises
        BrokerError."""
        failed = await write_markers(
            self._links,
            broker_id,
            (producer_id, epoch),
            marker,
            [place],
            is_bumped=is_bumped,
            timeout_ms=CALL_MS_MAX,
        )
        error = failed.get(place)
        if isinstance(error, UnknownTopic):
            # A deleted topic is recognised by this broker's own catalog. The other one has not heard of the topic yet,
            # and a marker that is given up would leave the transaction open for ever.
            raise NotLeader(f"broker {broker_id} does not know {place.topic}-{place.partition} yet")
        if error is not None:
            raise error

    def at(self, broker_id: int) -> RemoteAdmission:
        """Admission of producers by the coordinator on another broker."""
        return RemoteAdmission(self._links, self._tasks, broker_id)

    def close(self) -> None:
        self._tasks.cancel()


class RemoteAdmission:
    """Asks the coordinator of a transaction on another broker whether a producer may write."""

    def __init__(self, links: PeerLinks, tasks: Tasks, broker_id: int) -> None:
        self._links = links
        self._tasks = tasks
        self._broker_id = broker_id

    def admit(
        self,
        transactional_id: str,
        by: Claim,
        places: Sequence[TopicPartition],
        admitted: Settled,
        *,
        may_add: bool,
    ) -> None:
        """See `TransactionCoordinator.admit`."""
        self._tasks.spawn(
            self._admit(transactional_id, by, places, admitted, may_add=may_add),
            lambda bug: admitted(NotLeader(f"defect: {bug!r}")),
        )

    async def _admit(
        self,
        transactional_id: str,
        by: Claim,
        places: Sequence[TopicPartition],
        admitted: Settled,
        *,
        may_add: bool,
    ) -> None:
        error: BrokerError | None
        try:
            refused = await add_partitions_to_transaction(
                self._links,
                self._broker_id,
                transactional_id,
                (by.producer_id, by.producer_epoch),
                places,
                timeout_ms=CALL_MS_MAX,
                verify_only=not may_add,
            )
            error = next(iter(refused.values()), None)
        except BrokerError as failure:
            error = failure
        admitted(error)
