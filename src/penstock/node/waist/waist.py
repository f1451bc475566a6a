"""The waist as doors hold it: the verbs of one node by family, and the tools of the ground. Does nothing itself."""

from __future__ import annotations

from penstock.node.broker import Broker
from penstock.node.waist.authorization import Authorization
from penstock.node.waist.fetch import FetchVerbs
from penstock.node.waist.produce import ProduceVerbs
from penstock.node.waist.routes import Routes


class Waist:
    """Everything that a door may ask of a node."""

    def __init__(self, broker: Broker) -> None:
        self.authorization = authorization = Authorization(broker.catalog)
        routes = Routes(broker)
        self.broker = broker
        self.slices = broker.runtime.slices
        """Runs long work of all doors in turns."""
        self.produce = ProduceVerbs(broker, authorization, routes)
        self.fetch = FetchVerbs(authorization, routes)
