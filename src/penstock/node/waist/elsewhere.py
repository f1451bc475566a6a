"""What the verbs of this broker reach on the others: records, offsets, groups. None of it exists on a single broker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.core.errors import UnknownTopic
from penstock.core.model import TopicPartition
from penstock.node.broker import Broker
from penstock.node.peers.links import PeerLinks
from penstock.node.waist.forwards import Forwards
from penstock.node.waist.leaders import Leaders
from penstock.node.waist.remote_offsets import RemoteOffsets
from penstock.node.waist.remote_source import ReadAhead, RemoteReads, RemoteSource


class Elsewhere:
    """The other brokers of the cluster, as one broker uses them for its clients."""

    def __init__(self, broker: Broker, links: PeerLinks) -> None:
        leaders = Leaders(broker, links)
        self._broker = broker
        self.forwards = Forwards(broker, leaders)
        self.offsets = RemoteOffsets(broker, leaders)
        self._reads = RemoteReads(broker, leaders)

    def open_source(self, topic: str, index: int, bytes_max: int) -> RemoteSource:
        """One partition to read so many bytes from, wherever it is led. Raises UnknownTopic."""
        return self._reads.open(topic, index, ReadAhead(1), bytes_max, is_patient=False)

    def open_sources(self, topic: str, index: int | None, partitions_max: int) -> Sequence[RemoteSource]:
        """One partition, or all of a topic, to follow; so many of them are read ahead. Raises UnknownTopic."""
        ahead = ReadAhead(partitions_max)
        indexes = range(self._broker.catalog.topic(topic).partition_count) if index is None else (index,)
        return [self._reads.open(topic, one, ahead, 0, is_patient=True) for one in indexes]

    def among(self, places: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those of the partitions that exist and are not led here."""
        return [place for place in places if self._is_elsewhere(place)]

    def _is_elsewhere(self, place: TopicPartition) -> bool:
        try:
            return self._broker.find_led(*place) is None
        except UnknownTopic:
            return False
