"""Random requests of one client, all known before the first is answered: what a client may pipeline. Never sends."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from penstock.core.codecs import GZIP, NONE, ZSTD
from penstock.core.model import NewRecord
from penstock.core.records.batch import TRANSACTIONAL, decode_header, encode_header, stamp_checksum
from penstock.core.records.build import build_batch
from penstock.wire.kafka import ApiKey, encode_request, messages
from penstock.wire.queue.frames import Frame, MessageType
from penstock.wire.queue.frames import encode as encode_frame
from sim.chance import START_MS

TOPIC, TXN_TOPIC, QUICK_TOPIC = "orders", "payments", "clicks"
PARTITIONS = 4
TXN_ID, GROUP = "shop", "readers"
COMPRESSED_BYTES = 300_000
"""What a batch unfolds to that is validated in a worker."""
_HEADER_BYTES = 61


class Step:
    """One Kafka request; `is_answered` is False for acks=0."""

    def __init__(self, api_key: ApiKey, version: int, body: Any, *, is_answered: bool = True) -> None:
        self.api_key = api_key
        self.version = version
        self.body = body
        self.is_answered = is_answered

    def encode(self, correlation_id: int) -> bytes:
        return encode_request(self.api_key, self.version, correlation_id, "sim", self.body)

    def __repr__(self) -> str:
        return f"{self.api_key.name} v{self.version} {self.body!r}"[:300]


class KafkaScript:
    """Foresees what each request will do, so that the next may be made without waiting for its answer."""

    def __init__(
        self, chance: random.Random, idempotent: tuple[int, int], transactional: tuple[int, int]
    ) -> None:
        self._chance = chance
        self._idempotent_id, self._idempotent_epoch = idempotent
        self._txn_id, self._txn_epoch = transactional
        self._sequences: dict[int, int] = {}
        self._txn_sequences: dict[int, int] = {}
        self._made = 0
        self._is_open = False
        self._topics = 0

    def kinds(self) -> list[Callable[[], list[Step]]]:
        """What makes the next steps; one that is named often is chosen often."""
        return [
            self._produce,
            self._produce_idempotent,
            self._produce_in_transaction,
            self._produce_in_transaction,
            self._produce_in_transaction,
            self._produce_unanswered,
            self._pend_offsets,
            self._end,
            self._commit_and_fetch_offsets,
            self._list_offsets,
            self._fetch,
            self._change_topics,
            self._change_configs,
            self._delete_records,
            self._init_producer,
            self._member,
        ]

    def steps(self, count: int) -> list[Step]:
        kinds = self.kinds()
        steps: list[Step] = []
        while len(steps) < count:
            steps += self._chance.choice(kinds)()
        return steps

    # ---- produce

    def _batch(self, producer: tuple[int, int, int] | None = None, attributes: int = 0) -> bytes:
        self._made += 1
        values = [b"%d/%d" % (self._made, number) for number in range(self._chance.randint(1, 3))]
        codec = self._chance.choice((NONE, NONE, GZIP, ZSTD))
        if codec != NONE and self._chance.random() < 0.5:
            values.append(bytes(COMPRESSED_BYTES))
        batch = build_batch([NewRecord(b"k", value) for value in values], START_MS, codec)
        if producer is not None:
            header = decode_header(batch)
            header = header._replace(
                producer_id=producer[0],
                producer_epoch=producer[1],
                base_sequence=producer[2],
                attributes=header.attributes | attributes,
            )
            batch[:_HEADER_BYTES] = encode_header(header)
            stamp_checksum(batch)
        return bytes(batch)

    def _request(
        self,
        topic: str,
        batches: dict[int, bytes],
        *,
        acks: int = -1,
        txn_id: str | None = None,
        version: int = 12,
    ) -> Step:
        request = messages.ProduceRequest
        data = [
            request.PartitionProduceData(index=at, records=memoryview(batch)) for at, batch in batches.items()
        ]
        body = request(
            transactional_id=txn_id,
            acks=acks,
            timeout_ms=30_000,
            topic_data=[request.TopicProduceData(name=topic, partition_data=data)],
        )
        return Step(ApiKey.PRODUCE, version, body, is_answered=acks != 0)

    def _places(self) -> list[int]:
        return self._chance.sample(range(PARTITIONS), self._chance.randint(1, 3))

    def _produce(self) -> list[Step]:
        return [
            self._request(
                TOPIC, {at: self._batch() for at in self._places()}, acks=self._chance.choice((1, -1))
            )
        ]

    def _produce_unanswered(self) -> list[Step]:
        return [self._request(QUICK_TOPIC, {0: self._batch()}, acks=0)]

    def _numbered(
        self, sequences: dict[int, int], producer: tuple[int, int], attributes: int = 0
    ) -> dict[int, bytes]:
        batches = {}
        for at in self._places():
            sequence = sequences.get(at, 0)
            batches[at] = batch = self._batch((*producer, sequence), attributes)
            sequences[at] = sequence + decode_header(batch).count
        return batches

    def _produce_idempotent(self) -> list[Step]:
        producer = (self._idempotent_id, self._idempotent_epoch)
        return [self._request(TOPIC, self._numbered(self._sequences, producer))]

    # ---- transactions, protocol V2

    def _produce_in_transaction(self) -> list[Step]:
        self._is_open = True
        batches = self._numbered(self._txn_sequences, (self._txn_id, self._txn_epoch), TRANSACTIONAL)
        return [self._request(TXN_TOPIC, batches, txn_id=TXN_ID)]

    def _pend_offsets(self) -> list[Step]:
        self._is_open = True
        request = messages.TxnOffsetCommitRequest
        one = request.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=self._chance.randint(0, 99)
        )
        body = request(
            transactional_id=TXN_ID,
            group_id=GROUP,
            producer_id=self._txn_id,
            producer_epoch=self._txn_epoch,
            generation_id=-1,
            member_id="",
            topics=[request.TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[one])],
        )
        return [Step(ApiKey.TXN_OFFSET_COMMIT, 5, body)]

    def _end(self) -> list[Step]:
        """The next transaction has the next epoch and counts from 0."""
        if not self._is_open:
            return []
        body = messages.EndTxnRequest(
            transactional_id=TXN_ID,
            producer_id=self._txn_id,
            producer_epoch=self._txn_epoch,
            committed=self._chance.random() < 0.7,
        )
        self._is_open = False
        self._txn_epoch += 1
        self._txn_sequences.clear()
        return [Step(ApiKey.END_TXN, 5, body)]

    # ---- offsets

    def _commit_and_fetch_offsets(self) -> list[Step]:
        commit = messages.OffsetCommitRequest
        one = commit.OffsetCommitRequestPartition(
            partition_index=1, committed_offset=self._chance.randint(0, 99)
        )
        body = commit(
            group_id=GROUP,
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=[commit.OffsetCommitRequestTopic(name=TOPIC, partitions=[one])],
        )
        fetch = messages.OffsetFetchRequest
        wanted = [fetch.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0, 1])]
        group = fetch.OffsetFetchRequestGroup(group_id=GROUP, member_epoch=-1, topics=wanted)
        asked = Step(
            ApiKey.OFFSET_FETCH, 9, fetch(groups=[group], require_stable=self._chance.random() < 0.5)
        )
        return [Step(ApiKey.OFFSET_COMMIT, 9, body), asked]

    def _topic(self) -> str:
        return self._chance.choice((TOPIC, TXN_TOPIC, QUICK_TOPIC))

    def _list_offsets(self) -> list[Step]:
        request, name = messages.ListOffsetsRequest, self._topic()
        count = 1 if name == QUICK_TOPIC else PARTITIONS
        asked = [
            request.ListOffsetsPartition(partition_index=at, current_leader_epoch=-1, timestamp=-1)
            for at in range(count)
        ]
        body = request(
            replica_id=-1,
            isolation_level=self._chance.randint(0, 1),
            topics=[request.ListOffsetsTopic(name=name, partitions=asked)],
        )
        return [Step(ApiKey.LIST_OFFSETS, 7, body)]

    def _fetch(self) -> list[Step]:
        request, name = messages.FetchRequest, self._topic()
        one = request.FetchPartition(
            partition=0, current_leader_epoch=-1, fetch_offset=0, partition_max_bytes=1 << 20
        )
        body = request(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1 << 20,
            isolation_level=self._chance.randint(0, 1),
            session_epoch=-1,
            topics=[request.FetchTopic(topic=name, partitions=[one])],
            forgotten_topics_data=[],
            rack_id="",
        )
        return [Step(ApiKey.FETCH, 12, body)]

    def _delete_records(self) -> list[Step]:
        request = messages.DeleteRecordsRequest
        one = request.DeleteRecordsPartition(partition_index=self._chance.randrange(PARTITIONS), offset=-1)
        topics = [request.DeleteRecordsTopic(name=TOPIC, partitions=[one])]
        return [Step(ApiKey.DELETE_RECORDS, 2, request(topics=topics, timeout_ms=30_000))]

    # ---- topics, settings, producers, members

    def _change_topics(self) -> list[Step]:
        """Create a topic, write to it, look, and perhaps delete it again."""
        self._topics += 1
        name = f"new-{self._topics}"
        create, look, delete = (
            messages.CreateTopicsRequest,
            messages.MetadataRequest,
            messages.DeleteTopicsRequest,
        )
        made = create.CreatableTopic(
            name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        body = look(
            topics=[look.MetadataRequestTopic(name=name)], allow_auto_topic_creation=self._topics % 2 == 0
        )
        metadata = Step(ApiKey.METADATA, 9, body)
        steps = (
            []
            if self._topics % 2 == 0
            else [
                Step(ApiKey.CREATE_TOPICS, 5, create(topics=[made], timeout_ms=30_000, validate_only=False))
            ]
        )
        steps += [metadata, self._request(name, {0: self._batch()}), metadata]
        if self._chance.random() < 0.5:
            steps += [Step(ApiKey.DELETE_TOPICS, 5, delete(topic_names=[name], timeout_ms=30_000))]
            steps += [self._request(name, {0: self._batch()})]
        return steps

    def _change_configs(self) -> list[Step]:
        alter, describe = messages.IncrementalAlterConfigsRequest, messages.DescribeConfigsRequest
        value = str(self._chance.randint(10**9, 10**10))
        entry = alter.AlterableConfig(name="retention.ms", config_operation=0, value=value)
        resource = alter.AlterConfigsResource(resource_type=2, resource_name=TOPIC, configs=[entry])
        asked = describe.DescribeConfigsResource(
            resource_type=2, resource_name=TOPIC, configuration_keys=["retention.ms"]
        )
        return [
            Step(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, alter(resources=[resource], validate_only=False)),
            Step(ApiKey.DESCRIBE_CONFIGS, 4, describe(resources=[asked])),
        ]

    def _init_producer(self) -> list[Step]:
        body = messages.InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
        )
        return [Step(ApiKey.INIT_PRODUCER_ID, 4, body)]

    def _member(self) -> list[Step]:
        """A member that names itself joins, beats once and leaves."""
        request = messages.ConsumerGroupHeartbeatRequest
        topics, group = [TOPIC], f"members-{self._chance.randint(0, 1)}"
        self._made += 1
        common: dict[str, Any] = {
            "group_id": group,
            "member_id": f"m-{self._made}",
            "rebalance_timeout_ms": 60_000,
        }
        joining = request(**common, member_epoch=0, subscribed_topic_names=topics, topic_partitions=[])
        leaving = request(**common, member_epoch=-1, subscribed_topic_names=None, topic_partitions=None)
        return [Step(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, body) for body in (joining, leaving)]


# ---- the other doors: whole requests as bytes


def text_script(chance: random.Random, count: int) -> list[bytes]:
    steps = []
    for number in range(count):
        topic = f"t{chance.randint(0, 5)}"
        value = b"%d" % number
        publish = b"PUB %s %d time=12\r\n%s" % (topic.encode(), len(value), value)
        others = [
            f"FETCH {topic} {chance.choice(('first', 'next', '0', '3'))} form=full\r\n".encode(),
            b"TOPICS\r\n",
            b"HELP\r\n",
        ]
        steps.append(publish if chance.random() < 0.6 else chance.choice(others))
    return steps


def json_script(chance: random.Random, count: int) -> list[bytes]:
    steps = []
    for number in range(count):
        topic = f"t{chance.randint(0, 5)}"
        produce = {"command": "PRODUCE", "topic": topic, "message": str(number), "time": 12}
        offsets = [{"topic": topic, "partition": 0, "offset": number}]
        others: list[dict[str, Any]] = [
            {
                "command": "PRODUCE",
                "topic": topic,
                "messages": [{"message": "a", "time": 1}, {"message": "b", "time": 2}],
            },
            {"command": "CONSUME", "topic": topic, "offset": chance.choice(("earliest", "latest", 2))},
            {"command": "CREATE_TOPIC", "topic": f"t{chance.randint(0, 9)}", "partitions": 1},
            {"command": "LIST_TOPICS"},
            {"command": "COMMIT", "group": "g", "offsets": offsets},
            {"command": "OFFSETS", "group": "g", "topics": [topic]},
            {"command": "JOIN", "group": "m", "topics": [topic], "member": "anna"},
            {"command": "HEARTBEAT", "group": "m", "member": "anna", "epoch": 1, "assignment": []},
            {"command": "LEAVE", "group": "m", "member": "anna"},
        ]
        content = json.dumps(
            {**(produce if chance.random() < 0.5 else chance.choice(others)), "id": number}
        ).encode()
        steps.append(len(content).to_bytes(4, "big") + content)
    return steps


def http_script(chance: random.Random, count: int) -> list[bytes]:
    steps = []
    for number in range(count):
        topic = f"t{chance.randint(0, 5)}"
        message = {"topic": topic, "value": str(number), "timestamp_ms": 12}
        path = f"/api/v1/topics/{topic}/partitions/0/messages?offset={chance.choice(('earliest', 'latest', '1'))}"
        others: list[tuple[str, str, Any]] = [
            ("GET", path, None),
            ("GET", "/api/v1/topics", None),
            ("DELETE", f"/api/v1/topics/{topic}", None),
            ("POST", "/api/v1/topics", {"name": topic, "partitions": 1}),
            ("PATCH", f"/api/v1/topics/{topic}", {"configs": {"retention.ms": str(10**9 + number)}}),
        ]
        publish: tuple[str, str, Any] = ("POST", "/api/v1/messages", message)
        method, target, body = publish if chance.random() < 0.6 else chance.choice(others)
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {target} HTTP/1.1\r\nHost: localhost\r\n"
        if content:
            head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        steps.append(head.encode() + b"\r\n" + content)
    return steps


def queue_script(chance: random.Random, count: int) -> list[bytes]:
    steps = []
    for number in range(count):
        topic, name = f"t{chance.randint(0, 5)}", f"s{chance.randint(0, 2)}"
        others = [
            (MessageType.CREATE_TOPIC, (("@topic", topic),)),
            (MessageType.CREATE_SUBSCRIPTION, (("@subscription", name), ("@topic", topic))),
            (MessageType.LIST_SUBSCRIPTIONS, ()),
            (MessageType.DESCRIBE_SUBSCRIPTION, (("@subscription", name),)),
            (MessageType.DELETE_SUBSCRIPTION, (("@subscription", name),)),
            (MessageType.HEARTBEAT, ()),
        ]
        kind, properties = (
            (MessageType.PUBLISH, (("@topic", topic),)) if chance.random() < 0.6 else chance.choice(others)
        )
        body = b"%d" % number if kind is MessageType.PUBLISH else b""
        steps.append(encode_frame(Frame(kind, -1, 12, properties, body)))
    return steps
