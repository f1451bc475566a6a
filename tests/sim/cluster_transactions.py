"""Producers with transactions over several brokers of a simulated cluster, and what readers must see of them.

A transaction writes one value to several partitions and commits an offset of a group. It is there in whole or not at
all; what its producer was told holds.
"""

from __future__ import annotations

import asyncio
from typing import Any

from penstock.core.machines.transactions.transactions import Claim
from penstock.wire.kafka import ApiKey, ErrorCode, messages
from sim.cluster_clients import Client
from sim.cluster_router import ANSWER_S_MAX, PASSING, TRANSACTION_KEY, Trouble
from sim.kafka_client import KafkaClient, KafkaError, Place
from sim.ledger import Broken
from transaction_node import transactional_batch

TOPIC = "t"
PARTITIONS = 4
TIMEOUT_MS = 20_000
TRIES_MAX = 3
ASK_AGAIN_S, ASK_S_MAX = 0.1, 10.0
_INIT, _ADD, _ADD_OFFSETS = 4, 3, 3
_V1_PRODUCE, _V1_COMMIT_OFFSETS, _V1_END = 11, 3, 4
_V2_PRODUCE, _V2_COMMIT_OFFSETS, _V2_END = 12, 5, 5
_FETCH_OFFSETS = 7

TO_BEGIN_AGAIN = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
"""Codes that a producer may meet because its transaction timed out, or a step of it has no answer yet."""


