"""Laws of the catalog: replay gives the same state, deciding changes nothing, events survive their bytes."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import BrokerError
from penstock.core.features import FeatureUpdate
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.config_changes import ConfigChange, ConfigOp
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
    decode,
    encode,
    key_of,
)
from penstock.core.resource_config import ResourceKind

NAMES = st.sampled_from(["a", "b", "a.b", "a_b", "orders", "__consumer_offsets", "bad name"])
VALUES = {
    "retention.ms": ["5", "-1", "soon"],
    "cleanup.policy": ["compact", "delete", "compact,delete"],
    "min.compaction.lag.ms": ["0", "50"],
    "max.compaction.lag.ms": ["10", "100"],
    "no.such.setting": ["1"],
}
BROKER_VALUES = {
    "log.retention.ms": ["7", "8"],
    "log.cleanup.policy": ["compact", "delete"],
    "log.cleaner.max.compaction.lag.ms": ["10", "100"],
}
RESOURCE_VALUES = {
    "consumer.session.timeout.ms": ["45000", "60000", "60001"],
    "consumer.heartbeat.interval.ms": ["5000", "15000", "soon"],
    "share.auto.offset.reset": ["earliest"],
    "interval.ms": ["100", "99"],
    "match": ["client_id=a"],
    "no.such.setting": ["1"],
}
KINDS = st.sampled_from(ResourceKind)
GROUPS = st.sampled_from(["g", "a/b", "gruppe ü"])
FEATURES = st.sampled_from(["transaction.version", "group.version", "no.such.feature"])


def choose(values: dict[str, list[str]]) -> st.SearchStrategy[tuple[str, str]]:
    return st.sampled_from([(name, value) for name, options in values.items() for value in options])


def changes(values: dict[str, list[str]]) -> st.SearchStrategy[list[ConfigChange]]:
    one = st.builds(lambda op, pair: ConfigChange(op, *pair), st.sampled_from(ConfigOp), choose(values))
    return st.lists(one, max_size=3)


def overrides(values: dict[str, list[str]]) -> st.SearchStrategy[dict[str, str]]:
    return st.lists(choose(values), max_size=3).map(dict)


Decide = Callable[[Catalog, int], list[Event]]
COMMANDS: st.SearchStrategy[Decide] = st.one_of(
    st.builds(
        lambda name, count, own, internal: (
            lambda catalog, step: catalog.decide_create_topic(
                name, count, own, topic_id=step.to_bytes(16, "big"), now_ms=step, internal=internal
            )
        ),
        NAMES,
        st.integers(0, 20),
        overrides(VALUES),
        st.booleans(),
    ),
    st.builds(lambda name: lambda catalog, _: catalog.decide_delete_topic(name), NAMES),
    st.builds(
        lambda name, total: lambda catalog, _: catalog.decide_add_partitions(name, total),
        NAMES,
        st.integers(0, 30),
    ),
    st.builds(
        lambda name, own: lambda catalog, _: catalog.decide_set_configs(name, own), NAMES, overrides(VALUES)
    ),
    st.builds(
        lambda name, some: lambda catalog, _: catalog.decide_alter_configs(name, some), NAMES, changes(VALUES)
    ),
    st.builds(
        lambda some: lambda catalog, _: catalog.decide_alter_broker_config(some), changes(BROKER_VALUES)
    ),
    st.builds(lambda own: lambda catalog, _: catalog.decide_set_broker_config(own), overrides(BROKER_VALUES)),
    st.builds(lambda owner: lambda catalog, _: catalog.decide_reserve_producer_ids(owner), st.integers(0, 5)),
    st.builds(
        lambda own, is_shared: (
            lambda catalog, _: catalog.decide_adopt_topic_defaults(own, is_shared=is_shared)
        ),
        overrides(BROKER_VALUES),
        st.booleans(),
    ),
    st.builds(
        lambda kind, name, some: lambda catalog, _: catalog.decide_alter_resource_config(kind, name, some),
        KINDS,
        GROUPS,
        changes(RESOURCE_VALUES),
    ),
    st.builds(
        lambda kind, name, own: lambda catalog, _: catalog.decide_set_resource_config(kind, name, own),
        KINDS,
        GROUPS,
        overrides(RESOURCE_VALUES),
    ),
    st.builds(
        lambda name, level, move: (
            lambda catalog, _: catalog.decide_update_features([FeatureUpdate(name, level, move)], 1)
        ),
        FEATURES,
        st.integers(-1, 3),
        st.integers(0, 4),
    ),
)


def state(catalog: Catalog) -> object:
    """Everything that can be seen of a catalog."""
    topics = catalog.topics
    return (
        [encode(TopicSaved(topic)) for topic in topics],
        [(catalog.config(topic.name), catalog.describe(topic.name)) for topic in topics],
        [catalog.topic_by_id(topic.id) for topic in topics],
        catalog.partition_count,
        catalog.broker_overrides,
        dict(catalog.defaults),
        dict(catalog.topic_defaults),
        catalog.describe_broker(),
        catalog.producer_ids_upto,
        catalog.features,
        {
            (kind, name): (catalog.resource_overrides(kind, name), catalog.describe_resource(kind, name))
            for kind in ResourceKind
            for name in catalog.resource_names(kind)
        },
    )


def live(commands: list[Decide]) -> tuple[Catalog, list[Event]]:
    """Run commands as a host does, checking that deciding alone changes nothing."""
    catalog, happened = Catalog(), []
    for step, decide in enumerate(commands, start=2):
        before = state(catalog)
        try:
            events = decide(catalog, step)
        except BrokerError:
            events = []
        assert state(catalog) == before, "decide wrote"
        for event in events:
            catalog.apply(event)
        happened += events
    return catalog, happened


def replay(events: list[Event]) -> Catalog:
    catalog = Catalog()
    for event in events:
        catalog.apply(decode(*encode(event)))
    return catalog


def compacted(events: list[Event]) -> list[Event]:
    """What compaction keeps of a log: the last event of each key, in the order of the log."""
    last = {key_of(event): place for place, event in enumerate(events)}
    return [events[place] for place in sorted(last.values())]


@given(st.lists(COMMANDS, max_size=25))
def test_replaying_the_events_gives_the_live_state(commands: list[Decide]) -> None:
    catalog, events = live(commands)
    assert state(replay(events)) == state(catalog)


@given(st.lists(COMMANDS, max_size=25), st.integers(0, 50))
def test_replaying_a_log_compacted_anywhere_gives_the_live_state(
    commands: list[Decide], cleaned: int
) -> None:
    catalog, events = live(commands)
    assert state(replay(compacted(events[:cleaned]) + events[cleaned:])) == state(catalog)


@given(st.lists(COMMANDS, max_size=25), st.integers(0, 25))
def test_a_snapshot_brings_a_catalog_that_missed_events_to_the_live_state(
    commands: list[Decide], seen: int
) -> None:
    """What compaction keeps without tombstones, as a ground may keep it for brokers that come back late."""
    catalog, events = live(commands)
    snapshot = [event for event in compacted(events) if encode(event)[1] is not None]
    late = replay(events[:seen])
    for event in late.decide_catch_up(snapshot):
        late.apply(event)
    assert state(late) == state(catalog)


TOPICS = st.builds(
    Topic,
    id=st.binary(min_size=16, max_size=16),
    name=st.from_regex(r"[a-zA-Z0-9_-]{1,249}", fullmatch=True),
    partition_count=st.integers(1, 10_000),
    overrides=st.sampled_from([{}, {"retention.ms": "5"}, {"cleanup.policy": "compact", "flush.ms": "1"}]),
    internal=st.booleans(),
    created_ms=st.integers(0, 2**53),
)
EVENTS = st.one_of(
    st.builds(TopicSaved, TOPICS),
    st.builds(TopicRemoved, st.binary(min_size=16, max_size=16)),
    st.builds(BrokerConfigSaved, st.sampled_from([{}, {"log.retention.ms": "5"}])),
    st.builds(TopicDefaultsSaved, st.sampled_from([{}, {"log.retention.ms": "5"}])),
    st.builds(ProducerIdsReserved, st.integers(0, 2**63 - 1), st.integers(-1, 9)),
    st.builds(
        ResourceConfigSaved,
        st.just(ResourceKind.GROUP),
        st.text(st.characters(codec="utf-8"), min_size=1, max_size=20),
        st.sampled_from([{}, {"consumer.session.timeout.ms": "50000"}]),
    ),
    st.builds(FeaturesSaved, st.sampled_from([{}, {"transaction.version": 1}])),
)


@given(EVENTS)
def test_events_survive_their_bytes(event: Event) -> None:
    key, value = encode(event)
    assert key == key_of(event)
    assert decode(key, value) == event


@given(st.lists(EVENTS, max_size=30))
def test_apply_never_refuses(events: list[Event]) -> None:
    catalog = Catalog()
    for event in events:
        catalog.apply(event)
    assert catalog.partition_count == sum(topic.partition_count for topic in catalog.topics)


@given(st.binary(max_size=60), st.none() | st.binary(max_size=200))
def test_bytes_of_any_kind_are_an_event_or_refused(key: bytes, value: bytes | None) -> None:
    try:
        event = decode(key, value)
    except BrokerError as error:
        assert error.code == "TornSegment"
    else:
        assert decode(*encode(event)) == event
