"""Settings told and changed by clients, in every version of the calls."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from penstock.core.machines.catalog.config_changes import ConfigOp
from penstock.core.topic_config import BROKER_SETTINGS
from penstock.core.topic_config import SETTINGS as TOPIC_SETTINGS
from penstock.doors.kafka.admin_configs import ConfigHandlers
from penstock.node.connections.addresses import Address
from penstock.node.settings import DEFINITIONS
from penstock.wire.kafka import API, ApiKey, ErrorCode, messages

from .conftest import SETTINGS, Node

TOPIC, BROKER, BROKER_LOGGER, GROUP = 2, 4, 8, 32
SELF = str(SETTINGS.node_id)
STATIC, DEFAULT = 4, 5
INT, LONG, LIST = 3, 5, 7


def versions(api_key: int) -> range:
    return range(API[api_key].version_min, API[api_key].version_max + 1)


def describe(
    node: Node, kind: int, name: str, keys: list[str] | None = None, version: int = 4, **asked: bool
) -> Any:
    request = messages.DescribeConfigsRequest
    resource = request.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    handlers = ConfigHandlers(node.waist)
    node.waist.cluster.advertised = Address("broker.example", 19092)
    body = request(resources=[resource], **asked)
    (result,) = node.ask(handlers.describe_configs, ApiKey.DESCRIBE_CONFIGS, version, body).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def told(result: Any) -> dict[str, Any]:
    assert (result.error_code, result.error_message) == (0, "")
    return {one.name: one for one in result.configs}


class TestDescribe:
    @pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_CONFIGS))
    def test_every_version_tells_every_setting_of_a_topic(self, node: Node, version: int) -> None:
        node.make_topic("orders", cleanup_policy="compact")
        configs = told(describe(node, TOPIC, "orders", version=version))
        assert list(configs) == sorted(TOPIC_SETTINGS)
        found = {name: (configs[name].value, configs[name].config_source) for name in configs}
        assert found["cleanup.policy"] == ("compact", 1), "the schema registry refuses to start otherwise"
        assert found["retention.ms"] == ("86400000", STATIC)
        assert found["segment.bytes"] == ("1073741824", DEFAULT)
        assert found["penstock.durability"] == ("fsync", DEFAULT)
        assert not any(one.read_only or one.is_sensitive or one.synonyms for one in configs.values())
        if version >= 3:
            types = {name: configs[name].config_type for name in configs}
            assert (types["cleanup.policy"], types["retention.ms"], types["segment.bytes"]) == (
                LIST,
                LONG,
                INT,
            )
            assert all(one.documentation is None for one in configs.values())

    def test_synonyms_tell_all_who_have_a_say(self, node: Node) -> None:
        node.make_topic("orders")
        alter(node, (TOPIC, "orders", [("retention.ms", ConfigOp.SET, "1000")]))
        alter(node, (BROKER, "", [("log.retention.ms", ConfigOp.SET, "2000")]))
        config = told(describe(node, TOPIC, "orders", include_synonyms=True))["retention.ms"]
        assert [(one.name, one.value, one.source) for one in config.synonyms] == [
            ("retention.ms", "1000", 1),
            ("log.retention.ms", "2000", 3),
            ("log.retention.ms", "86400000", STATIC),
            ("log.retention.hours", "168", DEFAULT),
        ]

    def test_documentation_when_asked(self, node: Node) -> None:
        node.make_topic("orders")
        for kind, name in ((TOPIC, "orders"), (BROKER, SELF)):
            configs = told(describe(node, kind, name, include_documentation=True))
            assert all(one.documentation for one in configs.values())

    def test_only_the_keys_asked_for(self, node: Node) -> None:
        node.make_topic("orders")
        assert list(told(describe(node, TOPIC, "orders", ["retention.ms", "no.such"]))) == ["retention.ms"]
        assert len(told(describe(node, TOPIC, "orders", []))) == len(TOPIC_SETTINGS)

    def test_a_broker_tells_all_that_has_a_name_in_kafka(self, node: Node) -> None:
        configs = told(describe(node, BROKER, SELF))
        assert configs.keys() >= {one.kafka for one in DEFINITIONS if one.kafka} | BROKER_SETTINGS.keys()
        found = {name: (one.value, one.config_source, one.read_only) for name, one in configs.items()}
        assert found["advertised.listeners"] == ("PLAINTEXT://broker.example:19092", STATIC, True)
        assert found["listeners"] == ("PLAINTEXT://127.0.0.1:9092", STATIC, True)
        assert found["node.id"] == found["broker.id"] == (SELF, STATIC, True)
        assert found["auto.create.topics.enable"] == ("true", DEFAULT, True)
        assert found["num.partitions"] == ("2", STATIC, True)
        assert found["log.retention.check.interval.ms"] == ("30000", DEFAULT, True)
        assert found["log.retention.ms"] == ("86400000", STATIC, False)
        assert found["log.dirs"] == (node.broker.data_directory, STATIC, True)
        assert found["log.flush.interval.messages"] == (str(2**63 - 1), DEFAULT, False)
        types = {name: one.config_type for name, one in configs.items()}
        assert (types["log.dirs"], types["num.partitions"], types["queued.max.request.bytes"]) == (
            LIST,
            INT,
            LONG,
        )

    def test_the_default_of_all_brokers_is_what_was_changed(self, node: Node) -> None:
        assert told(describe(node, BROKER, "")) == {}
        alter(node, (BROKER, "", [("log.retention.ms", ConfigOp.SET, "2000")]))
        (changed,) = told(describe(node, BROKER, "")).values()
        assert (changed.name, changed.value, changed.config_source) == ("log.retention.ms", "2000", 3)
        own = told(describe(node, BROKER, SELF))["log.retention.ms"]
        assert (own.value, own.config_source) == ("2000", 2)

    @pytest.mark.parametrize(
        ("kind", "name", "code"),
        [
            (TOPIC, "nobody", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
            (BROKER, "99", ErrorCode.INVALID_REQUEST),
            (BROKER, "first", ErrorCode.INVALID_REQUEST),
            (0, "", ErrorCode.INVALID_REQUEST),
            (8, "", ErrorCode.INVALID_REQUEST),
            (8, "99", ErrorCode.INVALID_REQUEST),
            (16, "", ErrorCode.INVALID_REQUEST),
            (32, "", ErrorCode.INVALID_REQUEST),
            (64, "x", ErrorCode.INVALID_REQUEST),
        ],
    )
    def test_what_has_no_settings_is_refused_in_words(
        self, node: Node, kind: int, name: str, code: ErrorCode
    ) -> None:
        resource: Any = (kind, name, [])
        for result in (describe(node, kind, name), *alter(node, resource), *replace(node, resource)):
            assert result.error_code == code
            assert result.error_message

    def test_a_resource_asked_for_twice_is_refused(self, node: Node) -> None:
        node.make_topic("orders")
        request = messages.DescribeConfigsRequest
        asked = [
            request.DescribeConfigsResource(
                resource_type=TOPIC, resource_name="orders", configuration_keys=None
            )
            for _ in range(2)
        ]
        handler = ConfigHandlers(node.waist).describe_configs
        results = node.ask(handler, ApiKey.DESCRIBE_CONFIGS, 4, request(resources=asked)).results
        assert [(one.error_code, one.configs) for one in results] == [(ErrorCode.INVALID_REQUEST, [])] * 2


def alter(node: Node, *resources: Any, version: int = 1, validate_only: bool = False) -> list[Any]:
    request = messages.IncrementalAlterConfigsRequest
    body = request(
        resources=[
            request.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    request.AlterableConfig(name=key, config_operation=int(op), value=value)
                    for key, op, value in configs
                ],
            )
            for kind, name, configs in resources
        ],
        validate_only=validate_only,
    )
    handler = ConfigHandlers(node.waist).incremental_alter_configs
    responses: list[Any] = node.ask(handler, ApiKey.INCREMENTAL_ALTER_CONFIGS, version, body).responses
    assert [(one.resource_type, one.resource_name) for one in responses] == [one[:2] for one in resources]
    return responses


def replace(node: Node, *resources: Any, version: int = 2, validate_only: bool = False) -> list[Any]:
    request = messages.AlterConfigsRequest
    body = request(
        resources=[
            request.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[request.AlterableConfig(name=key, value=value) for key, value in configs],
            )
            for kind, name, configs in resources
        ],
        validate_only=validate_only,
    )
    handler = ConfigHandlers(node.waist).alter_configs
    responses: list[Any] = node.ask(handler, ApiKey.ALTER_CONFIGS, version, body).responses
    return responses


def codes(answers: list[Any]) -> list[ErrorCode]:
    return [ErrorCode(answer.error_code) for answer in answers]


def overrides(node: Node, name: str) -> dict[str, str]:
    return dict(node.broker.catalog.topic(name).overrides)


class TestIncrementalAlter:
    @pytest.mark.parametrize("version", versions(ApiKey.INCREMENTAL_ALTER_CONFIGS))
    def test_every_version_sets_and_deletes_and_keeps_the_rest(self, node: Node, version: int) -> None:
        node.make_topic("orders", retention_ms="1000", segment_bytes="2000000")
        changes = [("retention.ms", ConfigOp.DELETE, None), ("max.message.bytes", ConfigOp.SET, "5000")]
        (answer,) = alter(node, (TOPIC, "orders", changes), version=version)
        assert (answer.error_code, answer.error_message) == (0, None)
        assert overrides(node, "orders") == {"segment.bytes": "2000000", "max.message.bytes": "5000"}
        assert node.broker.partition("orders", 0).config.message_bytes_max == 5000, (
            "it counts from the next batch on"
        )

    def test_lists_grow_and_shrink(self, node: Node) -> None:
        node.make_topic("orders")
        alter(node, (TOPIC, "orders", [("cleanup.policy", ConfigOp.APPEND, "compact")]))
        assert overrides(node, "orders") == {"cleanup.policy": "delete,compact"}
        alter(node, (TOPIC, "orders", [("cleanup.policy", ConfigOp.SUBTRACT, "delete")]))
        assert overrides(node, "orders") == {"cleanup.policy": "compact"}

    def test_each_resource_is_judged_by_itself_and_one_flush_keeps_them(self, node: Node) -> None:
        for name in ("good", "typo", "value", "append", "strange", "double", "twice"):
            node.make_topic(name)
        before = node.workers.jobs
        answers = alter(
            node,
            (TOPIC, "good", [("retention.ms", ConfigOp.SET, "7")]),
            (TOPIC, "typo", [("retention.mss", ConfigOp.SET, "7")]),
            (
                TOPIC,
                "value",
                [("max.message.bytes", ConfigOp.SET, "9"), ("retention.ms", ConfigOp.SET, "soon")],
            ),
            (TOPIC, "append", [("retention.ms", ConfigOp.APPEND, "7")]),
            (TOPIC, "strange", [("retention.ms", 9, "7")]),
            (TOPIC, "double", [("retention.ms", ConfigOp.SET, "7"), ("retention.ms", ConfigOp.SET, "8")]),
            (TOPIC, "twice", [("retention.ms", ConfigOp.SET, "7")]),
            (TOPIC, "twice", [("segment.ms", ConfigOp.SET, "7")]),
            (BROKER, SELF, [("log.retention.ms", ConfigOp.SET, "77")]),
        )
        assert codes(answers) == [
            ErrorCode.NONE,
            ErrorCode.INVALID_CONFIG,
            ErrorCode.INVALID_CONFIG,
            ErrorCode.INVALID_CONFIG,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.NONE,
        ]
        assert all(answer.error_message for answer in answers if answer.error_code)
        assert node.workers.jobs == before + 1
        changed = {one.name: one.overrides for one in node.broker.catalog.topics if one.overrides}
        assert changed == {"good": {"retention.ms": "7"}}, "what is refused changes nothing"

    def test_validate_only_changes_nothing(self, node: Node) -> None:
        node.make_topic("orders")
        good = (TOPIC, "orders", [("retention.ms", ConfigOp.SET, "7")])
        bad = (BROKER, "", [("log.retention.ms", ConfigOp.SET, "soon")])
        assert codes(alter(node, good, bad, validate_only=True)) == [ErrorCode.NONE, ErrorCode.INVALID_CONFIG]
        assert overrides(node, "orders") == {}

    @pytest.mark.parametrize("name", ["", SELF])
    def test_a_broker_setting_reaches_its_topics_and_lasts(self, node: Node, name: str) -> None:
        node.make_topic("orders")
        (answer,) = alter(node, (BROKER, name, [("log.segment.bytes", ConfigOp.SET, "4096")]))
        assert answer.error_code == 0
        node.restart(SETTINGS)
        assert node.broker.partition("orders", 0).config.segment_bytes == 4096
        config = told(describe(node, TOPIC, "orders"))["segment.bytes"]
        assert (config.value, config.config_source) == ("4096", 3)

    @pytest.mark.parametrize("fixed", ["log.retention.check.interval.ms", "advertised.listeners", "node.id"])
    def test_what_is_fixed_is_refused_in_words(self, node: Node, fixed: str) -> None:
        answers = alter(node, (BROKER, SELF, [(fixed, ConfigOp.SET, "1")]))
        answers += replace(node, (BROKER, "", [(fixed, "1")]))
        assert codes(answers) == [ErrorCode.INVALID_REQUEST] * 2
        assert all("Cannot update these configs dynamically" in answer.error_message for answer in answers)

    def test_a_broker_setting_that_is_none(self, node: Node) -> None:
        (answer,) = alter(node, (BROKER, SELF, [("log.retention.mss", ConfigOp.SET, "1")]))
        assert answer.error_code == ErrorCode.INVALID_CONFIG
        assert "did you mean 'log.retention.ms'" in answer.error_message


class TestAlter:
    @pytest.mark.parametrize("version", versions(ApiKey.ALTER_CONFIGS))
    def test_every_version_resets_what_it_does_not_name(self, node: Node, version: int) -> None:
        node.make_topic("orders", retention_ms="1000", segment_bytes="2000000")
        (answer,) = replace(node, (TOPIC, "orders", [("retention.ms", "3000")]), version=version)
        assert (answer.error_code, answer.error_message) == (0, None)
        assert overrides(node, "orders") == {"retention.ms": "3000"}

    def test_the_broker_too(self, node: Node) -> None:
        replace(node, (BROKER, "", [("log.retention.ms", "7"), ("log.roll.ms", "8")]))
        assert codes(replace(node, (BROKER, SELF, [("log.roll.ms", "9")]))) == [ErrorCode.NONE]
        assert node.broker.catalog.broker_overrides == {"log.roll.ms": "9"}

    def test_each_resource_is_judged_by_itself(self, node: Node) -> None:
        for name in ("good", "null", "double", "twice"):
            node.make_topic(name, retention_ms="1")
        answers = replace(
            node,
            (TOPIC, "good", []),
            (TOPIC, "null", [("retention.ms", None)]),
            (TOPIC, "double", [("retention.ms", "7"), ("retention.ms", "8")]),
            (TOPIC, "twice", []),
            (TOPIC, "twice", []),
            (TOPIC, "nobody", []),
        )
        assert codes(answers) == [
            ErrorCode.NONE,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert {one.name for one in node.broker.catalog.topics if not one.overrides} == {"good"}

    def test_validate_only_changes_nothing(self, node: Node) -> None:
        node.make_topic("orders", retention_ms="1")
        assert codes(replace(node, (TOPIC, "orders", []), validate_only=True)) == [ErrorCode.NONE]
        assert overrides(node, "orders") == {"retention.ms": "1"}


class TestGroups:
    def test_settings_of_a_group_last_and_are_listed(self, node: Node) -> None:
        change = ("consumer.session.timeout.ms", ConfigOp.SET, "50000")
        assert codes(alter(node, (GROUP, "g", [change]))) == [ErrorCode.NONE]
        node.restart(SETTINGS)
        config = told(describe(node, GROUP, "g", include_synonyms=True))["consumer.session.timeout.ms"]
        assert (config.value, config.config_source) == ("50000", 8)
        assert [one.source for one in config.synonyms] == [8, DEFAULT]
        assert resources(node, GROUP) == ["g"]
        assert codes(alter(node, (GROUP, "g", [(change[0], ConfigOp.DELETE, None)]))) == [ErrorCode.NONE]
        assert resources(node, GROUP) == []

    def test_validate_only_changes_nothing(self, node: Node) -> None:
        changes = [("consumer.session.timeout.ms", ConfigOp.SET, "50000")]
        assert codes(alter(node, (GROUP, "g", changes), validate_only=True)) == [ErrorCode.NONE]
        assert resources(node, GROUP) == []


class TestLoggers:
    def test_a_level_counts_at_once_unless_it_is_only_validated(self, node: Node) -> None:
        logger = logging.getLogger("penstock.test-configs")
        change = (BROKER_LOGGER, SELF, [(logger.name, ConfigOp.SET, "ERROR")])
        try:
            assert codes(alter(node, change, validate_only=True)) == [ErrorCode.NONE]
            assert logger.level == logging.NOTSET
            assert codes(alter(node, change)) == [ErrorCode.NONE]
            assert logger.level == logging.ERROR
            assert told(describe(node, BROKER_LOGGER, SELF))[logger.name].value == "ERROR"
            alter(node, (BROKER_LOGGER, SELF, [(logger.name, ConfigOp.DELETE, None)]))
            assert logger.level == logging.NOTSET
        finally:
            logger.setLevel(logging.NOTSET)

    def test_a_refused_level_leaves_the_others_alone(self, node: Node) -> None:
        logger = logging.getLogger("penstock.test-configs")
        changes = [(logger.name, ConfigOp.SET, "ERROR"), ("root", ConfigOp.SET, "LOUD")]
        assert codes(alter(node, (BROKER_LOGGER, SELF, changes))) == [ErrorCode.INVALID_CONFIG]
        assert logger.level == logging.NOTSET

    def test_levels_are_not_replaced_as_a_whole(self, node: Node) -> None:
        assert codes(replace(node, (BROKER_LOGGER, SELF, []))) == [ErrorCode.INVALID_REQUEST]


def resources(node: Node, *kinds: int) -> list[str]:
    body = messages.ListConfigResourcesRequest(resource_types=list(kinds))
    handler = ConfigHandlers(node.waist).list_config_resources
    answer = node.ask(handler, ApiKey.LIST_CONFIG_RESOURCES, 1, body)
    assert answer.error_code == 0
    return [one.resource_name for one in answer.config_resources]


class TestResources:
    def test_every_kind_is_listed_when_none_is_named(self, node: Node) -> None:
        node.make_topic("orders")
        assert resources(node) == ["orders", SELF, SELF]

    def test_a_kind_that_has_no_settings(self, node: Node) -> None:
        body = messages.ListConfigResourcesRequest(resource_types=[TOPIC, 3])
        handler = ConfigHandlers(node.waist).list_config_resources
        answer = node.ask(handler, ApiKey.LIST_CONFIG_RESOURCES, 1, body)
        assert (answer.error_code, answer.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])
