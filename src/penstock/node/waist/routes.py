"""Looks up partitions and coordinators: on this node, all of them. The place for a router between nodes.

Verbs use no other way to partitions and coordinators, so that a cluster can raise NotLeader and NotCoordinator here,
or forward the call.
"""

from __future__ import annotations

from penstock.node.broker import Broker
from penstock.node.coordinators.group_coordinator import GroupCoordinator
from penstock.node.coordinators.subscriptions import Subscriptions
from penstock.node.coordinators.transactions import TransactionCoordinator


class Routes:
    """The partitions and coordinators of one node."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.partition = broker.partition
        """One partition, by the topic's name or id. Bound, not wrapped: it is on the hot path."""
        self.partitions_of = broker.partitions_of

    def groups(self, group_id: str) -> GroupCoordinator:
        """The coordinator of a group."""
        return self._broker.group_coordinator

    def transactions(self, transactional_id: str) -> TransactionCoordinator:
        """The coordinator of a transactional id."""
        return self._broker.transactions

    def subscriptions(self, name: str) -> Subscriptions:
        """The coordinator of a subscription."""
        return self._broker.subscriptions
