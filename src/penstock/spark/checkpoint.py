"""The stream offset that Spark persists in a checkpoint. Owns its JSON form; never talks to a broker.

`{"orders": {"0": 23}}` is the form of Spark's Kafka connector. Further keys, none of which is a valid topic name:
* `#from`: start offsets of the partitions that are new in this batch;
* `#ids`: topic ids, so that a deleted and recreated topic is not mistaken for the same log. Missing in checkpoints of
  earlier versions;
* `#initial`: marks the start of a query rather than the end of a batch. Spark never persists it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.client.errors import BadArgument
from penstock.client.raw.cluster import TopicPartition
from penstock.spark.bounds import Offsets

FROM = "#from"
IDS = "#ids"
INITIAL = "#initial"


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """Offsets by partition, start offsets of new partitions, and the known topic ids by name."""

    offsets: Offsets
    begins: Offsets = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    is_initial: bool = False

    def encode(self) -> dict[str, Any]:
        topics = {place.topic for place in self.offsets}
        ids = {name: self.topic_ids[name] for name in sorted(topics) if self.topic_ids.get(name)}
        return {
            **({INITIAL: True} if self.is_initial else {}),
            **({FROM: _encode(self.begins)} if self.begins else {}),
            **({IDS: ids} if ids else {}),
            **_encode(self.offsets),
        }

    @classmethod
    def decode(cls, text: Mapping[str, Any]) -> StreamOffset:
        """Raises BadArgument for an offset that this source did not write."""
        try:
            ids = {str(topic): str(one) for topic, one in text.get(IDS, {}).items()}
            return cls(_decode(text), _decode(text.get(FROM, {})), ids, INITIAL in text)
        except (AttributeError, ValueError, TypeError):
            raise BadArgument(
                f"the checkpoint holds {text!r}, which this source did not write. "
                "Give the query its own checkpointLocation."
            ) from None


def _encode(offsets: Offsets) -> dict[str, Any]:
    encoded: dict[str, Any] = {}
    for place, offset in sorted(offsets.items()):
        encoded.setdefault(place.topic, {})[str(place.partition)] = offset
    return encoded


def _decode(text: Mapping[str, Any]) -> Offsets:
    return {
        TopicPartition(topic, int(number)): int(offset)
        for topic, partitions in text.items()
        if not topic.startswith("#")
        for number, offset in partitions.items()
    }
