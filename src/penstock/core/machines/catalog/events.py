"""Events of the catalog and their record format, those of the cluster state included. catalog.py holds the state.

Each event is the full state of its key, so that the log may be compacted: the last event of each key is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from penstock.core.errors import InvalidConfig, InvalidRequest, InvalidTopic, TornSegment
from penstock.core.features import FEATURES
from penstock.core.machine import event_type
from penstock.core.machines.cluster import events as cluster_events
from penstock.core.machines.cluster.events import BrokerRemoved, ClusterEvent, PartitionRemoved
from penstock.core.machines.json_fields import JsonFields, json_value
from penstock.core.model import TOPIC_ID_BYTES, check_topic_name
from penstock.core.resource_config import ResourceKind, validate_resource
from penstock.core.topic_config import validate, validate_broker

NO_OWNER = -1

_TOPIC_PREFIX = b"topic/"
_BROKER_CONFIG_KEY = b"broker-config"
_TOPIC_DEFAULTS_KEY = b"topic-defaults"
_PRODUCER_IDS_KEY = b"producer-ids"
_FEATURES_KEY = b"features"
_RESOURCE_PREFIX = b"resource-config/"


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic. `overrides` are its own settings, in canonical form."""

    id: bytes
    name: str
    partition_count: int
    overrides: Mapping[str, str] = field(default_factory=dict)
    internal: bool = False
    created_ms: int = 0


@event_type
class TopicSaved(NamedTuple):
    """A topic was created or changed; carries its new state."""

    topic: Topic


@event_type
class TopicRemoved(NamedTuple):
    """The topic with this id was deleted."""

    id: bytes


@event_type
class BrokerConfigSaved(NamedTuple):
    """All dynamic broker settings."""

    overrides: Mapping[str, str]


@event_type
class TopicDefaultsSaved(NamedTuple):
    """All cluster-wide topic defaults, without dynamic changes."""

    values: Mapping[str, str]


@event_type
class ProducerIdsReserved(NamedTuple):
    """Producer ids below `upto` are reserved. The last block belongs to `owner` alone."""

    upto: int
    owner: int = NO_OWNER
    """The broker that allocates from the block; NO_OWNER in records written before blocks had owners."""


@event_type
class ResourceConfigSaved(NamedTuple):
    """All overrides of a group or another named resource; empty means that it has none."""

    kind: ResourceKind
    name: str
    overrides: Mapping[str, str]


@event_type
class FeaturesSaved(NamedTuple):
    """All feature levels that were updated at run time."""

    levels: Mapping[str, int]


Event = (
    TopicSaved
    | TopicRemoved
    | BrokerConfigSaved
    | TopicDefaultsSaved
    | ProducerIdsReserved
    | ResourceConfigSaved
    | FeaturesSaved
    | ClusterEvent
)


def key_of(event: Event) -> bytes:
    """The event's key in a compacted log."""
    match event:
        case TopicSaved(topic):
            return _TOPIC_PREFIX + topic.id.hex().encode()
        case TopicRemoved(id):
            return _TOPIC_PREFIX + id.hex().encode()
        case BrokerConfigSaved():
            return _BROKER_CONFIG_KEY
        case TopicDefaultsSaved():
            return _TOPIC_DEFAULTS_KEY
        case ProducerIdsReserved():
            return _PRODUCER_IDS_KEY
        case ResourceConfigSaved(kind, name):
            return _RESOURCE_PREFIX + f"{kind}/{name}".encode()
        case FeaturesSaved():
            return _FEATURES_KEY
        case _:
            return event.key


def encode(event: Event) -> tuple[bytes, bytes | None]:
    """Key and value of the event's record; a null value deletes the key."""
    match event:
        case TopicSaved(topic):
            content: dict[str, object] | None = {
                "name": topic.name,
                "partition_count": topic.partition_count,
                "overrides": dict(topic.overrides),
                "internal": topic.internal,
                "created_ms": topic.created_ms,
            }
        case TopicRemoved():
            content = None
        case BrokerConfigSaved(overrides):
            content = {"overrides": dict(overrides)}
        case TopicDefaultsSaved(values):
            content = {"overrides": dict(values)}
        case ProducerIdsReserved(upto, owner):
            content = {"upto": upto} if owner == NO_OWNER else {"upto": upto, "owner": owner}
        case ResourceConfigSaved(overrides=overrides):
            content = {"overrides": dict(overrides)} if overrides else None
        case FeaturesSaved(levels):
            content = {"levels": dict(levels)}
        case _:
            return cluster_events.encode(event)
    if content is None:
        return key_of(event), None
    return key_of(event), json_value(content)


