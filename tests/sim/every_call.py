"""Scripts in which every call of the Kafka door occurs, among those that most clients pipeline. Never sends."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from penstock.core.records.batch import TRANSACTIONAL
from penstock.wire.kafka import ApiKey
from plain_messages import build_request
from sim.kafka_client import KafkaClient
from sim.scripts import GROUP, PARTITIONS, QUICK_TOPIC, TOPIC, TXN_ID, TXN_TOPIC, KafkaScript, Step

OLD_TXN_ID, CLASSIC_GROUP, PROTOCOL = "old-shop", "classic", "range"
STRANGER_ID = 999_999
"""A producer that never wrote: its markers end nothing."""
SESSION_MS, REBALANCE_MS = 1_800_000, 600_000
_TXN_OLD, _END_OLD = 3, 4
"""The last versions of transactions' protocol V1."""
_TOPIC, _GROUP = 2, 32
"""Kinds of resources that have settings."""


class Classic(NamedTuple):
    """The only member of a classic group."""

    member_id: str
    generation: int


def step(key: ApiKey, version: int, **body: Any) -> Step:
    return Step(key, version, build_request(key, body))


def _sync(member: Classic) -> Step:
    return step(
        ApiKey.SYNC_GROUP,
        3,
        group_id=CLASSIC_GROUP,
        generation_id=member.generation,
        member_id=member.member_id,
        assignments=[{"member_id": member.member_id, "assignment": b"%d" % member.generation}],
    )


def _join(member_id: str) -> Step:
    return step(
        ApiKey.JOIN_GROUP,
        3,
        group_id=CLASSIC_GROUP,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=REBALANCE_MS,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[{"name": PROTOCOL, "metadata": b""}],
    )


async def join(client: KafkaClient) -> Classic:
    """Become the member that the script speaks for, in a generation that is assigned."""
    asked = _join("")
    answer = await client.call(asked.api_key, asked.version, asked.body)
    member = Classic(answer.member_id, answer.generation_id)
    asked = _sync(member)
    assert not (await client.call(asked.api_key, asked.version, asked.body)).error_code
    return member