class TransactionalProducer(Client):
    """One transaction after the other under one transactional id. After any doubt it begins anew with InitProducerId,
    as a producer does that was restarted."""

    topic_id: bytes

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.told: dict[bytes, str] = {}
        """Value → committed, aborted, or nothing."""
        self._places: dict[bytes, set[int]] = {}
        """Value → the partitions that it was written to."""
        self.offset_of: dict[int, bytes] = {}
        """Offset that a transaction commits for the group → its value."""
        self.offset_acked = -1
        self.group = f"group-of-{self.name}"
        self._is_v2 = self._chance.random() < 0.5
        self._by = Claim(-1, -1)
        self._sequences: dict[int, int] = {}
        self._is_settled = False

    async def work(self) -> None:
        if self._by.producer_id < 0:
            await self._init()
        self._made += 1
        value = b"%s-%08d" % (self.name.encode(), self._made)
        commit, by = self._chance.random() < 0.75, self._by
        self._by = Claim(-1, -1)
        self.told[value], self._places[value] = "nothing", set()
        for partition in self._chance.sample(range(PARTITIONS), self._chance.randint(1, 3)):
            await self._write(by, partition, value)
            self._places[value].add(partition)
        if self._chance.random() < 0.5:
            self.offset_of[self._made] = value
            await self._pend(by, self._made)
        self._by = await self._end(by, commit=commit)
        self.told[value] = "committed" if commit else "aborted"
        if commit and self._made in self.offset_of:
            self.offset_acked = self._made

    async def finish(self) -> None:
        """Whatever was left open is aborted, or completed if it was decided."""
        await self._init()
        self._is_settled = True

    def is_finished(self) -> bool:
        return self._is_settled

    # -- calls

    async def _call(self, api_key: ApiKey, version: int, body: Any, *, key: str = "") -> Any:
        """A call to the coordinator of the transactions, or of the group if its key is given."""
        client = (
            await self._router.coordinator(key)
            if key
            else await self._router.coordinator(self.name, TRANSACTION_KEY)
        )
        try:
            return await client.call(api_key, version, body, answer_s_max=2 * ANSWER_S_MAX)
        except OSError as error:
            raise Trouble(error) from error

    async def _init(self) -> None:
        answer = await self._call(
            ApiKey.INIT_PRODUCER_ID,
            _INIT,
            messages.InitProducerIdRequest(
                transactional_id=self.name,
                transaction_timeout_ms=TIMEOUT_MS,
                producer_id=-1,
                producer_epoch=-1,
            ),
        )
        _check(answer.error_code)
        self._by, self._sequences = Claim(answer.producer_id, answer.producer_epoch), {}

    async def _write(self, by: Claim, partition: int, value: bytes) -> None:
        if not self._is_v2:
            request = messages.AddPartitionsToTxnRequest
            answer = await self._call(
                ApiKey.ADD_PARTITIONS_TO_TXN,
                _ADD,
                request(
                    v3_and_below_transactional_id=self.name,
                    v3_and_below_producer_id=by.producer_id,
                    v3_and_below_producer_epoch=by.producer_epoch,
                    v3_and_below_topics=[request.AddPartitionsToTxnTopic(name=TOPIC, partitions=[partition])],
                ),
            )
            _check(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)
        sequence = self._sequences.get(partition, 0)
        batch = bytes(transactional_batch(by, sequence, [value]))
        for left in reversed(range(TRIES_MAX)):
            try:
                await self._send(partition, batch)
                break
            except Trouble:
                self._router.forget()
                if not left:
                    raise
        self._sequences[partition] = sequence + 1

    async def _send(self, partition: int, batch: bytes) -> None:
        request = messages.ProduceRequest
        one = request.PartitionProduceData(index=partition, records=memoryview(batch))
        body = request(
            transactional_id=self.name,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[request.TopicProduceData(name=TOPIC, partition_data=[one])],
        )
        client = await self._router.leader(Place(self.topic_id, partition))
        version = _V2_PRODUCE if self._is_v2 else _V1_PRODUCE
        try:
            answer = await client.call(ApiKey.PRODUCE, version, body, answer_s_max=2 * ANSWER_S_MAX)
        except OSError as error:
            raise Trouble(error) from error
        _check(answer.responses[0].partition_responses[0].error_code)

    async def _pend(self, by: Claim, offset: int) -> None:
        producer: dict[str, Any] = {
            "transactional_id": self.name,
            "producer_id": by.producer_id,
            "producer_epoch": by.producer_epoch,
            "group_id": self.group,
        }
        if not self._is_v2:
            answer = await self._call(
                ApiKey.ADD_OFFSETS_TO_TXN, _ADD_OFFSETS, messages.AddOffsetsToTxnRequest(**producer)
            )
            _check(answer.error_code)
        request = messages.TxnOffsetCommitRequest
        one = request.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topic = request.TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[one])
        answer = await self._call(
            ApiKey.TXN_OFFSET_COMMIT,
            _V2_COMMIT_OFFSETS if self._is_v2 else _V1_COMMIT_OFFSETS,
            request(topics=[topic], **producer),
            key=self.group,
        )
        _check(answer.topics[0].partitions[0].error_code)

    async def _end(self, by: Claim, *, commit: bool) -> Claim:
        answer = await self._call(
            ApiKey.END_TXN,
            _V2_END if self._is_v2 else _V1_END,
            messages.EndTxnRequest(
                transactional_id=self.name,
                producer_id=by.producer_id,
                producer_epoch=by.producer_epoch,
                committed=commit,
            ),
        )
        _check(answer.error_code)
        if not self._is_v2:
            return by
        self._sequences = {}
        return Claim(answer.producer_id, answer.producer_epoch)

    async def committed_offset(self) -> int:
        """The offset of the group, -1 if there is none. The first question about any group creates the topic of groups,
        and is answered with a refusal."""
        until_s = self._loop.time() + ASK_S_MAX
        while True:
            try:
                return await self._ask_offset()
            except Trouble:
                if self._loop.time() > until_s:
                    raise
            await asyncio.sleep(ASK_AGAIN_S)

    async def _ask_offset(self) -> int:
        """The coordinator may have moved since it was asked last."""
        self._router.forget()
        request = messages.OffsetFetchRequest
        topic = request.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])
        answer = await self._call(
            ApiKey.OFFSET_FETCH,
            _FETCH_OFFSETS,
            request(group_id=self.group, topics=[topic], require_stable=True),
            key=self.group,
        )
        _check(answer.error_code)
        found = answer.topics[0].partitions[0]
        _check(found.error_code)
        return int(found.committed_offset)

    # -- the check

    def check(self, seen: list[list[bytes]], offset: int) -> None:
        """`seen` are the committed values of all partitions, `offset` is what the group has committed."""
        for value, told in self.told.items():
            counts = [values.count(value) for values in seen]
            is_there = sum(counts) > 0
            whole = [int(partition in self._places[value]) for partition in range(PARTITIONS)]
            if is_there and counts != whole:
                raise Broken(f"{value!r} was written as {whole}, committed are {counts}")
            if told != "nothing" and is_there != (told == "committed"):
                raise Broken(f"{value!r} was {told}: {counts}")
        if offset not in (-1, *self.offset_of) or offset < self.offset_acked:
            raise Broken(f"{self.group}: {self.offset_acked} was committed, {offset} is there")
        if offset in self.offset_of and not any(self.offset_of[offset] in values for values in seen):
            raise Broken(f"{self.group} has {offset}, but {self.offset_of[offset]!r} was not committed")


async def read_committed(client: KafkaClient, place: Place) -> list[bytes]:
    """All committed values of a partition. Nothing may be left undecided."""
    offset, values = 0, []
    while True:
        found, next_offset, stable_offset = await client.fetch_committed(place, offset)
        values += [bytes(value or b"") for value in found]
        if next_offset == offset:
            high_watermark = (await client.fetch(place, offset)).high_watermark
            if stable_offset != high_watermark:
                raise Broken(f"{place}: a transaction is left open at {stable_offset} of {high_watermark}")
            return values
        offset = next_offset


def _check(code: int) -> None:
    if code in PASSING or code in TO_BEGIN_AGAIN:
        raise Trouble(ErrorCode(code).name, code)
    if code:
        raise KafkaError(code)
