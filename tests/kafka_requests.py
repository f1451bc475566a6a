"""A request of any Kafka call and version that a broker would serve, from the schemas. Never random."""

from __future__ import annotations

from typing import Any, NamedTuple

from penstock.core.model import NewRecord
from penstock.core.records.build import build_batch
from penstock.node.broker import Broker
from penstock.wire.kafka import API, ApiKey
from penstock.wire.kafka.classes import classes_of
from penstock.wire.kafka.notation import SchemaField, Struct

NUMBERS = {
    "acks": -1,
    "num_partitions": 1,
    "replication_factor": 1,
    "count": 3,
    "producer_id": -1,
    "producer_epoch": -1,
    "replica_id": -1,
    "current_leader_epoch": -1,
    "session_timeout_ms": 10_000,
    "rebalance_timeout_ms": 10_000,
    "transaction_timeout_ms": 10_000,
    "timeout_ms": 10_000,
    "max_bytes": 1 << 20,
    "partition_max_bytes": 1 << 20,
    "generation_id": -1,
    "generation_id_or_member_epoch": -1,
    "member_epoch": 0,
    "resource_type": 2,
    "endpoint_type": 1,
    "max_version_level": 1,
    "upgrade_type": 1,
    "response_partition_limit": 10,
    "resource_types": 2,
    "patterns_type": 3,
}
"""What a number in a request has to be where it is not 0."""


class Names(NamedTuple):
    """What there is on the broker that is asked."""

    topic: str
    group: str
    transactional_id: str


def request_of(api_key: int, version: int, names: Names, broker: Broker) -> Any:
    """A request that would be served: one entry in every list, of what there is."""
    schema = API[api_key].request
    request = _struct(schema.root, version, classes_of(schema), _Filling(names, broker))
    return _special(api_key, request)


class _Filling(NamedTuple):
    names: Names
    broker: Broker


def _struct(struct: Struct, version: int, classes: dict[str, Any], filling: _Filling) -> Any:
    values = {}
    for field in struct.fields:
        if field.present(version) and field.tag is None:
            value = _value(field, version, classes, filling)
            values[field.name] = [value] if field.is_array else value
    return classes[struct.name](**values)


def _value(field: SchemaField, version: int, classes: dict[str, Any], filling: _Filling) -> Any:
    if field.struct is not None:
        return _struct(field.struct, version, classes, filling)
    match field.type:
        case "bool":
            return False
        case "float64":
            return 0.0
        case "uuid":
            return filling.broker.catalog.topic(filling.names.topic).id
        case "records":
            now_ms = filling.broker.runtime.clock.now_ms()
            return bytes(build_batch([NewRecord(None, b"2")], now_ms))
        case "bytes":
            return b""
        case "string":
            return _text(field, filling.names)
    return NUMBERS.get(field.name, 0)


def _text(field: SchemaField, names: Names) -> str | None:
    if field.name in ("instance_id", "group_instance_id", "rack_id", "subscribed_topic_regex"):
        return None if field.null_from < 100 else ""
    if "transactional_id" in field.name:
        return names.transactional_id
    return names.group if "group" in field.name or "key" in field.name else names.topic


def _special(api_key: int, request: Any) -> Any:
    """Where names in a schema do not say what they are."""
    match api_key:
        case ApiKey.PRODUCE:
            request.transactional_id = None
        case ApiKey.DELETE_TOPICS if request.topics:
            request.topics[0].name = None
        case ApiKey.METADATA if request.topics:
            request.topics[0].topic_id = bytes(16)
        case ApiKey.CREATE_TOPICS:
            request.topics[0].assignments, request.topics[0].configs = [], []
        case ApiKey.DESCRIBE_CONFIGS:
            request.resources[0].configuration_keys = None
        case ApiKey.DESCRIBE_QUORUM:
            request.topics[0].topic_name = "__cluster_metadata"
        case ApiKey.LIST_GROUPS:
            request.states_filter = request.types_filter = []
        case ApiKey.LIST_TRANSACTIONS:
            request.state_filters = request.producer_id_filters = []
            request.transactional_id_pattern = None
            request.duration_filter = -1
        case ApiKey.FETCH:
            request.replica_state, request.forgotten_topics_data = None, []
            request.replica_id, request.session_id = -1, 0
        case ApiKey.DESCRIBE_CLIENT_QUOTAS:
            request.components = []
        case ApiKey.DESCRIBE_CLUSTER:
            request.include_cluster_authorized_operations = True
        case ApiKey.CONSUMER_GROUP_HEARTBEAT:
            request.subscribed_topic_regex, request.server_assignor = None, None
    return request
