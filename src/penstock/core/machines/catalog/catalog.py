"""The catalog: topics and their defaults, settings of topics, brokers and groups, feature levels, producer id blocks.

`decide_*` reads the state and returns events, or raises; `apply` writes and never refuses. The host appends
the events to a log in between, so replaying that log is recovery. Never touches files or partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from enum import IntEnum
from functools import partial
from typing import NamedTuple

from penstock.core.config_entry import ConfigEntry
from penstock.core.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidRequest,
    InvalidTopic,
    TopicExists,
    UnknownTopic,
    UnknownTopicId,
)
from penstock.core.features import FEATURES, FeatureUpdate, check_update
from penstock.core.limits import (
    PARTITIONS_PER_TOPIC_MAX,
    PARTITIONS_TOTAL_MAX,
    PRODUCER_IDS_BLOCK,
    RESOURCE_CONFIGS_MAX,
)
from penstock.core.machines.catalog.events import (
    TOPIC_ID_BYTES,
    BrokerConfigSaved,
    Event,
    FeaturesSaved,
    ProducerIdsReserved,
    ResourceConfigSaved,
    Topic,
    TopicDefaultsSaved,
    TopicRemoved,
    TopicSaved,
    key_of,
)
from penstock.core.model import check_topic_name
from penstock.core.ports import Rng
from penstock.core.resource_config import (
    ResourceKind,
    check_group,
    describe_resource,
    resource_setting,
    validate_resource,
)
from penstock.core.setting import Kind, Setting
from penstock.core.topic_config import (
    TopicConfig,
    broker_setting,
    check_together,
    describe,
    describe_broker,
    resolve,
    setting,
    validate,
    validate_broker,
)

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__subscriptions", "__transaction_state"})
"""Names that only the broker itself may create."""

_RESERVED_IDS = frozenset({bytes(16), bytes(15) + b"\x01"})
_PRODUCER_ID_MAX = 2**63 - 1
_DASH_IN_BASE64 = 62


class ConfigOp(IntEnum):
    """What an incremental change does to one setting; the numbers are Kafka's."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    """One incremental change. DELETE needs no value."""

    op: ConfigOp
    name: str
    value: str | None = None


def make_topic_id(rng: Rng) -> bytes:
    """A random UUID (version 4). Its text form never starts with '-': command lines would trip over it."""
    while True:
        raw = bytearray(rng.bytes(TOPIC_ID_BYTES))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        if raw[0] >> 2 != _DASH_IN_BASE64:
            return bytes(raw)


