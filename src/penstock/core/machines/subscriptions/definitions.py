"""The definition of a subscription and its record format."""

from __future__ import annotations

from typing import NamedTuple

from penstock.core.errors import TornSegment
from penstock.core.machine import Fields, Records, event_type
from penstock.core.machines.record_fields import FieldReader, blob, int16, int32, int64, text
from penstock.core.machines.subscriptions.events import SUBSCRIPTION_RECORDS
from penstock.core.model import TOPIC_ID_BYTES

DEFINITION = 1002
"""The key version of definitions, distinct from those of partition events."""

_VALUE_VERSION = 0


class SubscriptionDefinition(NamedTuple):
    """A named subscription: topic, acknowledgement timeout (`hold_ms`) and maximum deliveries."""

    name: str
    topic: str
    topic_id: bytes
    hold_ms: int
    deliveries_max: int
    created_ms: int
    redriven_offset: int = 0
    """Dead letters before this offset of the dead letter topic were redriven."""

    @property
    def dead_letter_topic(self) -> str:
        return dead_letter_topic(self.topic)


def dead_letter_topic(topic: str) -> str:
    """The topic of undeliverable messages."""
    return f"{topic}.dlq"


@event_type
class Defined(NamedTuple):
    """The subscription was created or changed; None if it was deleted. Persisted."""

    name: str
    definition: SubscriptionDefinition | None


def _encode(event: Defined) -> Fields:
    key = int16(DEFINITION) + text(event.name)
    one = event.definition
    if one is None:
        return key, None
    numbers = (
        int32(one.hold_ms) + int32(one.deliveries_max) + int64(one.created_ms) + int64(one.redriven_offset)
    )
    return key, int16(_VALUE_VERSION) + text(one.topic) + blob(one.topic_id) + numbers


def _decode(key: bytes, value: bytes | None) -> Defined:
    names = FieldReader(key)
    names.int16()
    name = names.text()
    names.end()
    if value is None:
        return Defined(name, None)
    reader = FieldReader(value)
    version = reader.int16()
    if version != _VALUE_VERSION:
        raise TornSegment(
            f"subscription definition has version {version}, this broker supports {_VALUE_VERSION}"
        )
    topic, topic_id = reader.text(), reader.blob()
    hold_ms, deliveries_max = reader.int32(), reader.int32()
    created_ms, redriven_offset = reader.int64(), reader.int64()
    reader.end()
    if len(topic_id) != TOPIC_ID_BYTES or hold_ms < 1 or deliveries_max < 1 or redriven_offset < 0:
        raise TornSegment(f"the definition of subscription {name!r} is invalid")
    definition = SubscriptionDefinition(
        name, topic, topic_id, hold_ms, deliveries_max, created_ms, redriven_offset
    )
    return Defined(name, definition)


BOOK_RECORDS = SUBSCRIPTION_RECORDS | Records({Defined: _encode}, {DEFINITION: _decode})
"""The record formats of the subscriptions' topic."""
