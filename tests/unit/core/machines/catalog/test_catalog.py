"""The catalog machine: what it lets happen to topics and settings, and what it refuses in which words."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping

import pytest

from penstock.core import limits
from penstock.core.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidRequest,
    InvalidTopic,
    TopicExists,
    UnknownTopic,
    UnknownTopicId,
)
from penstock.core.machines.catalog.catalog import Catalog, make_topic_id
from penstock.core.machines.catalog.config_changes import ConfigChange, ConfigOp
from penstock.core.machines.catalog.events import (
    BrokerConfigSaved,
    Event,
    ProducerIdsReserved,
    Topic,
    TopicDefaultsSaved,
    TopicRemoved,
    TopicSaved,
)
from penstock.core.resource_config import HEARTBEAT_MS, ResourceKind

NOW_MS = 1_700_000_000_000


def topic_id(number: int) -> bytes:
    return uuid.UUID(int=number + 2, version=4).bytes


def run(catalog: Catalog, events: list[Event]) -> list[Event]:
    for event in events:
        catalog.apply(event)
    return events


def catalog_of(defaults: Mapping[str, str]) -> Catalog:
    """A catalog whose cluster has these topic defaults."""
    catalog = Catalog()
    run(catalog, catalog.decide_adopt_topic_defaults(defaults, is_shared=False))
    return catalog


def create(
    catalog: Catalog,
    name: str,
    partition_count: int = 1,
    overrides: Mapping[str, str | None] | None = None,
    *,
    internal: bool = False,
) -> Topic:
    number = len(catalog.topics) + catalog.producer_ids_upto
    run(catalog, catalog.decide_reserve_producer_ids(0))
    events = catalog.decide_create_topic(
        name, partition_count, overrides or {}, topic_id=topic_id(number), now_ms=NOW_MS, internal=internal
    )
    run(catalog, events)
    return catalog.topic(name)


def test_a_new_topic_is_found_by_name_and_by_id() -> None:
    catalog = Catalog()
    topic = create(catalog, "orders", 3, {"retention.ms": " 05 "})
    assert topic == Topic(topic.id, "orders", 3, {"retention.ms": "5"}, False, NOW_MS)
    assert catalog.find("orders") is catalog.topic_by_id(topic.id) is topic
    assert catalog.config("orders").retention_ms == 5
    assert catalog.partition_count == 3
    assert {entry.name: entry.source for entry in catalog.describe("orders")}["retention.ms"] == "topic"


def test_topics_come_sorted() -> None:
    catalog = Catalog()
    for name in ("b", "a", "c"):
        create(catalog, name)
    assert [topic.name for topic in catalog.topics] == ["a", "b", "c"]


def test_what_is_not_there_is_unknown() -> None:
    catalog = Catalog()
    assert catalog.find("orders") is None
    for refused in (
        lambda: catalog.topic("orders"),
        lambda: catalog.config("orders"),
        lambda: catalog.describe("orders"),
        lambda: catalog.decide_delete_topic("orders"),
        lambda: catalog.decide_add_partitions("orders", 2),
        lambda: catalog.decide_set_configs("orders", {}),
        lambda: catalog.decide_alter_configs("orders", []),
    ):
        with pytest.raises(UnknownTopic, match="orders"):
            refused()
    with pytest.raises(UnknownTopicId, match="0000"):
        catalog.topic_by_id(bytes(16))


def test_a_name_is_given_once() -> None:
    catalog = Catalog()
    create(catalog, "orders")
    with pytest.raises(TopicExists, match="orders"):
        create(catalog, "orders")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ü", "x" * 250])
def test_names_follow_kafkas_rules(name: str) -> None:
    with pytest.raises(InvalidTopic):
        create(Catalog(), name)


def test_names_that_share_their_metrics_collide() -> None:
    catalog = Catalog()
    create(catalog, "a.b_c")
    with pytest.raises(InvalidTopic, match=r"'a_b\.c' collides with topic 'a\.b_c'"):
        create(catalog, "a_b.c")
    run(catalog, catalog.decide_delete_topic("a.b_c"))
    assert create(catalog, "a_b.c").name == "a_b.c"


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state", "__consumer.offsets"])
def test_clients_do_not_take_internal_names(name: str) -> None:
    with pytest.raises(InvalidTopic, match="internal"):
        create(Catalog(), name)


def test_internal_topics_are_the_brokers_own() -> None:
    catalog = Catalog()
    assert create(catalog, "__consumer_offsets", 50, internal=True).internal
    with pytest.raises(InvalidTopic, match="cannot be deleted"):
        catalog.decide_delete_topic("__consumer_offsets")
    with pytest.raises(InvalidTopic, match="cannot be given partitions"):
        catalog.decide_add_partitions("__consumer_offsets", 60)
    run(catalog, catalog.decide_add_partitions("__consumer_offsets", 60, internal=True))
    assert catalog.topic("__consumer_offsets").partition_count == 60
    run(catalog, catalog.decide_delete_topic("__consumer_offsets", internal=True))
    assert catalog.find("__consumer_offsets") is None


@pytest.mark.parametrize("count", [0, -1, limits.PARTITIONS_PER_TOPIC_MAX + 1])
def test_partition_counts_have_bounds(count: int) -> None:
    with pytest.raises(InvalidPartitions, match=str(count)):
        create(Catalog(), "orders", count)


def test_all_topics_together_have_a_bound() -> None:
    catalog = Catalog()
    for number in range(limits.PARTITIONS_TOTAL_MAX // limits.PARTITIONS_PER_TOPIC_MAX):
        create(catalog, f"t{number}", limits.PARTITIONS_PER_TOPIC_MAX)
    with pytest.raises(InvalidPartitions, match="room for 0 more"):
        create(catalog, "one-more")
    run(catalog, catalog.decide_delete_topic("t0"))
    create(catalog, "one-more", limits.PARTITIONS_PER_TOPIC_MAX - 1)
    run(catalog, catalog.decide_add_partitions("one-more", limits.PARTITIONS_PER_TOPIC_MAX))
    assert catalog.partition_count == limits.PARTITIONS_TOTAL_MAX


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"retention.mss": "1"}, "did you mean"),
        ({"retention.ms": "soon"}, "found 'soon'"),
        ({"retention.ms": None}, "missing"),
        ({"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"}, "more than"),
    ],
)
def test_bad_settings_stop_a_topic_from_being(overrides: dict[str, str | None], words: str) -> None:
    catalog = Catalog()
    with pytest.raises(InvalidConfig, match=words):
        create(catalog, "orders", 1, overrides)
    create(catalog, "orders")
    with pytest.raises(InvalidConfig, match=words):
        catalog.decide_set_configs("orders", overrides)


def test_a_deleted_topic_leaves_nothing_and_its_name_is_free() -> None:
    catalog = Catalog()
    old = create(catalog, "orders", 4, {"retention.ms": "5"})
    assert run(catalog, catalog.decide_delete_topic("orders")) == [TopicRemoved(old.id)]
    assert (catalog.topics, catalog.partition_count) == ([], 0)
    new = create(catalog, "orders", 1)
    assert new.id != old.id
    assert catalog.config("orders").retention_ms != 5


def test_partitions_only_grow() -> None:
    catalog = Catalog()
    create(catalog, "orders", 3)
    for total in (3, 2, 0, -1):
        with pytest.raises(InvalidPartitions, match="has 3 partitions"):
            catalog.decide_add_partitions("orders", total)
    with pytest.raises(InvalidPartitions, match="1 to 10000"):
        catalog.decide_add_partitions("orders", limits.PARTITIONS_PER_TOPIC_MAX + 1)
    run(catalog, catalog.decide_add_partitions("orders", 7))
    assert catalog.topic("orders").partition_count == catalog.partition_count == 7


def test_setting_configs_replaces_them_all() -> None:
    catalog = Catalog()
    create(catalog, "orders", 1, {"retention.ms": "5", "segment.bytes": "2048"})
    run(catalog, catalog.decide_set_configs("orders", {"segment.bytes": "4096"}))
    assert catalog.topic("orders").overrides == {"segment.bytes": "4096"}
    assert catalog.config("orders").retention_ms == 7 * 24 * 3600 * 1000


def test_altering_configs_keeps_the_rest() -> None:
    catalog = Catalog()
    create(catalog, "orders", 1, {"retention.ms": "5", "segment.bytes": "2048"})
    changes = [ConfigChange(ConfigOp.SET, "flush.ms", "9"), ConfigChange(ConfigOp.DELETE, "retention.ms")]
    run(catalog, catalog.decide_alter_configs("orders", changes))
    assert catalog.topic("orders").overrides == {"flush.ms": "9", "segment.bytes": "2048"}


def test_no_change_is_no_event() -> None:
    catalog = Catalog()
    create(catalog, "orders", 1, {"retention.ms": "5"})
    assert catalog.decide_set_configs("orders", {"retention.ms": "05"}) == []
    assert catalog.decide_alter_configs("orders", [ConfigChange(ConfigOp.DELETE, "flush.ms")]) == []
    assert catalog.decide_alter_broker_config([]) == []


def test_lists_are_appended_to_and_subtracted_from() -> None:
    catalog = Catalog()
    create(catalog, "orders")

    def policy(op: ConfigOp, value: str) -> str:
        run(catalog, catalog.decide_alter_configs("orders", [ConfigChange(op, "cleanup.policy", value)]))
        return catalog.topic("orders").overrides["cleanup.policy"]

    assert policy(ConfigOp.APPEND, "compact") == "delete,compact"
    assert policy(ConfigOp.APPEND, "compact") == "delete,compact"
    assert policy(ConfigOp.SUBTRACT, "delete") == "compact"
    with pytest.raises(InvalidConfig, match=r"cleanup\.policy"):
        policy(ConfigOp.SUBTRACT, "compact")


@pytest.mark.parametrize("op", [ConfigOp.APPEND, ConfigOp.SUBTRACT])
def test_only_lists_are_appended_to(op: ConfigOp) -> None:
    catalog = Catalog()
    create(catalog, "orders")
    with pytest.raises(InvalidConfig, match="of type long"):
        catalog.decide_alter_configs("orders", [ConfigChange(op, "retention.ms", "1")])


def test_incremental_changes_are_checked() -> None:
    catalog = Catalog()
    create(catalog, "orders")
    with pytest.raises(InvalidRequest, match="missing"):
        catalog.decide_alter_configs("orders", [ConfigChange(ConfigOp.SET, "retention.ms")])
    with pytest.raises(InvalidConfig, match="did you mean"):
        catalog.decide_alter_configs("orders", [ConfigChange(ConfigOp.SET, "retention.mss", "1")])
    twice = [ConfigChange(ConfigOp.SET, "retention.ms", "1"), ConfigChange(ConfigOp.DELETE, "retention.ms")]
    with pytest.raises(InvalidRequest, match="twice"):
        catalog.decide_alter_configs("orders", twice)


def test_deleting_what_nobody_knows_changes_nothing() -> None:
    """Mirrors delete every setting that the other side leaves at its default."""
    catalog = Catalog()
    create(catalog, "orders")
    unknown = [
        ConfigChange(ConfigOp.DELETE, "no.such.setting"),
        ConfigChange(ConfigOp.DELETE, "retention.ms"),
    ]
    assert catalog.decide_alter_configs("orders", unknown) == []
    assert catalog.decide_alter_broker_config(unknown) == []
    assert catalog.decide_alter_resource_config(ResourceKind.GROUP, "g", unknown) == []


def test_broker_settings_reach_topics_that_did_not_choose() -> None:
    catalog = catalog_of({"log.retention.ms": "100", "log.segment.bytes": "2048"})
    create(catalog, "inherits")
    create(catalog, "chooses", 1, {"retention.ms": "5"})
    events = catalog.decide_alter_broker_config([ConfigChange(ConfigOp.SET, "log.retention.ms", "0200")])
    assert events == [BrokerConfigSaved({"log.retention.ms": "200"})]
    run(catalog, events)
    assert catalog.config("inherits").retention_ms == 200
    assert catalog.config("inherits").segment_bytes == 2048
    assert catalog.config("chooses").retention_ms == 5
    assert catalog.defaults == {"log.retention.ms": "200", "log.segment.bytes": "2048"}
    run(catalog, catalog.decide_alter_broker_config([ConfigChange(ConfigOp.DELETE, "log.retention.ms")]))
    assert catalog.config("inherits").retention_ms == 100


def test_setting_the_broker_config_replaces_what_changed_at_run_time() -> None:
    catalog = catalog_of({"log.segment.bytes": "2048"})
    run(catalog, catalog.decide_set_broker_config({"log.retention.ms": "5"}))
    run(catalog, catalog.decide_set_broker_config({"log.roll.ms": "6"}))
    assert catalog.broker_overrides == {"log.roll.ms": "6"}
    assert catalog.defaults == {"log.roll.ms": "6", "log.segment.bytes": "2048"}


def test_appending_to_a_broker_list_starts_from_what_is_configured() -> None:
    catalog = catalog_of({"log.cleanup.policy": "compact"})
    change = ConfigChange(ConfigOp.APPEND, "log.cleanup.policy", "delete")
    assert catalog.decide_alter_broker_config([change]) == [
        BrokerConfigSaved({"log.cleanup.policy": "compact,delete"})
    ]


def test_a_broker_setting_may_not_make_a_topic_invalid() -> None:
    catalog = Catalog()
    create(catalog, "orders", 1, {"min.compaction.lag.ms": "10"})
    change = ConfigChange(ConfigOp.SET, "log.cleaner.max.compaction.lag.ms", "9")
    with pytest.raises(InvalidConfig, match="topic 'orders' would become invalid"):
        catalog.decide_alter_broker_config([change])


def test_the_first_broker_of_a_shared_log_gives_the_topic_defaults_and_no_later_one() -> None:
    catalog = Catalog()
    create(catalog, "orders")
    first = catalog.decide_adopt_topic_defaults({"log.retention.ms": " 05"}, is_shared=True)
    assert first == [TopicDefaultsSaved({"log.retention.ms": "5"})]
    run(catalog, first)
    assert catalog.config("orders").retention_ms == 5
    assert catalog.decide_adopt_topic_defaults({"log.retention.ms": "7"}, is_shared=True) == []


def test_a_broker_alone_gives_the_topic_defaults_at_every_start() -> None:
    catalog = catalog_of({"log.retention.ms": "5", "log.roll.ms": "6"})
    create(catalog, "orders")
    same = {"log.roll.ms": "6", "log.retention.ms": "5"}
    assert catalog.decide_adopt_topic_defaults(same, is_shared=False) == []
    run(catalog, catalog.decide_adopt_topic_defaults({"log.retention.ms": "7"}, is_shared=False))
    assert catalog.topic_defaults == {"log.retention.ms": "7"}
    assert catalog.config("orders").retention_ms == 7
    run(catalog, catalog.decide_set_broker_config({"log.retention.ms": "9"}))
    run(catalog, catalog.decide_adopt_topic_defaults({"log.retention.ms": "8"}, is_shared=False))
    assert catalog.config("orders").retention_ms == 9, "what was changed at run time goes first"
    with pytest.raises(InvalidConfig, match=r"more than max\.compaction\.lag\.ms"):
        catalog.decide_adopt_topic_defaults(
            {"log.cleaner.min.compaction.lag.ms": "2", "log.cleaner.max.compaction.lag.ms": "1"},
            is_shared=False,
        )


def test_a_snapshot_takes_away_what_it_does_not_name() -> None:
    catalog, other = Catalog(), Catalog()
    create(catalog, "stays")
    create(catalog, "goes")
    run(catalog, catalog.decide_set_resource_config(ResourceKind.GROUP, "g", {HEARTBEAT_MS: "6000"}))
    snapshot: list[Event] = [TopicSaved(catalog.topic("stays")), TopicSaved(Topic(topic_id(99), "new", 2))]
    events = catalog.decide_catch_up(snapshot)
    assert TopicRemoved(catalog.topic("goes").id) in events
    run(catalog, events)
    run(other, snapshot)
    assert catalog.topics == other.topics
    assert catalog.resource_names(ResourceKind.GROUP) == []
    assert catalog.decide_catch_up(snapshot) == snapshot


def test_topic_names_of_settings_are_not_broker_names() -> None:
    with pytest.raises(InvalidConfig, match="did you mean"):
        Catalog().decide_alter_broker_config([ConfigChange(ConfigOp.SET, "retention.ms", "9")])
    with pytest.raises(InvalidConfig, match="found 'soon'"):
        Catalog().decide_adopt_topic_defaults({"log.retention.ms": "soon"}, is_shared=False)


def test_producer_ids_are_reserved_in_blocks_that_never_overlap() -> None:
    catalog = Catalog()
    block = limits.PRODUCER_IDS_BLOCK
    assert run(catalog, catalog.decide_reserve_producer_ids(1)) == [ProducerIdsReserved(block, 1)]
    assert run(catalog, catalog.decide_reserve_producer_ids(2)) == [ProducerIdsReserved(2 * block, 2)]
    catalog.apply(ProducerIdsReserved(5))
    assert catalog.producer_ids_upto == 2 * block


def test_apply_takes_events_in_any_order() -> None:
    catalog = Catalog()
    catalog.apply(TopicRemoved(topic_id(1)))
    catalog.apply(TopicSaved(Topic(topic_id(1), "orders", 2)))
    catalog.apply(TopicSaved(Topic(topic_id(2), "orders", 5)))
    assert [topic.id for topic in catalog.topics] == [topic_id(2)]
    assert catalog.partition_count == 5
    with pytest.raises(UnknownTopicId):
        catalog.topic_by_id(topic_id(1))


class CountingRng:
    """Starts with an id whose text would start with '-'."""

    def __init__(self) -> None:
        self.calls = 0

    def bytes(self, count: int) -> bytes:
        self.calls += 1
        return bytes([0xF8 if self.calls == 1 else 0x11]) + b"\xff" * (count - 1)

    def below(self, bound: int) -> int:
        raise AssertionError("ids need bytes only")


def test_topic_ids_are_random_uuids_fit_for_a_command_line() -> None:
    rng = CountingRng()
    made = make_topic_id(rng)
    assert rng.calls == 2
    assert uuid.UUID(bytes=made).version == 4
    assert not base64.urlsafe_b64encode(made).startswith(b"-")


def test_decisions_on_a_draft_see_each_other_and_leave_the_catalog_alone() -> None:
    catalog = catalog_of({"log.retention.ms": "9"})
    create(catalog, "orders")
    draft = catalog.draft()
    run(draft, draft.decide_delete_topic("orders"))
    create(draft, "a.b")
    run(draft, draft.decide_set_broker_config({"log.retention.ms": "5"}))
    with pytest.raises(InvalidTopic, match="collides"):
        create(draft, "a_b")
    assert [topic.name for topic in draft.topics] == ["a.b"]
    assert draft.config("a.b").retention_ms == 5

    assert [topic.name for topic in catalog.topics] == ["orders"]
    assert (catalog.partition_count, catalog.broker_overrides) == (1, {})
    assert catalog.config("orders").retention_ms == 9
    create(catalog, "a_b")


def test_the_broker_describes_what_topics_inherit() -> None:
    catalog = catalog_of({"log.retention.ms": "9"})
    run(catalog, catalog.decide_set_broker_config({"log.roll.ms": "5"}))
    sources = {entry.name: (entry.value, entry.source) for entry in catalog.describe_broker()}
    assert sources["log.retention.ms"] == ("9", "configured")
    assert sources["log.roll.ms"] == ("5", "changed")
    assert sources["log.segment.bytes"] == ("1073741824", "default")
