"""The facade that doors use: the verbs of one node by family, and access to slices, workers and meters."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from penstock.node.broker import Broker
from penstock.node.runtime.workers import run_blocking
from penstock.node.waist.authorization import Authorization
from penstock.node.waist.cluster import ClusterVerbs
from penstock.node.waist.committed import CommittedVerbs
from penstock.node.waist.configs import ConfigVerbs
from penstock.node.waist.coordinators import CoordinatorVerbs
from penstock.node.waist.fetch import FetchVerbs
from penstock.node.waist.forwarded_groups import ForwardedGroupVerbs
from penstock.node.waist.forwarded_subscriptions import ForwardedSubscriptionVerbs
from penstock.node.waist.groups import GroupVerbs
from penstock.node.waist.peers import PeerVerbs
from penstock.node.waist.placement import PlacementVerbs
from penstock.node.waist.positions import PositionVerbs
from penstock.node.waist.produce import ProduceVerbs
from penstock.node.waist.rack_reads import RackReads
from penstock.node.waist.replicas import ReplicaVerbs
from penstock.node.waist.routes import Routes
from penstock.node.waist.scrub import ScrubVerbs
from penstock.node.waist.security import SecurityVerbs
from penstock.node.waist.subscriptions import SubscriptionVerbs
from penstock.node.waist.topics import TopicVerbs
from penstock.node.waist.transactions import TransactionVerbs

if TYPE_CHECKING:
    from penstock.node.waist.elsewhere import Elsewhere
    from penstock.node.waist.moves import MoveVerbs
    from penstock.node.waist.overview import OverviewVerbs
    from penstock.node.waist.publisher import Publisher
    from penstock.node.waist.reader import Reader

T = TypeVar("T")


class Submit(Protocol):
    """Submits blocking work to a worker; `done` gets the result, or the exception as a value."""

    def __call__(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None: ...


class Waist:
    """Everything that a door may use of a node."""

    def __init__(self, broker: Broker) -> None:
        self.authorization = authorization = Authorization(broker.catalog)
        self._routes = routes = Routes(broker)
        self._broker = broker
        self._elsewhere = elsewhere = _reach_others(broker)
        self.slices = broker.runtime.slices
        """Runs long work of all doors in slices."""
        self.now_ms = broker.runtime.clock.now_ms
        self.submit: Submit = broker.runtime.workers.submit
        self.meter = broker.runtime.meters.door
        """The meters of a door, by its name."""
        self.cluster = ClusterVerbs(broker, authorization, routes)
        self.committed = CommittedVerbs(broker, authorization, routes)
        self.configs = ConfigVerbs(broker, authorization, lambda: self.cluster.advertised)
        self.coordinators = CoordinatorVerbs(broker, authorization, self.cluster)
        self.fetch = FetchVerbs(authorization, routes, RackReads(broker, routes))
        self.groups = GroupVerbs(broker, authorization, routes, elsewhere)
        self.forwarded_groups = ForwardedGroupVerbs(broker, authorization, self.groups, self.committed)
        self.peers = PeerVerbs(broker, authorization)
        self.placement = PlacementVerbs(broker, authorization, routes)
        self.positions = PositionVerbs(authorization, routes, elsewhere)
        self.produce = ProduceVerbs(broker, authorization, routes)
        self.replicas = ReplicaVerbs(broker, authorization, routes)
        self.scrub = ScrubVerbs(broker, authorization)
        self.security = SecurityVerbs(authorization)
        self.subscriptions = SubscriptionVerbs(broker, authorization, routes)
        self.forwarded_subscriptions = ForwardedSubscriptionVerbs(broker, self.subscriptions)
        self.topics = TopicVerbs(broker, authorization, routes, elsewhere)
        self.transactions = TransactionVerbs(broker, authorization, routes, self.committed)

    def overview(self) -> OverviewVerbs:
        """Create the verbs that describe the cluster: few doors need them."""
        from penstock.node.waist.overview import OverviewVerbs

        return OverviewVerbs(self._broker, self.authorization, self.cluster, self.topics)

    def moves(self) -> MoveVerbs:
        """Create the verbs that move partitions: few doors need them."""
        from penstock.node.waist.moves import MoveVerbs

        return MoveVerbs(self._broker, self.authorization)

    def publisher(self) -> Publisher:
        """Create the door's publisher of single records."""
        from penstock.node.waist.publisher import Publisher

        forwards = None if self._elsewhere is None else self._elsewhere.forwards
        return Publisher(self._broker, self.authorization, self._routes, forwards)

    def reader(self) -> Reader:
        """Create the door's reader of single records."""
        from penstock.node.waist.reader import Reader

        return Reader(self.authorization, self._routes, self._elsewhere)

    async def run_blocking(self, work: Callable[[], T]) -> T:
        """Run blocking work in a worker and await its result."""
        return await run_blocking(self._broker.runtime.workers, work)


def _reach_others(broker: Broker) -> Elsewhere | None:
    """The other brokers of the cluster; None for a single broker, which loads none of this."""
    if broker.others is None:
        return None
    from penstock.node.waist.elsewhere import Elsewhere

    return Elsewhere(broker, broker.others)
