"""What brokers got wrong before and clients suffered from: negotiation, metadata, topic ids, configs, admin.

Each row of the table below is a trap known from real clients; test names start with its number.

| trap | about | where |
|---|---|---|
| 1 | Produce is advertised from version 0 | here |
| 2, 3 | SASL handshake versions and mechanisms | later: with authentication |
| 4 | no null arrays in answers | here |
| 5 | ApiVersions: header, unknown version, features, software name | here |
| 6 | header quirks: null client id, OffsetDelete never flexible | here, test_groups_calls.py (SaslHandshake later) |
| 7 | offsets of unknown groups, and their error codes by version | test_groups_calls.py |
| 8, 9 | error codes by version and producer ids of transactions | later |
| 10, 11, 12 | acks 0 and order, sequences, fetch | test_traps_data.py |
| 13 | timing of groups | test_groups_calls.py |
| 14 | controller id and cluster id | here |
| 15 | topic ids | here |
| 16 | configs told truly | here and test_configs.py |
| 17, 18, 19 | append time, keys on compacted topics, offsets users see | test_traps_data.py |
| 20 | unsupported versions close the connection | here |
| 21 | auto-creation, null and empty topic lists, internal topics, defaults | here |

Never uses a client library's own connection: the requests are exact, also the wrong ones.
"""

from __future__ import annotations

import struct
import uuid
from typing import Any

import pytest
from kafka.protocol.admin import (
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeTopicPartitionsRequest,
    IncrementalAlterConfigsRequest,
)
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest
from kafka.protocol.producer import ProduceRequest

from compat.raw import RawConnection, batch, fetch_fields, values
from compat.vocabulary import CreateTopic, error_name

API_VERSIONS = 18
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)
FROM_TOPIC, FROM_DEFAULT = 1, 5

# What Apache Kafka 4.3 advertises for the calls of a broker without groups, transactions and security.
ADVERTISED = {
    0: (0, 13),  # Produce
    1: (4, 18),  # Fetch
    2: (1, 11),  # ListOffsets
    3: (0, 13),  # Metadata
    18: (0, 4),  # ApiVersions
    19: (2, 7),  # CreateTopics
    20: (1, 6),  # DeleteTopics
    21: (0, 2),  # DeleteRecords
    22: (0, 5),  # InitProducerId
    23: (2, 4),  # OffsetForLeaderEpoch
    32: (1, 4),  # DescribeConfigs
    33: (0, 2),  # AlterConfigs
    35: (1, 5),  # DescribeLogDirs
    37: (0, 3),  # CreatePartitions
    44: (0, 1),  # IncrementalAlterConfigs
    60: (0, 2),  # DescribeCluster
    75: (0, 0),  # DescribeTopicPartitions
}


def frame(api_key: int, version: int, body: bytes, correlation_id: int = 7) -> bytes:
    """A request with a null client id and whatever body."""
    data = struct.pack(">hhih", api_key, version, correlation_id, -1) + body
    return struct.pack(">i", len(data)) + data


def compact(text: str) -> bytes:
    return bytes([len(text) + 1]) + text.encode()


