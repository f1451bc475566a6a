"""What one broker reads from the others, for its doors and its coordinators. A single broker has none of it."""

from __future__ import annotations

from penstock.core.machines.catalog.catalog import Catalog
from penstock.node.peers.links import PeerLinks
from penstock.node.remote.leaders import Leaders
from penstock.node.remote.remote_offsets import RemoteOffsets
from penstock.node.remote.remote_source import FindLed, RemoteReads
from penstock.node.runtime.runtime import Runtime


class OtherBrokers:
    """The other brokers of the cluster. There is one, so that its limits hold for everybody who reads from them."""

    def __init__(
        self, runtime: Runtime, links: PeerLinks, node_id: int, catalog: Catalog, find_led: FindLed
    ) -> None:
        self.leaders = Leaders(links, node_id, catalog)
        self.reads = RemoteReads(runtime, self.leaders, find_led)
        self.offsets = RemoteOffsets(self.leaders, catalog)