class Catalog:
    """The machine. What it is made with comes from the node's settings and is no state: `group_defaults` of groups, and
    the `features` that hold unless others were chosen."""

    def __init__(
        self, group_defaults: Mapping[str, str] | None = None, features: Mapping[str, int] | None = None
    ) -> None:
        self._group_static = dict(group_defaults or {})
        self._features_static = {name: levels.high for name, levels in FEATURES.items()} | dict(
            features or {}
        )
        self._static: dict[str, str] | None = None
        self._defaults: dict[str, str] = {}
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._by_folded: dict[str, str] = {}
        self._configs: dict[bytes, TopicConfig] = {}
        self._broker_overrides: dict[str, str] = {}
        self._resources: dict[tuple[ResourceKind, str], dict[str, str]] = {}
        self._features: dict[str, int] = {}
        self._partition_count = 0
        self._producer_ids_upto = 0

    # --- reading ---

    @property
    def topics(self) -> list[Topic]:
        """All topics, sorted by name."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    @property
    def partition_count(self) -> int:
        """Partitions of all topics together."""
        return self._partition_count

    @property
    def broker_overrides(self) -> dict[str, str]:
        """Broker settings that were changed at run time."""
        return dict(self._broker_overrides)

    @property
    def defaults(self) -> Mapping[str, str]:
        """The values that topics inherit: those changed at run time over those of the cluster."""
        return self._defaults

    @property
    def topic_defaults(self) -> Mapping[str, str]:
        """The cluster's values that topics inherit where nothing was changed at run time."""
        return self._static or {}

    @property
    def producer_ids_upto(self) -> int:
        """The first producer id that was never reserved."""
        return self._producer_ids_upto

    @property
    def features(self) -> dict[str, int]:
        """The level of each feature that is in force."""
        return self._features_static | self._features

    def resource_overrides(self, kind: ResourceKind, name: str) -> Mapping[str, str]:
        """The settings that a group or another named resource has of its own."""
        return self._resources.get((kind, name), {})

    def resource_names(self, kind: ResourceKind) -> list[str]:
        """The resources of a kind that have settings of their own, sorted."""
        return sorted(name for found, name in self._resources if found is kind)

    def find(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def topic(self, name: str) -> Topic:
        topic = self._by_name.get(name)
        if topic is None:
            raise UnknownTopic(f"there is no topic {name!r}")
        return topic

    def topic_by_id(self, topic_id: bytes) -> Topic:
        topic = self._by_id.get(topic_id)
        if topic is None:
            raise UnknownTopicId(f"there is no topic with the id {topic_id.hex()}")
        return topic

    def config(self, name: str) -> TopicConfig:
        """The resolved settings of a topic, worked out when they last changed."""
        return self._configs[self.topic(name).id]

    def describe(self, name: str) -> list[ConfigEntry]:
        """Every setting of a topic with its value and where that comes from."""
        return describe(self.topic(name).overrides, self._broker_overrides, self.topic_defaults)

    def describe_broker(self) -> list[ConfigEntry]:
        """The broker settings that topics inherit, in the same way."""
        return describe_broker(self._broker_overrides, self.topic_defaults)

    def describe_resource(self, kind: ResourceKind, name: str) -> list[ConfigEntry]:
        """The settings of a group or another named resource, in the same way."""
        return describe_resource(kind, self.resource_overrides(kind, name), self._group_static)

    def draft(self) -> Catalog:
        """A copy for trying decisions one after the other, when they are to be kept all at once or not at all."""
        draft = copy(self)
        draft._by_name, draft._by_id = dict(self._by_name), dict(self._by_id)
        draft._by_folded, draft._configs = dict(self._by_folded), dict(self._configs)
        draft._resources = dict(self._resources)
        return draft

    # --- deciding ---

    def decide_create_topic(
        self,
        name: str,
        partition_count: int,
        overrides: Mapping[str, str | None],
        *,
        topic_id: bytes,
        now_ms: int,
        internal: bool = False,
    ) -> list[Event]:
        """A new topic. Only the broker itself sets `internal`; without it the internal names are refused."""
        assert len(topic_id) == TOPIC_ID_BYTES and topic_id not in _RESERVED_IDS, topic_id
        assert topic_id not in self._by_id, topic_id
        check_topic_name(name)
        if name in self._by_name:
            raise TopicExists(f"there is a topic {name!r} already")
        if _folded(name) in INTERNAL_TOPICS and not internal:
            raise InvalidTopic(f"{name!r} is the name of an internal topic, only the broker creates it")
        other = self._by_folded.get(_folded(name))
        if other is not None:
            raise InvalidTopic(f"{name!r} collides with topic {other!r}: '.' and '_' count as the same")
        self._check_partition_count(partition_count, 0)
        own = _canonical(overrides, validate)
        check_together(own, self._defaults)
        return [TopicSaved(Topic(topic_id, name, partition_count, own, internal, now_ms))]

    def decide_delete_topic(self, name: str, *, internal: bool = False) -> list[Event]:
        """Remove a topic; an internal one only when the broker itself asks."""
        topic = self.topic(name)
        _refuse_internal(topic, internal, "deleted")
        return [TopicRemoved(topic.id)]

    def decide_add_partitions(self, name: str, total: int, *, internal: bool = False) -> list[Event]:
        """Grow a topic to `total` partitions; it never shrinks."""
        topic = self.topic(name)
        _refuse_internal(topic, internal, "given partitions")
        if total <= topic.partition_count:
            raise InvalidPartitions(
                f"topic {name!r} has {topic.partition_count} partitions, so it cannot be grown to {total}"
            )
        self._check_partition_count(total, topic.partition_count)
        return [TopicSaved(replace(topic, partition_count=total))]

    def decide_set_configs(self, name: str, overrides: Mapping[str, str | None]) -> list[Event]:
        """Replace all settings of a topic: what is not named goes back to the broker's value."""
        return self._save_overrides(self.topic(name), _canonical(overrides, validate))

    def decide_alter_configs(self, name: str, changes: Sequence[ConfigChange]) -> list[Event]:
        """Change some settings of a topic and keep the rest."""
        topic = self.topic(name)

        def inherited(definition: Setting) -> str:
            return self._defaults.get(definition.inherits, definition.default)

        return self._save_overrides(topic, _altered(topic.overrides, changes, setting, validate, inherited))

    def decide_set_broker_config(self, overrides: Mapping[str, str | None]) -> list[Event]:
        """Replace all broker settings that were changed at run time."""
        return self._save_broker(_canonical(overrides, validate_broker))

    def decide_alter_broker_config(self, changes: Sequence[ConfigChange]) -> list[Event]:
        """Change some broker settings that topics inherit and keep the rest."""

        def inherited(definition: Setting) -> str:
            return self.topic_defaults.get(definition.inherits, definition.default)

        return self._save_broker(
            _altered(self._broker_overrides, changes, broker_setting, validate_broker, inherited)
        )

    def decide_adopt_topic_defaults(self, configured: Mapping[str, str], *, is_shared: bool) -> list[Event]:
        """A broker starts that is configured with these values. They become the cluster's if it has none yet.

        Later too where the metadata log is not shared: that broker is the whole cluster, so its settings are the
        cluster's. Where brokers share the log, none of them overrules the others by being started last.
        """
        if is_shared and self._static is not None:
            return []
        values = _canonical(configured, validate_broker)
        if values == self._static:
            return []
        check_together({}, values)
        return [TopicDefaultsSaved(values)]

    def decide_set_resource_config(
        self, kind: ResourceKind, name: str, overrides: Mapping[str, str | None]
    ) -> list[Event]:
        """Replace all settings of a group or another named resource."""
        return self._save_resource(kind, name, _canonical(overrides, partial(validate_resource, kind)))

    def decide_alter_resource_config(
        self, kind: ResourceKind, name: str, changes: Sequence[ConfigChange]
    ) -> list[Event]:
        """Change some settings of a group or another named resource and keep the rest."""

        def inherited(definition: Setting) -> str:
            return definition.default

        return self._save_resource(
            kind,
            name,
            _altered(
                self.resource_overrides(kind, name),
                changes,
                partial(resource_setting, kind),
                partial(validate_resource, kind),
                inherited,
            ),
        )

    def decide_update_features(self, updates: Sequence[FeatureUpdate], node_id: int) -> list[Event]:
        """Choose levels of features, all of them or none."""
        levels = self.features
        for update in updates:
            check_update(update, levels, node_id)
        chosen = self._features | {update.name: update.level for update in updates}
        return [] if chosen == self._features else [FeaturesSaved(chosen)]

    def decide_reserve_producer_ids(self, owner: int) -> list[Event]:
        """The next block of producer ids, up to `producer_ids_upto`, is this broker's once that is durable."""
        upto = self._producer_ids_upto + PRODUCER_IDS_BLOCK
        assert owner >= 0 and upto <= _PRODUCER_ID_MAX, (owner, upto)
        return [ProducerIdsReserved(upto, owner)]

    def decide_catch_up(self, snapshot: Sequence[Event]) -> list[Event]:
        """What leads from here to the state that a snapshot holds: all that it names, and nothing else is left."""
        named = {key_of(event) for event in snapshot}
        mine: list[Event] = [TopicRemoved(topic.id) for topic in self.topics]
        mine += [ResourceConfigSaved(kind, name, {}) for kind, name in sorted(self._resources)]
        return [*(gone for gone in mine if key_of(gone) not in named), *snapshot]

    def _save_overrides(self, topic: Topic, overrides: dict[str, str]) -> list[Event]:
        check_together(overrides, self._defaults)
        if overrides == topic.overrides:
            return []
        return [TopicSaved(replace(topic, overrides=overrides))]

    def _save_resource(self, kind: ResourceKind, name: str, overrides: dict[str, str]) -> list[Event]:
        present = self._resources.get((kind, name))
        if overrides == (present or {}):
            return []
        if kind is ResourceKind.GROUP:
            check_group(overrides, self._group_static)
        if present is None and len(self._resources) >= RESOURCE_CONFIGS_MAX:
            raise InvalidRequest(
                f"at most {RESOURCE_CONFIGS_MAX} groups and client metrics subscriptions have settings of their own"
            )
        return [ResourceConfigSaved(kind, name, overrides)]

    def _save_broker(self, overrides: dict[str, str]) -> list[Event]:
        if overrides == self._broker_overrides:
            return []
        defaults = {**self.topic_defaults, **overrides}
        check_together({}, defaults)
        for topic in self.topics:
            try:
                check_together(topic.overrides, defaults)
            except InvalidConfig as error:
                raise InvalidConfig(f"topic {topic.name!r} would become invalid: {error}") from None
        return [BrokerConfigSaved(overrides)]

    def _check_partition_count(self, wanted: int, present: int) -> None:
        if not 1 <= wanted <= PARTITIONS_PER_TOPIC_MAX:
            raise InvalidPartitions(
                f"a topic has 1 to {PARTITIONS_PER_TOPIC_MAX} partitions, {wanted} were asked for"
            )
        room = PARTITIONS_TOTAL_MAX - self._partition_count
        if wanted - present > room:
            raise InvalidPartitions(
                f"all topics together have at most {PARTITIONS_TOTAL_MAX} partitions, {room} more fit"
            )

    # --- applying ---

    def apply(self, event: Event) -> None:
        """Write what happened. Total: any event may follow any other, as after compaction of the log."""
        match event:
            case TopicSaved(topic):
                self._remove(topic.id)
                self._add(topic)
            case TopicRemoved(topic_id):
                self._remove(topic_id)
            case BrokerConfigSaved(overrides):
                self._broker_overrides = dict(overrides)
                self._inherit()
            case TopicDefaultsSaved(values):
                self._static = dict(values)
                self._inherit()
            case ProducerIdsReserved(upto):
                self._producer_ids_upto = max(self._producer_ids_upto, upto)
            case ResourceConfigSaved(kind, name, overrides):
                self._resources.pop((kind, name), None)
                if overrides:
                    self._resources[kind, name] = dict(overrides)
            case FeaturesSaved(levels):
                self._features = dict(levels)

    def _inherit(self) -> None:
        """Work out anew what every topic inherits."""
        self._defaults = {**self.topic_defaults, **self._broker_overrides}
        self._configs = {topic.id: resolve(topic.overrides, self._defaults) for topic in self._by_id.values()}

    def _add(self, topic: Topic) -> None:
        namesake = self._by_name.get(topic.name)
        if namesake is not None:
            self._remove(namesake.id)
        self._by_name[topic.name] = self._by_id[topic.id] = topic
        self._by_folded[_folded(topic.name)] = topic.name
        self._configs[topic.id] = resolve(topic.overrides, self._defaults)
        self._partition_count += topic.partition_count

    def _remove(self, topic_id: bytes) -> None:
        topic = self._by_id.pop(topic_id, None)
        if topic is None:
            return
        del self._by_name[topic.name], self._configs[topic_id]
        if self._by_folded.get(_folded(topic.name)) == topic.name:
            del self._by_folded[_folded(topic.name)]
        self._partition_count -= topic.partition_count


def _folded(name: str) -> str:
    """Names that fold to the same word would share their metrics, so only one of them may exist."""
    return name.replace(".", "_")


def _refuse_internal(topic: Topic, allowed: bool, verb: str) -> None:
    if topic.internal and not allowed:
        raise InvalidTopic(f"{topic.name!r} is an internal topic, it cannot be {verb}")


def _canonical(overrides: Mapping[str, str | None], check: Callable[[str, str], str]) -> dict[str, str]:
    return {name: check(name, _present(name, overrides[name])) for name in sorted(overrides)}


def _present(name: str, value: str | None) -> str:
    if value is None:
        raise InvalidConfig(f"{name}: a value is missing")
    return value


def _altered(
    overrides: Mapping[str, str],
    changes: Sequence[ConfigChange],
    find: Callable[[str], Setting],
    check: Callable[[str, str], str],
    inherited: Callable[[Setting], str],
) -> dict[str, str]:
    """The overrides after these changes. Each setting may be named once: else the order would decide."""
    altered = dict(overrides)
    seen: set[str] = set()
    for op, name, value in changes:
        if name in seen:
            raise InvalidRequest(f"{name} is changed twice in one request")
        seen.add(name)
        if op is ConfigOp.DELETE:
            # A name that is not known has no value either: mirrors delete whatever the other side does not have.
            altered.pop(name, None)
            continue
        definition = find(name)
        if value is None:
            raise InvalidRequest(f"{name}: a value is missing")
        text = value
        if op is not ConfigOp.SET:
            text = _merged(op, definition, name, altered.get(name, inherited(definition)), text)
        altered[name] = check(name, text)
    return altered


def _merged(op: ConfigOp, definition: Setting, name: str, present: str, text: str) -> str:
    """A list with words added or taken away."""
    if definition.kind is not Kind.LIST:
        raise InvalidConfig(
            f"{name}: only a list can be appended to or subtracted from, this is a {definition.kind}"
        )
    words = [word.strip() for word in text.split(",")]
    if op is ConfigOp.APPEND:
        return ",".join([present, *words])
    return ",".join(word for word in present.split(",") if word not in words)