def new_topic_fields(topic: str, **overrides: Any) -> dict[str, Any]:
    wanted = {"name": topic, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    return {"topics": [wanted | overrides], "timeout_ms": 10_000, "validate_only": False}


def configs_of(raw: RawConnection, topic: str, keys: list[str] | None, *, synonyms: bool = False) -> Any:
    wanted = {"resource_type": TOPIC_RESOURCE, "resource_name": topic, "configuration_keys": keys}
    (answer,) = raw.call(
        DescribeConfigsRequest, 4, resources=[wanted], include_synonyms=synonyms, include_documentation=False
    ).results
    assert answer.error_code == 0
    return {entry.name: entry for entry in answer.configs}


def change(raw: RawConnection, topic: str, *steps: tuple[str, int, str | None], dry: bool = False) -> str:
    """The error's name, or NONE."""
    configs = [{"name": name, "config_operation": step, "value": value} for name, step, value in steps]
    wanted = {"resource_type": TOPIC_RESOURCE, "resource_name": topic, "configs": configs}
    answer = raw.call(IncrementalAlterConfigsRequest, 1, resources=[wanted], validate_only=dry)
    return error_name(answer.responses[0].error_code)


# -- 1, 5, 6, 20: finding a common language ----------------------------------------------------------------


@pytest.mark.parametrize("version", range(5))
def test_1_5_versions_advertised(raw: RawConnection, version: int) -> None:
    who = {"client_software_name": "compat", "client_software_version": "1"} if version >= 3 else {}
    answer = raw.call(ApiVersionsRequest, version, **who)
    told = [(one.api_key, (one.min_version, one.max_version)) for one in answer.api_keys]
    assert len(told) == len(dict(told)), "no key twice"
    assert {key: dict(told).get(key) for key in ADVERTISED} == ADVERTISED
    assert not answer.throttle_time_ms


@pytest.mark.parametrize("version", [0, 1, 2])
def test_1_the_oldest_produce_versions_are_advertised_but_refused(raw: RawConnection, version: int) -> None:
    raw.send_bytes(frame(0, version, struct.pack(">hii", -1, 1000, 0)))
    assert raw.is_closed_by_peer()


def test_5_the_answer_has_the_oldest_header(raw: RawConnection) -> None:
    """After the correlation id comes the error code at once: no tagged fields in between."""
    raw.send_bytes(frame(API_VERSIONS, 3, b"\x00" + compact("compat") + compact("1.0") + b"\x00"))
    assert struct.unpack_from(">ih", raw.receive_frame()) == (7, 0)


@pytest.mark.parametrize("version", [5, 99, 32767])
def test_5_an_unknown_version_is_answered_in_the_oldest_form(raw: RawConnection, version: int) -> None:
    raw.send_bytes(frame(API_VERSIONS, version, b"\x00 whatever a later version may hold"))
    correlation_id, error_code, count = struct.unpack_from(">ihi", answer := raw.receive_frame())
    assert (correlation_id, error_name(error_code)) == (7, "UNSUPPORTED_VERSION")
    ranges = [struct.unpack_from(">hhh", answer, 10 + 6 * index) for index in range(count)]
    assert len(answer) == 10 + 6 * count, "the body of version 0 and nothing else"
    assert (API_VERSIONS, 0, 4) in ranges
    raw.send_bytes(frame(API_VERSIONS, 0, b""))
    assert struct.unpack_from(">ih", raw.receive_frame()) == (7, 0), "the connection goes on"


def test_5_features_from_zero_are_kept_from_older_clients(raw: RawConnection) -> None:
    who = {"client_software_name": "compat", "client_software_version": "1"}
    answer = raw.call(ApiVersionsRequest, 3, **who)
    assert all(feature.min_version > 0 for feature in answer.supported_features or ())


@pytest.mark.parametrize(
    ("name", "version"), [("bad name", "1"), ("", "1"), ("-x", "1"), ("x-", "1"), ("x", ""), ("x", "1.0-")]
)
def test_5_software_names_are_checked(raw: RawConnection, name: str, version: str) -> None:
    raw.send_bytes(frame(API_VERSIONS, 3, b"\x00" + compact(name) + compact(version) + b"\x00"))
    _, error_code = struct.unpack_from(">ih", raw.receive_frame())
    assert error_name(error_code) == "INVALID_REQUEST"


@pytest.mark.parametrize("version", [1, 9])
def test_6_a_client_may_have_no_id(bootstrap: str, version: int) -> None:
    with RawConnection(bootstrap, client_id=None) as nameless:
        assert nameless.call(MetadataRequest, version, topics=[]).brokers


@pytest.mark.parametrize(
    ("api_key", "version"), [(3, 99), (3, -1), (1, 3), (1, 19), (19, 1), (999, 0), (-1, 0)]
)
def test_20_what_is_not_spoken_closes_the_connection(
    raw: RawConnection, bootstrap: str, api_key: int, version: int
) -> None:
    raw.send_bytes(frame(api_key, version, bytes(8)))
    assert raw.is_closed_by_peer()
    with RawConnection(bootstrap) as other:
        assert other.metadata([]).brokers, "only that connection"


# -- 4: no null arrays --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [5, 6, 7])
def test_4_created_topics_come_with_their_configs(raw: RawConnection, fresh: str, version: int) -> None:
    (created,) = raw.call(CreateTopicsRequest, version, **new_topic_fields(fresh)).topics
    assert (created.error_code, created.num_partitions, created.replication_factor) == (0, 1, 1)
    assert "cleanup.policy" in {config.name for config in created.configs}
    raw.await_leaders(fresh, 1)
    (again,) = raw.call(CreateTopicsRequest, version, **new_topic_fields(fresh)).topics
    assert error_name(again.error_code) == "TOPIC_ALREADY_EXISTS"
    assert again.configs == [], "empty, not null"


def test_4_described_partitions_have_empty_lists(raw: RawConnection, new_topic: CreateTopic) -> None:
    topic = new_topic(partitions=2)
    answer = raw.call(
        DescribeTopicPartitionsRequest, 0, topics=[{"name": topic}], response_partition_limit=10, cursor=None
    )
    (described,) = answer.topics
    assert [one.partition_index for one in described.partitions] == [0, 1]
    for one in described.partitions:
        assert one.eligible_leader_replicas is not None
        assert one.last_known_elr is not None
        assert one.offline_replicas == []
        assert one.replica_nodes == one.isr_nodes == [one.leader_id]


def test_4_described_configs_have_empty_synonyms(raw: RawConnection, new_topic: CreateTopic) -> None:
    assert all(entry.synonyms == [] for entry in configs_of(raw, new_topic(), None).values())


# -- 14: who and where --------------------------------------------------------------------------------------


def test_14_controller_and_cluster_are_real_and_stable(raw: RawConnection, bootstrap: str) -> None:
    first = raw.metadata([])
    assert first.controller_id in {broker.node_id for broker in first.brokers}
    assert first.cluster_id
    with RawConnection(bootstrap) as other:
        described = other.call(DescribeClusterRequest, 0, include_cluster_authorized_operations=False)
    assert described.cluster_id == first.cluster_id
    assert described.controller_id in {broker.broker_id for broker in described.brokers}


# -- 15: topic ids ------------------------------------------------------------------------------------------


def id_of(raw: RawConnection, topic: str) -> uuid.UUID:
    (described,) = raw.metadata([topic]).topics
    return uuid.UUID(str(described.topic_id))


def fetch_by_id(raw: RawConnection, topic_id: uuid.UUID, version: int) -> Any:
    fields = fetch_fields([("", 0, 0)])
    del fields["topics"][0]["topic"], fields["replica_id"]
    fields["topics"][0]["topic_id"] = topic_id
    return raw.call(FetchRequest, version, **fields).responses[0].partitions[0]


def produce_by_id(raw: RawConnection, topic_id: uuid.UUID) -> Any:
    data = [{"topic_id": topic_id, "partition_data": [{"index": 0, "records": batch(b"by id")}]}]
    fields = {"transactional_id": None, "acks": -1, "timeout_ms": 10_000, "topic_data": data}
    return raw.call(ProduceRequest, 13, **fields).responses[0].partition_responses[0]


def test_15_ids_are_random(raw: RawConnection, new_topic: CreateTopic) -> None:
    first, second = id_of(raw, new_topic()), id_of(raw, new_topic())
    assert first != second
    assert {first.version, second.version} == {4}


def test_15_produce_and_fetch_by_id(raw: RawConnection, new_topic: CreateTopic) -> None:
    topic_id = id_of(raw, new_topic())
    assert produce_by_id(raw, topic_id).error_code == 0
    for version in range(13, 19):
        assert values(fetch_by_id(raw, topic_id, version).records) == [b"by id"]


def test_15_an_id_that_is_nobodys(raw: RawConnection) -> None:
    nobody = uuid.uuid4()
    assert error_name(produce_by_id(raw, nobody).error_code) == "UNKNOWN_TOPIC_ID"
    assert error_name(fetch_by_id(raw, nobody, 13).error_code) == "UNKNOWN_TOPIC_ID"
    for version in (12, 13):
        answer = raw.call(MetadataRequest, version, topics=[{"topic_id": nobody, "name": None}])
        assert error_name(answer.topics[0].error_code) == "UNKNOWN_TOPIC_ID"


@pytest.mark.parametrize("version", [10, 11])
def test_15_early_metadata_is_not_asked_by_id(
    raw: RawConnection, new_topic: CreateTopic, version: int
) -> None:
    wanted = {"topic_id": id_of(raw, new_topic()), "name": None}
    (answer,) = raw.call(MetadataRequest, version, topics=[wanted]).topics
    assert error_name(answer.error_code) == "INVALID_REQUEST"


def test_15_a_topic_made_anew_has_a_new_id(raw: RawConnection, new_topic: CreateTopic) -> None:
    topic = new_topic()
    old = id_of(raw, topic)
    wanted = [{"name": None, "topic_id": old}]
    assert raw.call(DeleteTopicsRequest, 6, topics=wanted, timeout_ms=10_000).responses[0].name == topic
    raw.await_absence(topic)
    raw.create_topic(topic)
    assert id_of(raw, topic) != old
    assert error_name(produce_by_id(raw, old).error_code) == "UNKNOWN_TOPIC_ID"


# -- 16: configs told truly ---------------------------------------------------------------------------------


def test_16_only_the_keys_asked_for(raw: RawConnection, new_topic: CreateTopic) -> None:
    topic = new_topic()
    assert set(configs_of(raw, topic, ["retention.ms", "no.such.setting"])) == {"retention.ms"}
    assert set(configs_of(raw, topic, [])) == set(configs_of(raw, topic, None))


def test_16_the_source_of_a_value(raw: RawConnection, new_topic: CreateTopic) -> None:
    told = configs_of(raw, new_topic(cleanup_policy="compact"), None, synonyms=True)
    assert (told["cleanup.policy"].value, told["cleanup.policy"].config_source) == ("compact", FROM_TOPIC)
    assert told["retention.ms"].config_source == FROM_DEFAULT
    assert [(one.value, one.source) for one in told["cleanup.policy"].synonyms] == [
        ("compact", FROM_TOPIC),
        ("delete", FROM_DEFAULT),
    ]


def test_16_lists_grow_and_shrink(raw: RawConnection, new_topic: CreateTopic) -> None:
    topic = new_topic()
    seen = []
    for step, value in ((APPEND, "compact"), (APPEND, "compact"), (SUBTRACT, "delete"), (DELETE, None)):
        assert change(raw, topic, ("cleanup.policy", step, value)) == "NONE"
        seen.append(configs_of(raw, topic, ["cleanup.policy"])["cleanup.policy"].value)
    assert seen == ["delete,compact", "delete,compact", "compact", "delete"]


def test_16_steps_that_make_no_sense(raw: RawConnection, new_topic: CreateTopic) -> None:
    topic = new_topic()
    assert change(raw, topic, ("retention.ms", APPEND, "5")) == "INVALID_CONFIG"
    assert change(raw, topic, ("retention.ms", SET, None)) == "INVALID_REQUEST"
    twice = [("retention.ms", SET, "5"), ("retention.ms", SET, "6")]
    assert change(raw, topic, *twice) == "INVALID_REQUEST"


def test_16_a_dry_run_changes_nothing(raw: RawConnection, new_topic: CreateTopic) -> None:
    topic = new_topic()
    assert change(raw, topic, ("retention.ms", SET, "555"), dry=True) == "NONE"
    assert change(raw, topic, ("retention.ms", SET, "soon"), dry=True) == "INVALID_CONFIG"
    assert configs_of(raw, topic, ["retention.ms"])["retention.ms"].value == "604800000"


@pytest.mark.parametrize(
    ("resource", "name", "error"),
    [
        (TOPIC_RESOURCE, "a/b", "INVALID_TOPIC_EXCEPTION"),
        (TOPIC_RESOURCE, "compat-nobody-made-this", "UNKNOWN_TOPIC_OR_PARTITION"),
        (BROKER_RESOURCE, "987654", "INVALID_REQUEST"),
        (77, "x", "INVALID_REQUEST"),
    ],
)
def test_16_resources_that_are_not_there(raw: RawConnection, resource: int, name: str, error: str) -> None:
    wanted = {"resource_type": resource, "resource_name": name, "configuration_keys": None}
    (answer,) = raw.call(DescribeConfigsRequest, 4, resources=[wanted]).results
    assert error_name(answer.error_code) == error
    assert answer.configs == []


# -- 21: the rest -------------------------------------------------------------------------------------------


def names(raw: RawConnection) -> set[str]:
    return {topic.name for topic in raw.metadata(None).topics}


def test_21_metadata_creates_only_when_told(raw: RawConnection, fresh: str) -> None:
    (described,) = raw.metadata([fresh], create=False).topics
    assert error_name(described.error_code) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert fresh not in names(raw)
    raw.metadata([fresh], create=True)
    raw.await_leaders(fresh, 1)


@pytest.mark.parametrize("version", [0, 3])
def test_21_metadata_before_the_flag_creates(raw: RawConnection, fresh: str, version: int) -> None:
    raw.call(MetadataRequest, version, topics=[{"name": fresh}])
    raw.await_leaders(fresh, 1)


def test_21_describing_partitions_never_creates(raw: RawConnection, fresh: str) -> None:
    answer = raw.call(
        DescribeTopicPartitionsRequest, 0, topics=[{"name": fresh}], response_partition_limit=10, cursor=None
    )
    assert error_name(answer.topics[0].error_code) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert fresh not in names(raw)


def test_21_no_topics_and_all_topics(raw: RawConnection, new_topic: CreateTopic) -> None:
    topic = new_topic()
    assert topic in {one.name for one in raw.call(MetadataRequest, 0, topics=[]).topics}
    for version in (1, 8, 9, 13):
        assert raw.call(MetadataRequest, version, topics=[]).topics == []
        assert topic in {one.name for one in raw.call(MetadataRequest, version, topics=None).topics}


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../../etc", "x" * 250])
def test_21_names_that_cannot_be(raw: RawConnection, name: str) -> None:
    (described,) = raw.metadata([name], create=True).topics
    assert error_name(described.error_code) == "INVALID_TOPIC_EXCEPTION"
    (created,) = raw.call(CreateTopicsRequest, 7, **new_topic_fields(name)).topics
    assert error_name(created.error_code) == "INVALID_TOPIC_EXCEPTION"


def test_21_internal_topics_are_not_for_producers(raw: RawConnection) -> None:
    answer = raw.produce("__consumer_offsets", batch(b"mischief"))
    assert error_name(answer.error_code) in {"INVALID_TOPIC_EXCEPTION", "UNKNOWN_TOPIC_OR_PARTITION"}


@pytest.mark.parametrize("version", range(4, 8))
def test_21_defaults_for_counts(raw: RawConnection, fresh: str, version: int) -> None:
    fields = new_topic_fields(fresh, num_partitions=-1, replication_factor=-1)
    answer = raw.call(CreateTopicsRequest, version, **fields)
    assert (answer.topics[0].error_code, answer.throttle_time_ms) == (0, 0)
    raw.await_leaders(fresh, 1)


@pytest.mark.parametrize(
    ("overrides", "error"),
    [
        ({"num_partitions": 0}, "INVALID_PARTITIONS"),
        ({"num_partitions": -2}, "INVALID_PARTITIONS"),
        ({"replication_factor": 0}, "INVALID_REPLICATION_FACTOR"),
        ({"configs": [{"name": "retention.ms", "value": None}]}, "INVALID_CONFIG"),
        ({"assignments": [{"partition_index": 0, "broker_ids": [1]}]}, "INVALID_REQUEST"),
        (
            {
                "num_partitions": -1,
                "replication_factor": -1,
                "assignments": [{"partition_index": 0, "broker_ids": [987654]}],
            },
            "INVALID_REPLICA_ASSIGNMENT",
        ),
    ],
)
def test_21_topics_that_cannot_be(
    raw: RawConnection, fresh: str, overrides: dict[str, Any], error: str
) -> None:
    (created,) = raw.call(CreateTopicsRequest, 7, **new_topic_fields(fresh, **overrides)).topics
    assert error_name(created.error_code) == error
    assert created.error_message
    assert fresh not in names(raw)


def test_21_a_dry_run_creates_nothing(raw: RawConnection, fresh: str) -> None:
    fields = new_topic_fields(fresh) | {"validate_only": True}
    assert raw.call(CreateTopicsRequest, 7, **fields).topics[0].error_code == 0
    assert fresh not in names(raw)


def test_21_the_same_topic_twice_in_one_request(raw: RawConnection, fresh: str) -> None:
    fields = new_topic_fields(fresh)
    answer = raw.call(CreateTopicsRequest, 7, **fields | {"topics": fields["topics"] * 2})
    assert {error_name(one.error_code) for one in answer.topics} == {"INVALID_REQUEST"}
    assert fresh not in names(raw)


def test_21_records_of_a_compacted_topic_are_not_deleted(raw: RawConnection, new_topic: CreateTopic) -> None:
    topic = new_topic(cleanup_policy="compact")
    wanted = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 0}]}]
    answer = raw.call(DeleteRecordsRequest, 2, topics=wanted, timeout_ms=10_000)
    assert error_name(answer.topics[0].partitions[0].error_code) == "POLICY_VIOLATION"
