"""Questions whose answers are compared with Apache Kafka's, field by field. In order: some change what later ones see.

Never says what the right answer is: `kafka_answers.json` does, recorded from a real Kafka by `python -m compat.record`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from penstock.wire.kafka import ApiKey

TOPIC_NAME = "calls"
GROUP_NAME = "calls-group"
METRICS_NAME = "calls-metrics"
NODE_ID = 1
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP_CONFIG = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3

_ACL = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1}
_ACL |= {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}
_GRANT = {"resource_type": 2, "resource_name": TOPIC_NAME, "resource_pattern_type": 3}
_GRANT |= {"principal": "User:a", "host": "*", "operation": 3, "permission_type": 3}


class Question(NamedTuple):
    """One request."""

    name: str
    key: ApiKey
    version: int
    body: dict[str, Any]


def _alter(name: str, kind: int, resource: str, *changes: tuple[str, int, str | None]) -> Question:
    configs = [{"name": one, "config_operation": op, "value": value} for one, op, value in changes]
    resources = [{"resource_type": kind, "resource_name": resource, "configs": configs}]
    return Question(
        name, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, {"resources": resources, "validate_only": False}
    )


def _replace(name: str, kind: int, resource: str, *configs: tuple[str, str | None]) -> Question:
    listed = [{"name": one, "value": value} for one, value in configs]
    resources = [{"resource_type": kind, "resource_name": resource, "configs": listed}]
    return Question(name, ApiKey.ALTER_CONFIGS, 2, {"resources": resources, "validate_only": False})


def _describe(name: str, kind: int, resource: str, keys: list[str] | None = None) -> Question:
    resources = [{"resource_type": kind, "resource_name": resource, "configuration_keys": keys}]
    body = {"resources": resources, "include_synonyms": True, "include_documentation": False}
    return Question(name, ApiKey.DESCRIBE_CONFIGS, 4, body)


def _reassign(
    name: str, topic: str, partition: int, replicas: list[int] | None, version: int = 1
) -> Question:
    partitions = [{"partition_index": partition, "replicas": replicas}]
    topics = [{"name": topic, "partitions": partitions}]
    return Question(
        name, ApiKey.ALTER_PARTITION_REASSIGNMENTS, version, {"timeout_ms": 10_000, "topics": topics}
    )


def _elect(name: str, kind: int, topics: list[tuple[str, list[int]]] | None, version: int = 2) -> Question:
    listed = None if topics is None else [{"topic": one, "partitions": which} for one, which in topics]
    body = {"election_type": kind, "topic_partitions": listed, "timeout_ms": 10_000}
    return Question(name, ApiKey.ELECT_LEADERS, version, body)


def _create(name: str, topic: str, at: int | None = None, **configs: str) -> Question:
    """`at`: the broker of both partitions."""
    listed = [{"name": one.replace("_", "."), "value": value} for one, value in configs.items()]
    wanted = {
        "name": topic,
        "num_partitions": 2 if at is None else -1,
        "replication_factor": 1 if at is None else -1,
        "assignments": []
        if at is None
        else [{"partition_index": index, "broker_ids": [at]} for index in (0, 1)],
        "configs": listed,
    }
    body = {"topics": [wanted], "timeout_ms": 10_000, "validate_only": False}
    return Question(name, ApiKey.CREATE_TOPICS, 7, body)


def _features(name: str, feature: str, level: int, kind: int = 1, version: int = 2, **more: Any) -> Question:
    update = {"feature": feature, "max_version_level": level}
    update |= {"upgrade_type": kind} if version >= 1 else {"allow_downgrade": kind != 1}
    return Question(
        name, ApiKey.UPDATE_FEATURES, version, {"timeout_ms": 10_000, "feature_updates": [update], **more}
    )


def _quorum(name: str, topic: str, version: int = 2) -> Question:
    topics = [{"topic_name": topic, "partitions": [{"partition_index": 0}]}]
    return Question(name, ApiKey.DESCRIBE_QUORUM, version, {"topics": topics})


INERT = {
    "remote.storage.enable": "false",
    "local.retention.ms": "-2",
    "local.retention.bytes": "-2",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "leader.replication.throttled.replicas": "0:1,1:1",
    "follower.replication.throttled.replicas": "*",
    "preallocate": "true",
    "file.delete.delay.ms": "1234",
    "compression.gzip.level": "9",
    "compression.lz4.level": "17",
    "compression.zstd.level": "22",
    "segment.index.bytes": "4096",
}
REFUSED = {
    "remote.storage.enable": "perhaps",
    "remote.log.copy.disable": "1",
    "local.retention.ms": "-3",
    "local.retention.bytes": "-3",
    "leader.replication.throttled.replicas": "x",
    "preallocate": "x",
    "file.delete.delay.ms": "-1",
    "compression.gzip.level": "10",
    "compression.lz4.level": "18",
    "compression.zstd.level": "23",
    "segment.index.bytes": "3",
    "no.such.setting": "1",
}

GROUP_VALUES = {
    "consumer.session.timeout.ms": ("50000", "44999", "60001", "x"),
    "consumer.heartbeat.interval.ms": ("6000", "4999", "15001", "x"),
    "share.session.timeout.ms": ("50000", "1"),
    "share.auto.offset.reset": ("earliest", "x"),
    "streams.num.standby.replicas": ("1", "100"),
    "no.such.setting": ("1",),
}

_INHERITED = ("log.retention.hours", "log.retention.minutes", "log.retention.ms", "log.retention.bytes")
_BROKER_NAMES = [
    *_INHERITED,
    "default.replication.factor",
    "min.insync.replicas",
    "num.partitions",
    "auto.create.topics.enable",
    "delete.topic.enable",
    "inter.broker.listener.name",
    "inter.broker.protocol.version",
    "log.message.format.version",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
    "broker.rack",
    "process.roles",
    "unclean.leader.election.enable",
    "message.max.bytes",
    "log.roll.hours",
    "log.cleaner.enable",
    "authorizer.class.name",
    "group.coordinator.rebalance.protocols",
    "remote.log.storage.system.enable",
    "sasl.enabled.mechanisms",
    "auto.leader.rebalance.enable",
]

QUESTIONS = [
    _create("create", TOPIC_NAME, at=NODE_ID),
    Question("acls", ApiKey.DESCRIBE_ACLS, 3, dict(_ACL)),
    Question("acls 1", ApiKey.DESCRIBE_ACLS, 1, dict(_ACL)),
    Question("create acls", ApiKey.CREATE_ACLS, 3, {"creations": [_GRANT, _GRANT]}),
    Question("create no acls", ApiKey.CREATE_ACLS, 3, {"creations": []}),
    Question("delete acls", ApiKey.DELETE_ACLS, 3, {"filters": [_ACL, _ACL]}),
    Question("reassignments", ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, {"timeout_ms": 100, "topics": None}),
    Question(
        "reassignments of a topic",
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        0,
        {"timeout_ms": 100, "topics": [{"name": TOPIC_NAME, "partition_indexes": [0, 7]}]},
    ),
    Question(
        "reassignments of no topic",
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        0,
        {"timeout_ms": 100, "topics": [{"name": "nobody", "partition_indexes": [0]}]},
    ),
    _reassign("reassign where it is", TOPIC_NAME, 0, [NODE_ID]),
    _reassign("reassign where it is, 0", TOPIC_NAME, 0, [NODE_ID], version=0),
    _reassign("reassign elsewhere", TOPIC_NAME, 0, [77]),
    _reassign("reassign to two", TOPIC_NAME, 0, [NODE_ID, 77]),
    _reassign("reassign twice the same", TOPIC_NAME, 0, [NODE_ID, NODE_ID]),
    _reassign("reassign to none", TOPIC_NAME, 0, []),
    _reassign("reassign to a negative", TOPIC_NAME, 0, [-1]),
    _reassign("cancel", TOPIC_NAME, 0, None),
    _reassign("cancel no partition", TOPIC_NAME, 7, None),
    _reassign("reassign no partition", TOPIC_NAME, 7, [NODE_ID]),
    _reassign("reassign no topic", "nobody", 0, [NODE_ID]),
    _reassign("cancel no topic", "nobody", 0, None),
    _elect("elect", 0, [(TOPIC_NAME, [0, 1])]),
    _elect("elect 0", 0, [(TOPIC_NAME, [0])], version=0),
    _elect("elect unclean", 1, [(TOPIC_NAME, [0])]),
    _elect("elect no partition", 0, [(TOPIC_NAME, [7])]),
    _elect("elect no topic", 0, [("nobody", [0])]),
    _elect("elect nothing", 0, []),
    _elect("elect all", 0, None),
    _elect("elect all unclean", 1, None),
    _elect("elect strangely", 7, [(TOPIC_NAME, [0])]),
    Question("quotas", ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, {"components": [], "strict": False}),
    Question(
        "quotas of users",
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        1,
        {"components": [{"entity_type": "user", "match_type": 2, "match": None}], "strict": True},
    ),
    Question(
        "quotas of nothing",
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        0,
        {"components": [{"entity_type": "planet", "match_type": 0, "match": "x"}], "strict": False},
    ),
    Question(
        "quotas of an empty entity",
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        1,
        {"components": [{"entity_type": "", "match_type": 0, "match": "x"}], "strict": False},
    ),
    Question(
        "quotas twice",
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        1,
        {"components": [{"entity_type": "user", "match_type": 0, "match": "x"}] * 2, "strict": False},
    ),
    Question(
        "quotas matched strangely",
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        1,
        {"components": [{"entity_type": "user", "match_type": 9, "match": None}], "strict": False},
    ),
    Question(
        "quotas of ip",
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        1,
        {"components": [{"entity_type": "ip", "match_type": 1, "match": None}], "strict": False},
    ),
    Question(
        "quotas of ip and user",
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        1,
        {
            "components": [
                {"entity_type": "ip", "match_type": 1, "match": None},
                {"entity_type": "user", "match_type": 1, "match": None},
            ],
            "strict": False,
        },
    ),
    Question("scram", ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {"users": None}),
    Question("scram of none", ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {"users": []}),
    Question(
        "scram of users",
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        0,
        {"users": [{"name": "ann"}, {"name": "bob"}, {"name": "bob"}, {"name": ""}]},
    ),
    Question("resources 0", ApiKey.LIST_CONFIG_RESOURCES, 0, {}),
    Question("resources", ApiKey.LIST_CONFIG_RESOURCES, 1, {"resource_types": []}),
    Question("resources of a topic", ApiKey.LIST_CONFIG_RESOURCES, 1, {"resource_types": [TOPIC]}),
    Question("resources of an unknown type", ApiKey.LIST_CONFIG_RESOURCES, 1, {"resource_types": [7]}),
    _quorum("quorum", "__cluster_metadata"),
    _quorum("quorum 0", "__cluster_metadata", version=0),
    _quorum("quorum 1", "__cluster_metadata", version=1),
    _quorum("quorum of a topic", TOPIC_NAME),
    Question("quorum of nothing", ApiKey.DESCRIBE_QUORUM, 2, {"topics": []}),
    Question("unregister another", ApiKey.UNREGISTER_BROKER, 0, {"broker_id": 77}),
    _features("feature unknown", "no.such.feature", 1),
    _features("feature unknown 0", "no.such.feature", 1, version=0),
    _features("feature too high", "transaction.version", 99),
    _features("feature too high 1", "transaction.version", 99, version=1),
    _features("feature same", "transaction.version", 2, validate_only=True),
    _features("feature lower", "transaction.version", 1, validate_only=True),
    _features("feature lower safely", "transaction.version", 1, kind=2, validate_only=True),
    _features("feature strange kind", "transaction.version", 1, kind=9, validate_only=True),
    _features("feature negative", "transaction.version", -1, kind=2, validate_only=True),
    _features("feature zero", "transaction.version", 0, validate_only=True),
    Question("features none", ApiKey.UPDATE_FEATURES, 2, {"timeout_ms": 1000, "feature_updates": []}),
    Question(
        "versions", ApiKey.API_VERSIONS, 4, {"client_software_name": "a", "client_software_version": "1"}
    ),
    Question(
        "versions 3", ApiKey.API_VERSIONS, 3, {"client_software_name": "a", "client_software_version": "1"}
    ),
    # -- settings of topics
    _describe("topic", TOPIC, TOPIC_NAME),
    *(
        _alter(f"set {name}={value}", TOPIC, TOPIC_NAME, (name, SET, value))
        for name, value in {**INERT}.items()
    ),
    *(
        _alter(f"refuse {name}={value}", TOPIC, TOPIC_NAME, (name, SET, value))
        for name, value in REFUSED.items()
    ),
    _alter("set remote.storage.enable=true", TOPIC, TOPIC_NAME, ("remote.storage.enable", SET, "true")),
    _alter("set remote.log.copy.disable=true", TOPIC, TOPIC_NAME, ("remote.log.copy.disable", SET, "true")),
    _describe("topic with inert settings", TOPIC, TOPIC_NAME),
    _alter("delete inert", TOPIC, TOPIC_NAME, *((name, DELETE, None) for name in INERT)),
    _alter("delete unknown", TOPIC, TOPIC_NAME, ("no.such.setting", DELETE, None)),
    _alter("delete unknown with value", TOPIC, TOPIC_NAME, ("no.such.setting", DELETE, "x")),
    _alter("append unknown", TOPIC, TOPIC_NAME, ("no.such.setting", APPEND, "x")),
    _alter("append a number", TOPIC, TOPIC_NAME, ("retention.ms", APPEND, "5")),
    _alter("set null", TOPIC, TOPIC_NAME, ("retention.ms", SET, None)),
    _alter("same twice", TOPIC, TOPIC_NAME, ("retention.ms", SET, "5"), ("retention.ms", DELETE, None)),
    _alter("append present", TOPIC, TOPIC_NAME, ("cleanup.policy", APPEND, "delete")),
    _alter("subtract absent", TOPIC, TOPIC_NAME, ("cleanup.policy", SUBTRACT, "compact")),
    _alter("strange operation", TOPIC, TOPIC_NAME, ("retention.ms", 9, "5")),
    _replace("replace null", TOPIC, TOPIC_NAME, ("retention.ms", None)),
    _replace("replace", TOPIC, TOPIC_NAME, ("retention.ms", "5000")),
    _describe("topic replaced", TOPIC, TOPIC_NAME, ["retention.ms", "cleanup.policy", "no.such.setting"]),
    _alter("no topic", TOPIC, "nobody", ("retention.ms", SET, "5")),
    _describe("describe no topic", TOPIC, "nobody"),
    _describe("describe a bad name", TOPIC, "bad name"),
    _create("create with inert", "calls-inert", remote_storage_enable="false", preallocate="true"),
    _create("create remote", "calls-remote", remote_storage_enable="true"),
    _create("create unknown", "calls-unknown", no_such_setting="1"),
    # -- settings of groups
    _describe("group", GROUP_CONFIG, GROUP_NAME),
    *(
        _alter(f"group {name}={value}", GROUP_CONFIG, GROUP_NAME, (name, SET, value))
        for name, values in GROUP_VALUES.items()
        for value in values
    ),
    _alter(
        "group session below heartbeat",
        GROUP_CONFIG,
        GROUP_NAME,
        ("consumer.session.timeout.ms", SET, "45000"),
        ("consumer.heartbeat.interval.ms", SET, "15000"),
    ),
    _describe("group altered", GROUP_CONFIG, GROUP_NAME),
    _describe("group altered, some", GROUP_CONFIG, GROUP_NAME, ["consumer.session.timeout.ms"]),
    Question("resources with a group", ApiKey.LIST_CONFIG_RESOURCES, 1, {"resource_types": [GROUP_CONFIG]}),
    _alter("group delete unknown", GROUP_CONFIG, GROUP_NAME, ("no.such.setting", DELETE, None)),
    _alter("group append", GROUP_CONFIG, GROUP_NAME, ("consumer.session.timeout.ms", APPEND, "1")),
    _alter(
        "group reset",
        GROUP_CONFIG,
        GROUP_NAME,
        *((name, DELETE, None) for name in GROUP_VALUES if name != "no.such.setting"),
    ),
    _describe("group reset, described", GROUP_CONFIG, GROUP_NAME, ["consumer.session.timeout.ms"]),
    Question("resources without group", ApiKey.LIST_CONFIG_RESOURCES, 1, {"resource_types": [GROUP_CONFIG]}),
    _alter("group without name", GROUP_CONFIG, "", ("consumer.session.timeout.ms", SET, "50000")),
    _describe("group without name, described", GROUP_CONFIG, ""),
    _replace("group replaced", GROUP_CONFIG, GROUP_NAME, ("consumer.session.timeout.ms", "50000")),
    _replace("group replaced with nothing", GROUP_CONFIG, GROUP_NAME),
    # -- settings of brokers, loggers, client metrics
    _describe("broker, some", BROKER, str(NODE_ID), _BROKER_NAMES),
    _describe("all brokers", BROKER, ""),
    _describe("no broker", BROKER, "77"),
    _describe("bad broker", BROKER, "x"),
    _alter("broker log.retention.ms", BROKER, str(NODE_ID), ("log.retention.ms", SET, "86400000")),
    _alter("brokers log.segment.bytes", BROKER, "", ("log.segment.bytes", SET, "1048576000")),
    _describe("topic below the broker", TOPIC, "calls-inert", ["retention.ms", "segment.bytes"]),
    _describe("broker changed", BROKER, str(NODE_ID), ["log.retention.ms", "log.segment.bytes"]),
    _describe("brokers changed", BROKER, ""),
    Question(
        "resources of brokers", ApiKey.LIST_CONFIG_RESOURCES, 1, {"resource_types": [BROKER, BROKER_LOGGER]}
    ),
    _alter("broker log.retention.ms back", BROKER, str(NODE_ID), ("log.retention.ms", DELETE, None)),
    _alter("brokers log.segment.bytes back", BROKER, "", ("log.segment.bytes", DELETE, None)),
    _alter("broker read-only", BROKER, str(NODE_ID), ("log.dirs", SET, "/tmp")),
    _alter(
        "broker default.replication.factor", BROKER, str(NODE_ID), ("default.replication.factor", SET, "1")
    ),
    _alter("broker num.io.threads", BROKER, str(NODE_ID), ("num.io.threads", SET, "8")),
    _alter("broker num.io.threads back", BROKER, str(NODE_ID), ("num.io.threads", DELETE, None)),
    _alter("broker unknown", BROKER, str(NODE_ID), ("no.such.setting", SET, "1")),
    _alter("broker unknown back", BROKER, str(NODE_ID), ("no.such.setting", DELETE, None)),
    _alter("other broker", BROKER, "77", ("log.retention.ms", SET, "1")),
    _alter("strange broker", BROKER, "x", ("log.retention.ms", SET, "1")),
    _describe("loggers", BROKER_LOGGER, str(NODE_ID), ["root"]),
    _describe("loggers of all", BROKER_LOGGER, ""),
    _describe("loggers of another", BROKER_LOGGER, "77"),
    _alter("logger level", BROKER_LOGGER, str(NODE_ID), ("root", SET, "WARN")),
    _alter("logger level back", BROKER_LOGGER, str(NODE_ID), ("root", SET, "INFO")),
    _alter("logger bad level", BROKER_LOGGER, str(NODE_ID), ("root", SET, "LOUD")),
    _alter("logger delete root", BROKER_LOGGER, str(NODE_ID), ("root", DELETE, None)),
    _alter("logger append", BROKER_LOGGER, str(NODE_ID), ("root", APPEND, "INFO")),
    _alter("logger unknown", BROKER_LOGGER, str(NODE_ID), ("no.such.logger", SET, "INFO")),
    _alter("logger of another", BROKER_LOGGER, "77", ("root", SET, "INFO")),
    _describe("metrics", CLIENT_METRICS, METRICS_NAME),
    _describe("metrics without name", CLIENT_METRICS, ""),
    _alter("metrics interval", CLIENT_METRICS, METRICS_NAME, ("interval.ms", SET, "60000")),
    _alter("metrics bad interval", CLIENT_METRICS, METRICS_NAME, ("interval.ms", SET, "1")),
    _alter("metrics unknown", CLIENT_METRICS, METRICS_NAME, ("no.such.setting", SET, "1")),
    _describe("metrics altered", CLIENT_METRICS, METRICS_NAME),
    Question("resources 0 with metrics", ApiKey.LIST_CONFIG_RESOURCES, 0, {}),
    _alter("metrics back", CLIENT_METRICS, METRICS_NAME, ("interval.ms", DELETE, None)),
    _describe("strange resource", 7, "x"),
    _alter("strange resource altered", 7, "x", ("a", SET, "b")),
    # -- records
    Question(
        "delete records with timeout 0",
        ApiKey.DELETE_RECORDS,
        2,
        {
            "topics": [{"name": TOPIC_NAME, "partitions": [{"partition_index": 0, "offset": 1}]}],
            "timeout_ms": 0,
        },
    ),
]