def compact_events(events: Iterable[Event]) -> list[Event]:
    """The last event of each key, without those that delete their key: the state that the events lead to."""
    last: dict[bytes, Event] = {}
    for event in events:
        key = key_of(event)
        last.pop(key, None)
        last[key] = event
    return [event for event in last.values() if not _deletes(event)]


def _deletes(event: Event) -> bool:
    match event:
        case TopicRemoved() | BrokerRemoved() | PartitionRemoved():
            return True
        case ResourceConfigSaved(overrides=overrides):
            return not overrides
    return False


def decode(key: bytes | None, value: bytes | None) -> Event:
    """Decode an event. Raises TornSegment on any error: a partially understood catalog must not be served."""
    if key is None:
        raise TornSegment("catalog record without a key")
    if key.startswith(_TOPIC_PREFIX):
        topic_id = _decode_topic_id(key)
        return (
            TopicRemoved(topic_id)
            if value is None
            else TopicSaved(_decode_topic(topic_id, _Fields(key, value)))
        )
    if key == _BROKER_CONFIG_KEY:
        return BrokerConfigSaved(_Fields(key, value).settings(validate_broker))
    if key == _TOPIC_DEFAULTS_KEY:
        return TopicDefaultsSaved(_Fields(key, value).settings(validate_broker))
    if key == _PRODUCER_IDS_KEY:
        fields = _Fields(key, value)
        return ProducerIdsReserved(fields.whole("upto", 0), fields.whole("owner", 0, absent=NO_OWNER))
    if key == _FEATURES_KEY:
        return FeaturesSaved(_Fields(key, value).levels())
    if key.startswith(_RESOURCE_PREFIX):
        return _decode_resource(key, value)
    if cluster_events.is_cluster_key(key):
        return cluster_events.decode(key, value)
    raise TornSegment(f"catalog record {key!r} is unknown to this version")


def _decode_topic_id(key: bytes) -> bytes:
    try:
        topic_id = bytes.fromhex(key[len(_TOPIC_PREFIX) :].decode("ascii"))
    except ValueError:
        topic_id = b""
    if len(topic_id) != TOPIC_ID_BYTES:
        raise TornSegment(f"catalog record {key!r} does not contain a valid topic id")
    return topic_id


def _decode_resource(key: bytes, value: bytes | None) -> ResourceConfigSaved:
    try:
        kind_text, slash, name = key[len(_RESOURCE_PREFIX) :].decode().partition("/")
        kind = ResourceKind(kind_text)
    except ValueError:
        slash = ""
    if not slash:
        raise TornSegment(f"catalog record {key!r} does not name a resource")
    if value is None:
        return ResourceConfigSaved(kind, name, {})
    return ResourceConfigSaved(kind, name, _Fields(key, value).settings(partial(validate_resource, kind)))


def _decode_topic(topic_id: bytes, fields: _Fields) -> Topic:
    try:
        name = check_topic_name(fields.text("name"))
    except InvalidTopic as error:
        raise fields.torn(str(error)) from None
    return Topic(
        id=topic_id,
        name=name,
        partition_count=fields.whole("partition_count", 1),
        overrides=fields.settings(validate),
        internal=fields.flag("internal"),
        created_ms=fields.whole("created_ms", 0),
    )


class _Fields(JsonFields):
    """The fields of one value, with those that only the catalog has."""

    def settings(self, check: Callable[[str, str], str]) -> dict[str, str]:
        """The overrides, validated again: an unknown one must not be dropped silently."""
        value = self.content.get("overrides")
        if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
            raise self.torn(f"overrides is {value!r}, not an object of strings")
        try:
            return {name: check(name, text) for name, text in value.items()}
        except (InvalidConfig, InvalidRequest) as error:
            raise self.torn(str(error)) from None

    def levels(self) -> dict[str, int]:
        """Feature levels, validated against the supported ranges."""
        value = self.content.get("levels")
        if not isinstance(value, dict):
            raise self.torn(f"levels is {value!r}, not an object of numbers")
        for name, level in value.items():
            known = FEATURES.get(name)
            if known is None or type(level) is not int or not known.low <= level <= known.high:
                raise self.torn(
                    f"the level of feature {name!r} is {level!r}, which this version does not support"
                )
        return value
