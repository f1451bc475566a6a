"""From which replica consumers read: values of a setting. `node/waist/rack_reads.py` applies them."""

from __future__ import annotations

from enum import StrEnum

_KAFKA = "org.apache.kafka.common.replica."


class ReadReplica(StrEnum):
    """What a leader tells consumers that name their rack. Kafka's names of the same are accepted."""

    RACK = "rack"
    LEADER = "leader"

    @property
    def kafka_class(self) -> str:
        """The class that behaves alike in Kafka."""
        return _KAFKA + ("RackAwareReplicaSelector" if self is ReadReplica.RACK else "LeaderSelector")

    @classmethod
    def _missing_(cls, value: object) -> ReadReplica | None:
        return next((one for one in cls if one.kafka_class.lower() == str(value).lower()), None)
