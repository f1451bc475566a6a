"""The catalog: topics and their defaults, settings of topics, brokers and groups, feature levels, producer id blocks.

It contains the cluster state (`cluster`), whose events are in the same log: topics and their placement change together.
`decide_*` reads the state and returns events, or raises; `apply` writes and never fails. The host appends the events to
a log in between, so that replaying the log is recovery. Never touches files or partitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial

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
from penstock.core.machines.catalog.config_changes import (
    ConfigChange,
    altered_overrides,
    canonical_overrides,
)
from penstock.core.machines.catalog.events import (
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
from penstock.core.machines.catalog.replica_defaults import with_isr_size_min
from penstock.core.machines.cluster.assignment import decide_assign
from penstock.core.machines.cluster.brokers import RegistrationRequest, decide_register
from penstock.core.machines.cluster.events import PartitionSaved
from penstock.core.machines.cluster.partition_state import decide_adopt, decide_follow_config
from penstock.core.machines.cluster.state import ClusterState
from penstock.core.model import TOPIC_ID_BYTES, Durability, check_topic_name
from penstock.core.ports import Rng
from penstock.core.resource_config import (
    ResourceKind,
    check_group,
    describe_resource,
    resource_setting,
    validate_resource,
)
from penstock.core.setting import Setting
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
"""Topics that only the broker may create."""

_RESERVED_IDS = frozenset({bytes(16), bytes(15) + b"\x01"})
_PRODUCER_ID_MAX = 2**63 - 1
_DASH_IN_BASE64 = 62


def make_topic_id(rng: Rng) -> bytes:
    """A random UUID (version 4) whose text form never starts with '-', which command lines would take for an option."""
    while True:
        raw = bytearray(rng.bytes(TOPIC_ID_BYTES))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        if raw[0] >> 2 != _DASH_IN_BASE64:
            return bytes(raw)


class Catalog:
    """The machine. Its arguments come from the node's settings and are not state: `group_defaults` of groups, and the
    default `features`."""

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
        self.cluster = ClusterState(self._isr_size_min, self._may_elect_unclean, self._is_fsync)
        """Registered brokers and placed partitions. Empty on a single node."""

    # --- reading ---

    @property
    def topics(self) -> list[Topic]:
        """All topics, sorted by name."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    @property
    def partition_count(self) -> int:
        """The number of partitions of all topics."""
        return self._partition_count

    @property
    def broker_overrides(self) -> dict[str, str]:
        """Dynamic broker settings."""
        return dict(self._broker_overrides)

    @property
    def defaults(self) -> Mapping[str, str]:
        """The values that topics inherit: dynamic broker settings, else the cluster's topic defaults."""
        return self._defaults

    @property
    def topic_defaults(self) -> Mapping[str, str]:
        """The cluster-wide topic defaults, without dynamic changes."""
        return self._static or {}

    @property
    def producer_ids_upto(self) -> int:
        """The lowest producer id that was never reserved."""
        return self._producer_ids_upto

    @property
    def features(self) -> dict[str, int]:
        """The current level of each feature."""
        return self._features_static | self._features

    def resource_overrides(self, kind: ResourceKind, name: str) -> Mapping[str, str]:
        """The overrides of a group or another named resource."""
        return self._resources.get((kind, name), {})

    def resource_names(self, kind: ResourceKind) -> list[str]:
        """The resources of a kind that have overrides, sorted."""
        return sorted(name for found, name in self._resources if found is kind)

    def find(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def topic(self, name: str) -> Topic:
        topic = self._by_name.get(name)
        if topic is None:
            raise UnknownTopic(f"there is no topic {name!r}")
        return topic

    def find_by_id(self, topic_id: bytes) -> Topic | None:
        return self._by_id.get(topic_id)

    def topic_by_id(self, topic_id: bytes) -> Topic:
        topic = self._by_id.get(topic_id)
        if topic is None:
            raise UnknownTopicId(f"there is no topic with the id {topic_id.hex()}")
        return topic

    def topic_with(self, name: str, index: int) -> Topic:
        """The topic of a partition, wherever that is. Raises UnknownTopic if there is no such partition."""
        topic = self._by_name.get(name)
        if topic is None or not 0 <= index < topic.partition_count:
            raise UnknownTopic(f"there is no partition {index} of a topic {name!r}")
        return topic

    def config(self, name: str) -> TopicConfig:
        """The resolved settings of a topic, cached."""
        return self._configs[self.topic(name).id]

    def _isr_size_min(self, topic_id: bytes) -> int:
        found = self._configs.get(topic_id)
        return 1 if found is None else found.insync_replicas_min

    def _is_fsync(self, topic_id: bytes) -> bool:
        return topic_id in self._configs and self._configs[topic_id].durability is Durability.FSYNC

    def _may_elect_unclean(self, topic_id: bytes) -> bool:
        return topic_id in self._configs and self._configs[topic_id].unclean_election

    def describe(self, name: str) -> list[ConfigEntry]:
        """Every setting of a topic with its value and source."""
        return describe(self.topic(name).overrides, self._broker_overrides, self.topic_defaults)

    def describe_broker(self) -> list[ConfigEntry]:
        """The broker settings that topics inherit, described likewise."""
        return describe_broker(self._broker_overrides, self.topic_defaults)

    def describe_resource(self, kind: ResourceKind, name: str) -> list[ConfigEntry]:
        """The settings of a group or another named resource, described likewise."""
        return describe_resource(kind, self.resource_overrides(kind, name), self._group_static)

    def draft(self) -> Catalog:
        """A copy on which several decisions are tried, to persist all of them or none."""
        draft = copy(self)
        draft._by_name, draft._by_id = dict(self._by_name), dict(self._by_id)
        draft._by_folded, draft._configs = dict(self._by_folded), dict(self._configs)
        draft._resources = dict(self._resources)
        draft.cluster = self.cluster.draft(draft._isr_size_min, draft._may_elect_unclean, draft._is_fsync)
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
        replication_factor: int = 1,
        assignments: Sequence[Sequence[int]] | None = None,
    ) -> list[Event]:
        """Create a topic and place its partitions, on the brokers of `assignments` if given. With three replicas or
        more it also gets a `min.insync.replicas`, unless it or the cluster has one.

        Only the broker sets `internal`, which allows internal names. On a single node nothing is placed.
        """
        assert len(topic_id) == TOPIC_ID_BYTES and topic_id not in _RESERVED_IDS, topic_id
        assert topic_id not in self._by_id, topic_id
        check_topic_name(name)
        if name in self._by_name:
            raise TopicExists(f"topic {name!r} already exists")
        if _folded(name) in INTERNAL_TOPICS and not internal:
            raise InvalidTopic(f"{name!r} is reserved for an internal topic")
        other = self._by_folded.get(_folded(name))
        if other is not None:
            raise InvalidTopic(f"{name!r} collides with topic {other!r}: '.' and '_' are equivalent in names")
        self._check_partition_count(partition_count, 0)
        own = canonical_overrides(overrides, validate)
        check_together(own, self._defaults)
        factor = replication_factor if assignments is None else 0
        placed = decide_assign(self.cluster, topic_id, range(partition_count), factor, assignments)
        own = with_isr_size_min(own, self._defaults, len(placed[0].partition.replicas) if placed else 1)
        return [TopicSaved(Topic(topic_id, name, partition_count, own, internal, now_ms)), *placed]

    def decide_delete_topic(self, name: str, *, internal: bool = False) -> list[Event]:
        """Delete a topic; an internal one only for the broker itself."""
        topic = self.topic(name)
        _refuse_internal(topic, internal, "deleted")
        return [TopicRemoved(topic.id), *self.cluster.removals_of(topic.id)]

    def decide_add_partitions(
        self,
        name: str,
        total: int,
        *,
        internal: bool = False,
        assignments: Sequence[Sequence[int]] | None = None,
    ) -> list[Event]:
        """Increase a topic's partitions to `total`; they cannot be reduced. `assignments` are of the new ones."""
        topic = self.topic(name)
        _refuse_internal(topic, internal, "given partitions")
        if total <= topic.partition_count:
            raise InvalidPartitions(
                f"topic {name!r} has {topic.partition_count} partitions, which cannot be increased to {total}"
            )
        self._check_partition_count(total, topic.partition_count)
        present = self.cluster.partitions_of(topic.id)
        factor = len(present[0].target) if present else 1
        added = range(topic.partition_count, total)
        placed = decide_assign(self.cluster, topic.id, added, factor, assignments)
        return [TopicSaved(replace(topic, partition_count=total)), *placed]

    def decide_set_configs(self, name: str, overrides: Mapping[str, str | None]) -> list[Event]:
        """Replace all overrides of a topic: settings that are not named inherit again."""
        return self._save_overrides(self.topic(name), canonical_overrides(overrides, validate))

    def decide_alter_configs(self, name: str, changes: Sequence[ConfigChange]) -> list[Event]:
        """Change some overrides of a topic."""
        topic = self.topic(name)

        def inherited(definition: Setting) -> str:
            return self._defaults.get(definition.inherits, definition.default)

        return self._save_overrides(
            topic, altered_overrides(topic.overrides, changes, setting, validate, inherited)
        )

    def decide_set_broker_config(self, overrides: Mapping[str, str | None]) -> list[Event]:
        """Replace all dynamic broker settings."""
        return self._save_broker(canonical_overrides(overrides, validate_broker))

    def decide_alter_broker_config(self, changes: Sequence[ConfigChange]) -> list[Event]:
        """Change some dynamic broker settings."""

        def inherited(definition: Setting) -> str:
            return self.topic_defaults.get(definition.inherits, definition.default)

        return self._save_broker(
            altered_overrides(self._broker_overrides, changes, broker_setting, validate_broker, inherited)
        )

    def decide_adopt_topic_defaults(self, configured: Mapping[str, str], *, is_shared: bool) -> list[Event]:
        """A broker starts with these configured values. They become the cluster's topic defaults if it has none yet.

        If the metadata log is not shared, they always do: that broker is the whole cluster. If brokers share the log,
        a broker that starts later does not override the defaults.
        """
        if is_shared and self._static is not None:
            return []
        values = canonical_overrides(configured, validate_broker)
        if values == self._static:
            return []
        check_together({}, values)
        return [TopicDefaultsSaved(values)]

    def decide_set_resource_config(
        self, kind: ResourceKind, name: str, overrides: Mapping[str, str | None]
    ) -> list[Event]:
        """Replace all overrides of a group or another named resource."""
        return self._save_resource(
            kind, name, canonical_overrides(overrides, partial(validate_resource, kind))
        )

    def decide_alter_resource_config(
        self, kind: ResourceKind, name: str, changes: Sequence[ConfigChange]
    ) -> list[Event]:
        """Change some overrides of a group or another named resource."""

        def inherited(definition: Setting) -> str:
            return definition.default

        return self._save_resource(
            kind,
            name,
            altered_overrides(
                self.resource_overrides(kind, name),
                changes,
                partial(resource_setting, kind),
                partial(validate_resource, kind),
                inherited,
            ),
        )

    def decide_update_features(self, updates: Sequence[FeatureUpdate], node_id: int) -> list[Event]:
        """Update feature levels, all or none."""
        levels = self.features
        for update in updates:
            check_update(update, levels, node_id)
        chosen = self._features | {update.name: update.level for update in updates}
        return [] if chosen == self._features else [FeaturesSaved(chosen)]

    def decide_reserve_producer_ids(self, owner: int) -> list[Event]:
        """Reserve the next block of producer ids, up to `producer_ids_upto`, for this broker; valid once durable."""
        upto = self._producer_ids_upto + PRODUCER_IDS_BLOCK
        assert owner >= 0 and upto <= _PRODUCER_ID_MAX, (owner, upto)
        return [ProducerIdsReserved(upto, owner)]

    def decide_register_broker(self, request: RegistrationRequest, *, leader_epoch: int = 0) -> list[Event]:
        """Register a broker. The first one takes over the topics that it has led as a single node.

        `leader_epoch`: the highest leader epoch in its logs, which must not be used again.
        """
        events: list[Event] = [*decide_register(self.cluster, request)]
        if not self.cluster.has_brokers:
            for topic in self.topics:
                partitions = range(topic.partition_count)
                events += decide_adopt(topic.id, partitions, request.broker_id, leader_epoch)
        return events

    def decide_catch_up(self, snapshot: Sequence[Event]) -> list[Event]:
        """The events that turn the current state into a snapshot's: they save what it contains and remove the rest."""
        named = {key_of(event) for event in snapshot}
        mine: list[Event] = [TopicRemoved(topic.id) for topic in self.topics]
        mine += [ResourceConfigSaved(kind, name, {}) for kind, name in sorted(self._resources)]
        mine += self.cluster.removals()
        return [*(gone for gone in mine if key_of(gone) not in named), *snapshot]

    def _save_overrides(self, topic: Topic, overrides: dict[str, str]) -> list[Event]:
        check_together(overrides, self._defaults)
        if overrides == topic.overrides:
            return []
        config = resolve(overrides, self._defaults)
        return [TopicSaved(replace(topic, overrides=overrides)), *self._follow_config(topic, config)]

    def _follow_config(self, topic: Topic, config: TopicConfig) -> list[PartitionSaved]:
        isr_size_min, may_elect_unclean = config.insync_replicas_min, config.unclean_election
        return decide_follow_config(self.cluster, topic.id, isr_size_min, may_elect_unclean=may_elect_unclean)

    def _save_resource(self, kind: ResourceKind, name: str, overrides: dict[str, str]) -> list[Event]:
        present = self._resources.get((kind, name))
        if overrides == (present or {}):
            return []
        if kind is ResourceKind.GROUP:
            check_group(overrides, self._group_static)
        if present is None and len(self._resources) >= RESOURCE_CONFIGS_MAX:
            raise InvalidRequest(
                f"at most {RESOURCE_CONFIGS_MAX} groups and client metrics subscriptions can have their own settings"
            )
        return [ResourceConfigSaved(kind, name, overrides)]

    def _save_broker(self, overrides: dict[str, str]) -> list[Event]:
        if overrides == self._broker_overrides:
            return []
        defaults = {**self.topic_defaults, **overrides}
        check_together({}, defaults)
        events: list[Event] = [BrokerConfigSaved(overrides)]
        for topic in self.topics:
            try:
                check_together(topic.overrides, defaults)
            except InvalidConfig as error:
                raise InvalidConfig(f"topic {topic.name!r} would become invalid: {error}") from None
            if self.cluster.has_brokers:
                events += self._follow_config(topic, resolve(topic.overrides, defaults))
        return events

    def _check_partition_count(self, wanted: int, present: int) -> None:
        if not 1 <= wanted <= PARTITIONS_PER_TOPIC_MAX:
            raise InvalidPartitions(f"a topic has 1 to {PARTITIONS_PER_TOPIC_MAX} partitions, got {wanted}")
        room = PARTITIONS_TOTAL_MAX - self._partition_count
        if wanted - present > room:
            raise InvalidPartitions(
                f"the limit of {PARTITIONS_TOTAL_MAX} partitions over all topics leaves room for {room} more"
            )

    # --- applying ---

    def apply(self, event: Event) -> None:
        """Apply an event. Never fails: any event may follow any other, because the log may be compacted."""
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
            case _:
                self.cluster.apply(event)

    def _inherit(self) -> None:
        """Recompute the inherited settings of every topic."""
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
    """Names that fold to the same string would share their metrics, so only one of them may exist."""
    return name.replace(".", "_")


def _refuse_internal(topic: Topic, allowed: bool, verb: str) -> None:
    if topic.internal and not allowed:
        raise InvalidTopic(f"{topic.name!r} is an internal topic and cannot be {verb}")
