"""What the verbs of this broker reach on the others: records, offsets, groups. None of it exists on a single broker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.core.errors import UnknownTopic
from penstock.core.model import TopicPartition
from penstock.node.broker import Broker
from penstock.node.remote.other_brokers import OtherBrokers
from penstock.node.remote.remote_source import ReadAhead, RemoteSource
from penstock.node.waist.forwards import Forwards


class Elsewhere:
    """The other brokers of the cluster, as one broker uses them for its clients."""

    def __init__(self, broker: Broker, others: OtherBrokers) -> None:
        self._broker = broker
        self.forwards = Forwards(broker, others.leaders)
        self.offsets = others.offsets
        self._reads = others.reads

    def open_source(self, topic: str, index: int, bytes_max: int) -> RemoteSource:
        """One partition to read so many bytes from, wherever it is led. Raises UnknownTopic."""
        found = self._broker.catalog.topic_with(topic, index)
        return self._reads.open(found, index, ReadAhead(1), bytes_max, is_patient=False)

    def open_sources(self, topic: str, index: int | None, partitions_max: int) -> Sequence[RemoteSource]:
        """One partition, or all of a topic, to follow; so many of them are read ahead. Raises UnknownTopic."""
        ahead = ReadAhead(partitions_max)
        found = self._broker.catalog.topic_with(topic, index or 0)
        indexes = range(found.partition_count) if index is None else (index,)
        return [self._reads.open(found, one, ahead, 0, is_patient=True) for one in indexes]

    def among(self, places: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those of the partitions that exist and are not led here."""
        return [place for place in places if self._is_elsewhere(place)]

    def _is_elsewhere(self, place: TopicPartition) -> bool:
        try:
            return self._broker.find_led(*place) is None
        except UnknownTopic:
            return False
