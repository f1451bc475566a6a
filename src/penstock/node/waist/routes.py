"""Where partitions and coordinators are found: on this node, all of them. The one place where a router will stand.

A verb never reaches for a partition or a coordinator in another way, so that a cluster can answer NotLeader and
NotCoordinator here, or forward the call.
"""

from __future__ import annotations

from penstock.node.broker import Broker
from penstock.node.coordinators.group_coordinator import GroupCoordinator
from penstock.node.coordinators.subscriptions import Subscriptions
from penstock.node.coordinators.transactions import TransactionCoordinator


class Routes:
    """What one node serves."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.partition = broker.partition
        """The owner of one partition, by the topic's name or id. Bound, not wrapped: it is on the path of records."""
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