class EveryCallScript(KafkaScript):
    """Foresees what the further calls do as well."""

    def __init__(
        self,
        chance: random.Random,
        idempotent: tuple[int, int],
        transactional: tuple[int, int],
        old: tuple[int, int],
        member: Classic,
    ) -> None:
        super().__init__(chance, idempotent, transactional)
        self._old = old
        self._old_sequences: dict[int, int] = {}
        self._classic = member
        self._groups = 0
        self._grown = 0

    def kinds(self) -> list[Callable[[], list[Step]]]:
        return [
            *super().kinds(),
            self._old_transaction,
            self._classic_round,
            self._classic_round,
            self._delete_offsets_and_group,
            self._grow_topic,
            self._replace_configs,
            self._features,
            self._markers,
            self._look_at_groups,
            self._look_at_transactions,
            self._look_at_topics,
            self._look_at_node,
            self._access,
        ]

    # ---- changes

    def _old_transaction(self) -> list[Step]:
        """A whole transaction of protocol V1: its epoch stays, and its sequences go on."""
        by = {"producer_id": self._old[0], "producer_epoch": self._old[1]}
        batches = self._numbered(self._old_sequences, self._old, TRANSACTIONAL)
        pending = {"partition_index": 2, "committed_offset": self._chance.randint(0, 99)}
        return [
            step(
                ApiKey.ADD_PARTITIONS_TO_TXN,
                _TXN_OLD,
                v3_and_below_transactional_id=OLD_TXN_ID,
                v3_and_below_producer_id=self._old[0],
                v3_and_below_producer_epoch=self._old[1],
                v3_and_below_topics=[{"name": TXN_TOPIC, "partitions": sorted(batches)}],
            ),
            self._request(TXN_TOPIC, batches, txn_id=OLD_TXN_ID, version=11),
            step(ApiKey.ADD_OFFSETS_TO_TXN, _TXN_OLD, transactional_id=OLD_TXN_ID, group_id=GROUP, **by),
            step(
                ApiKey.TXN_OFFSET_COMMIT,
                _TXN_OLD,
                transactional_id=OLD_TXN_ID,
                group_id=GROUP,
                generation_id=-1,
                member_id="",
                topics=[{"name": TOPIC, "partitions": [pending]}],
                **by,
            ),
            *self._look_at_transactions(),
            step(
                ApiKey.END_TXN,
                _END_OLD,
                transactional_id=OLD_TXN_ID,
                committed=self._chance.random() < 0.7,
                **by,
            ),
        ]

    def _classic_round(self) -> list[Step]:
        """The only member joins again, which makes a generation, and works in it. Sometimes it leaves for good."""
        self._classic = member = Classic(self._classic.member_id, self._classic.generation + 1)
        by = {"group_id": CLASSIC_GROUP, "member_id": member.member_id}
        offset = {"partition_index": 0, "committed_offset": member.generation}
        steps = [
            _join(member.member_id),
            _sync(member),
            step(ApiKey.HEARTBEAT, 3, generation_id=member.generation, **by),
            step(
                ApiKey.OFFSET_COMMIT,
                8,
                generation_id_or_member_epoch=member.generation,
                topics=[{"name": TOPIC, "partitions": [offset]}],
                **by,
            ),
            step(ApiKey.DESCRIBE_GROUPS, 5, groups=[CLASSIC_GROUP]),
        ]
        if self._chance.random() < 0.1:
            leaving = [{"member_id": member.member_id, "group_instance_id": None}]
            steps.append(step(ApiKey.LEAVE_GROUP, 4, group_id=CLASSIC_GROUP, members=leaving))
            steps.append(step(ApiKey.DESCRIBE_GROUPS, 5, groups=[CLASSIC_GROUP]))
        return steps

    def _delete_offsets_and_group(self) -> list[Step]:
        """Commit two offsets to a new group, delete one of them, perhaps the group as well."""
        self._groups += 1
        group = f"passing-{self._groups}"
        offsets = [{"partition_index": at, "committed_offset": 7 + at} for at in (0, 1)]
        wanted = {"name": TOPIC, "partition_indexes": [0, 1]}
        fetch = step(
            ApiKey.OFFSET_FETCH,
            9,
            groups=[{"group_id": group, "member_epoch": -1, "topics": [wanted]}],
            require_stable=False,
        )
        deleted = {"name": TOPIC, "partitions": [{"partition_index": 0}]}
        steps = [
            step(
                ApiKey.OFFSET_COMMIT,
                9,
                group_id=group,
                generation_id_or_member_epoch=-1,
                member_id="",
                topics=[{"name": TOPIC, "partitions": offsets}],
            ),
            step(ApiKey.OFFSET_DELETE, 0, group_id=group, topics=[deleted]),
            fetch,
        ]
        if self._chance.random() < 0.5:
            steps += [step(ApiKey.DELETE_GROUPS, 2, groups_names=[group]), fetch]
        return steps

    def _grow_topic(self) -> list[Step]:
        self._grown += 1
        name = f"growing-{self._grown}"
        made = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        grown = {"name": name, "count": 2, "assignments": None}
        return [
            step(ApiKey.CREATE_TOPICS, 5, topics=[made], timeout_ms=30_000, validate_only=False),
            self._request(name, {0: self._batch()}),
            step(ApiKey.CREATE_PARTITIONS, 3, topics=[grown], timeout_ms=30_000, validate_only=False),
            self._request(name, {1: self._batch()}),
        ]

    def _replace_configs(self) -> list[Step]:
        """Settings of a topic as a whole, and one of a group."""
        of_topic = {"name": "retention.ms", "value": str(self._chance.randint(10**9, 10**10))}
        of_group = {"name": "consumer.session.timeout.ms", "value": "45000"}
        resources = [
            {"resource_type": _TOPIC, "resource_name": TOPIC, "configs": [of_topic]},
            {"resource_type": _GROUP, "resource_name": GROUP, "configs": [of_group]},
        ]
        asked = {"resource_type": _TOPIC, "resource_name": TOPIC, "configuration_keys": ["retention.ms"]}
        return [
            step(ApiKey.ALTER_CONFIGS, 2, resources=resources, validate_only=False),
            step(ApiKey.DESCRIBE_CONFIGS, 4, resources=[asked]),
            step(ApiKey.LIST_CONFIG_RESOURCES, 1, resource_types=[_GROUP]),
        ]

    def _features(self) -> list[Step]:
        """Choose a level and look at it."""
        level = self._chance.randint(0, 2)
        update = {"feature": "transaction.version", "max_version_level": level, "upgrade_type": 1 + level % 2}
        software = {"client_software_name": "sim", "client_software_version": "1"}
        return [
            step(ApiKey.UPDATE_FEATURES, 1, timeout_ms=30_000, feature_updates=[update]),
            step(ApiKey.API_VERSIONS, 4, **software),
        ]

    def _markers(self) -> list[Step]:
        marker = {
            "producer_id": STRANGER_ID,
            "producer_epoch": 0,
            "transaction_result": self._chance.random() < 0.5,
            "topics": [{"name": TXN_TOPIC, "partition_indexes": self._places()}],
            "coordinator_epoch": 0,
        }
        return [step(ApiKey.WRITE_TXN_MARKERS, 1, markers=[marker])]

    # ---- reads

    def _look_at_groups(self) -> list[Step]:
        return [
            step(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=[GROUP, CLASSIC_GROUP]),
            step(ApiKey.LIST_GROUPS, 5),
            step(ApiKey.DESCRIBE_GROUPS, 5, groups=[CLASSIC_GROUP, GROUP]),
            step(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=["members-0", "members-1"]),
        ]

    def _look_at_transactions(self) -> list[Step]:
        every = list(range(PARTITIONS))
        return [
            step(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[TXN_ID, OLD_TXN_ID]),
            step(ApiKey.LIST_TRANSACTIONS, 1, duration_filter=-1),
            step(ApiKey.DESCRIBE_PRODUCERS, 0, topics=[{"name": TXN_TOPIC, "partition_indexes": every}]),
        ]

    def _look_at_topics(self) -> list[Step]:
        name = self._topic()
        asked = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
        epochs = {"topic": name, "partitions": [asked]}
        return [
            step(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, replica_id=-1, topics=[epochs]),
            step(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=[{"name": name}], response_partition_limit=100),
            step(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=[{"topic": name, "partitions": [0]}]),
        ]

    def _look_at_node(self) -> list[Step]:
        at = {"topic": QUICK_TOPIC, "partitions": [0]}
        moved = {"name": QUICK_TOPIC, "partitions": [{"partition_index": 0, "replicas": None}]}
        quorum = {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}
        return [
            step(ApiKey.DESCRIBE_CLUSTER, 1),
            step(ApiKey.DESCRIBE_QUORUM, 2, topics=[quorum]),
            step(ApiKey.UNREGISTER_BROKER, 0, broker_id=77),
            step(ApiKey.ELECT_LEADERS, 2, topic_partitions=[at], timeout_ms=30_000),
            step(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, timeout_ms=30_000, topics=[moved]),
            step(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, timeout_ms=30_000, topics=None),
        ]

    def _access(self) -> list[Step]:
        kept = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
        grant = {
            "resource_type": 2,
            "resource_name": TOPIC,
            "resource_pattern_type": 3,
            "principal": "User:a",
        }
        grant |= {"host": "*", "operation": 3, "permission_type": 3}
        return [
            step(ApiKey.DESCRIBE_ACLS, 3, **kept),
            step(ApiKey.CREATE_ACLS, 3, creations=[grant]),
            step(ApiKey.DELETE_ACLS, 3, filters=[kept]),
            step(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, components=[], strict=False),
            step(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=None),
        ]
