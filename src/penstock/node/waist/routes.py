"""Looks up partitions and coordinators, on this node or another.

Verbs use no other way to them: here a broker of a cluster raises NotLeader and NotCoordinator, or forwards the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from penstock.core.machines.cluster.values import NO_LEADER
from penstock.core.machines.transactions.transactions import Claim
from penstock.core.model import TopicPartition
from penstock.node.broker import Broker
from penstock.node.coordinators.group_coordinator import GroupCoordinator
from penstock.node.coordinators.subscriptions import Subscriptions
from penstock.node.coordinators.transactions import TOPIC as TRANSACTIONS_TOPIC
from penstock.node.coordinators.transactions import TransactionCoordinator
from penstock.node.replicas.offset_waits import Settled


class ProducerAdmission(Protocol):
    """Decides whether a producer may write to partitions in its transaction."""

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


class Routes:
    """The partitions and coordinators of one node."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.partition = broker.partition
        """One partition, by the topic's name or id. Bound, not wrapped: it is on the hot path."""
        self.partitions_of = broker.partitions_of
        self.find_led = broker.find_led
        """The same without an error if another broker leads it: None."""

    def groups(self, group_id: str) -> GroupCoordinator:
        """The coordinator of a group."""
        return self._broker.group_coordinator

    def transactions(self, transactional_id: str) -> TransactionCoordinator:
        """The coordinator of a transactional id."""
        return self._broker.transactions

    def admission(self, transactional_id: str) -> ProducerAdmission:
        """Who admits the producers of a transactional id: the coordinator here, or a call to the broker that has it."""
        broker, coordinator = self._broker, self._broker.transactions
        if broker.transaction_links is None or not coordinator.host.is_open:
            return coordinator
        leader_id = broker.leader_of(TRANSACTIONS_TOPIC, coordinator.host.index_of(transactional_id))
        if leader_id in (broker.identity.node_id, NO_LEADER):
            return coordinator
        return broker.transaction_links.at(leader_id)

    def subscriptions(self, name: str) -> Subscriptions:
        """The coordinator of a subscription."""
        return self._broker.subscriptions
