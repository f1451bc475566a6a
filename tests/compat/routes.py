"""Which broker of a cluster must get a request: the leader of its partition, its coordinator.

Asks the brokers as any client does. A request that any broker may answer, or that nobody serves, has no address.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from penstock.wire.kafka import ApiKey, ErrorCode

FOUND_S_MAX = 10.0
POLL_S = 0.02
GROUP, TRANSACTION = 0, 1
Fields = Mapping[str, Any]
Call = Callable[..., Any]
"""Ask any broker: kind, version and fields of a request."""

AT_LEADER = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.DELETE_RECORDS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.DESCRIBE_LOG_DIRS,
    }
)
AT_COORDINATOR: dict[int, tuple[int, str]] = {
    ApiKey.OFFSET_COMMIT: (GROUP, "group_id"),
    ApiKey.OFFSET_FETCH: (GROUP, "group_id"),
    ApiKey.JOIN_GROUP: (GROUP, "group_id"),
    ApiKey.HEARTBEAT: (GROUP, "group_id"),
    ApiKey.LEAVE_GROUP: (GROUP, "group_id"),
    ApiKey.SYNC_GROUP: (GROUP, "group_id"),
    ApiKey.DESCRIBE_GROUPS: (GROUP, "groups"),
    ApiKey.DELETE_GROUPS: (GROUP, "groups_names"),
    ApiKey.OFFSET_DELETE: (GROUP, "group_id"),
    ApiKey.TXN_OFFSET_COMMIT: (GROUP, "group_id"),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (GROUP, "group_id"),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (GROUP, "group_ids"),
    ApiKey.INIT_PRODUCER_ID: (TRANSACTION, "transactional_id"),
    ApiKey.ADD_PARTITIONS_TO_TXN: (TRANSACTION, "transactional_id"),
    ApiKey.ADD_OFFSETS_TO_TXN: (TRANSACTION, "transactional_id"),
    ApiKey.END_TXN: (TRANSACTION, "transactional_id"),
    ApiKey.DESCRIBE_TRANSACTIONS: (TRANSACTION, "transactional_ids"),
}
"""The kind of coordinator of each call, and the field that names the group or transaction. Of several, the first."""


def address_for(call: Call, api_key: int, fields: Fields) -> str | None:
    """The broker that must get this request, as `host:port`."""
    if api_key in AT_LEADER:
        place = _first_partition(fields)
        return None if place is None else leader_of(call, *place)
    kind, name = AT_COORDINATOR.get(api_key, (GROUP, ""))
    key = _first(fields.get(name))
    if api_key == ApiKey.OFFSET_FETCH and (several := fields.get("groups")):
        key = several[0]["group_id"]
    return _coordinator_of(call, kind, key) if key else None


def leader_of(call: Call, topic: Fields, partition: int) -> str | None:
    """The leader's address; None if there is no such partition, or nobody leads it for a while."""
    deadline = time.monotonic() + FOUND_S_MAX
    while True:
        answer = call(MetadataRequest, 12, topics=[topic], allow_auto_topic_creation=False)
        (described,) = answer.topics
        leaders = {one.partition_index: one.leader_id for one in described.partitions}
        addresses = {one.node_id: f"{one.host}:{one.port}" for one in answer.brokers}
        if leaders.get(partition, -1) != -1 or partition not in leaders or time.monotonic() > deadline:
            return addresses.get(leaders.get(partition, -1))
        time.sleep(POLL_S)


def _coordinator_of(call: Call, kind: int, key: str) -> str | None:
    deadline = time.monotonic() + FOUND_S_MAX
    while True:
        found = call(FindCoordinatorRequest, 2, key=key, key_type=kind)
        if found.error_code == ErrorCode.NONE:
            return f"{found.host}:{found.port}"
        if found.error_code != ErrorCode.COORDINATOR_NOT_AVAILABLE or time.monotonic() > deadline:
            return None
        time.sleep(POLL_S)


def _first_partition(fields: Fields) -> tuple[Fields, int] | None:
    """The topic (as Metadata takes it) and the number of the first partition of a request, however they are called."""
    topic = _first(_field(fields, "topic_data", "topics"))
    if topic is None:
        return None
    partition = _first(_field(topic, "partition_data", "partitions", "partition_indexes"))
    if isinstance(partition, Mapping):
        partition = _field(partition, "index", "partition", "partition_index")
    if partition is None:
        return None
    name = _field(topic, "name", "topic")
    return ({"name": name} if name else {"topic_id": topic["topic_id"], "name": None}), partition


def _field(fields: Fields, *names: str) -> Any:
    return next((fields[name] for name in names if name in fields), None)


def _first(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return value[0] if value else None
    return value
