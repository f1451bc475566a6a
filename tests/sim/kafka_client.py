"""A small Kafka client for the simulated world: the real wire protocol, one connection. Never retries by itself."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, NamedTuple

from penstock.core.model import NewRecord, Record
from penstock.core.records.batch import check, decode_header, encode_header, size_at, stamp_checksum
from penstock.core.records.build import build_batch, open_batch
from penstock.wire.kafka import ApiKey, ErrorCode, decode_response, encode_request, messages

ANSWER_S_MAX = 5.0
"""A broker that lost its power says nothing; a client does not wait for ever."""

CHANGE_S_MAX = 12.0
"""A change of topics may take longer: several attempts of the broker to reach a store."""

FETCH_BYTES = 20_000
OFFSET_MAX = 2**62
_SIZE_BYTES = 4
_HEADER_BYTES = 61

_PRODUCE, _FETCH, _METADATA = 13, 16, 12
_CREATE, _DELETE, _DELETE_RECORDS, _INIT_PRODUCER = 7, 6, 2, 4
_LIST_OFFSETS, _ALTER = 8, 1
_LATEST, _TOPIC = -1, 2
ACKS_ALL, ACKS_LEADER = -1, 1


class KafkaError(Exception):
    """The broker answered with an error code."""

    def __init__(self, code: int, message: str | None = None) -> None:
        super().__init__(f"error {code}: {message}")
        self.code = code


class Place(NamedTuple):
    """One partition of one topic; the id tells a topic from an earlier one of the same name."""

    topic_id: bytes
    partition: int


class Fetched(NamedTuple):
    """What one fetch returned."""

    start_offset: int
    high_watermark: int
    records: list[Record]
    next_offset: int
    """Where to read on: behind the last batch, which compaction may have left without its last records."""


class KafkaClient(asyncio.Protocol):
    """Requests may be pipelined. Once the connection is gone every call raises ConnectionError."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._received = bytearray()
        self._asked: deque[tuple[int, int, asyncio.Future[Any]]] = deque()
        self._sent = self._answered = 0
        self._broken = False
        self.host = ""
        """Where it is connected to."""

    @classmethod
    async def connect(cls, host: str, port: int) -> KafkaClient:
        _, client = await asyncio.get_running_loop().create_connection(cls, host, port)
        client.host = host
        return client

    @property
    def is_broken(self) -> bool:
        """Nothing can be asked any more: it was closed, or the peer went away."""
        return self._broken

    def close(self) -> None:
        self._break()
        self._transport.close()

    async def call(
        self, api_key: ApiKey, version: int, body: Any, *, answer_s_max: float = ANSWER_S_MAX
    ) -> Any:
        """Ask and wait for the answer."""
        return await self._answer(self._ask(api_key, version, body), answer_s_max)

    def _ask(self, api_key: ApiKey, version: int, body: Any) -> asyncio.Future[Any]:
        if self._broken:
            raise ConnectionError("the connection is gone")
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._transport.write(encode_request(api_key, version, self._sent, "sim", body))
        self._asked.append((api_key, version, answer))
        self._sent += 1
        return answer

    async def _answer(self, answer: asyncio.Future[Any], answer_s_max: float = ANSWER_S_MAX) -> Any:
        timer = self._loop.call_later(answer_s_max, self.close)
        try:
            return await answer
        finally:
            timer.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        while len(received) >= _SIZE_BYTES:
            end = _SIZE_BYTES + int.from_bytes(received[:_SIZE_BYTES], "big")
            if len(received) < end:
                return
            frame = bytes(received[_SIZE_BYTES:end])
            del received[:end]
            self._take(frame)

    def _take(self, frame: bytes) -> None:
        if self._broken:
            return
        api_key, version, answer = self._asked.popleft()
        correlation_id, body = decode_response(api_key, version, frame)
        assert correlation_id == self._answered, "an answer out of its order"
        self._answered += 1
        if not answer.done():
            answer.set_result(body)

    def connection_lost(self, exc: Exception | None) -> None:
        self._break()

    def _break(self) -> None:
        self._broken = True
        while self._asked:
            _, _, answer = self._asked.popleft()
            if not answer.done():
                answer.set_exception(ConnectionError("the connection broke, or the broker fell silent"))

    # ---- data

    def send_batch(self, place: Place, batch: bytes, acks: int = ACKS_ALL) -> Coroutine[Any, Any, int]:
        """Send one batch now; what is returned waits for its base offset."""
        request = messages.ProduceRequest
        one = request.PartitionProduceData(index=place.partition, records=memoryview(batch))
        topic = request.TopicProduceData(topic_id=place.topic_id, partition_data=[one])
        body = request(transactional_id=None, acks=acks, timeout_ms=30_000, topic_data=[topic])
        return self._appended(self._ask(ApiKey.PRODUCE, _PRODUCE, body))

    async def _appended(self, asked: asyncio.Future[Any]) -> int:
        answer = (await self._answer(asked)).responses[0].partition_responses[0]
        _check(answer.error_code, answer.error_message)
        return int(answer.base_offset)

    async def produce(self, place: Place, batch: bytes, acks: int = ACKS_ALL) -> int:
        """Append one batch; returns its base offset."""
        return await self.send_batch(place, batch, acks)

    async def _fetch(
        self, place: Place, offset: int, wait_ms: int, isolation: int = 0, leader_epoch: int = -1
    ) -> Any:
        request = messages.FetchRequest
        one = request.FetchPartition(
            partition=place.partition,
            current_leader_epoch=leader_epoch,
            fetch_offset=offset,
            partition_max_bytes=FETCH_BYTES,
        )
        topic = request.FetchTopic(topic_id=place.topic_id, partitions=[one])
        body = request(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            isolation_level=isolation,
            session_epoch=-1,
            topics=[topic],
            forgotten_topics_data=[],
            rack_id="",
        )
        response = await self.call(ApiKey.FETCH, _FETCH, body)
        _check(response.error_code)
        return response.responses[0].partitions[0]

    async def fetch(self, place: Place, offset: int, *, wait_ms: int = 0, leader_epoch: int = -1) -> Fetched:
        """What there is from `offset` on, as far as one answer goes; refused in another epoch, if one is given."""
        answer = await self._fetch(place, offset, wait_ms, leader_epoch=leader_epoch)
        _check(answer.error_code)
        records, next_offset = _open(answer.records, offset)
        return Fetched(answer.log_start_offset, answer.high_watermark, records, next_offset)

    async def fetch_committed(self, place: Place, offset: int) -> tuple[list[bytes | None], int, int]:
        """Committed values from `offset` on, as far as one answer goes; the offset behind them, and the last stable
        offset."""
        answer = await self._fetch(place, offset, 0, isolation=1)
        _check(answer.error_code)
        aborted = {(one.producer_id, one.first_offset) for one in answer.aborted_transactions or ()}
        values, next_offset = _open_committed(answer.records, offset, aborted)
        return values, next_offset, int(answer.last_stable_offset)

    async def start_offset(self, place: Place) -> int:
        """Where the partition starts: an offset beyond every log is refused with it."""
        answer = await self._fetch(place, OFFSET_MAX, 0)
        if answer.error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
            _check(answer.error_code)
        return int(answer.log_start_offset)

    async def latest_offset(self, name: str, partition: int) -> int:
        """Where the committed records of a partition end."""
        request = messages.ListOffsetsRequest
        one = request.ListOffsetsPartition(partition_index=partition, timestamp=_LATEST)
        topic = request.ListOffsetsTopic(name=name, partitions=[one])
        response = await self.call(ApiKey.LIST_OFFSETS, _LIST_OFFSETS, request(replica_id=-1, topics=[topic]))
        answer = response.topics[0].partitions[0]
        _check(answer.error_code)
        return int(answer.offset)

    async def init_producer(self) -> int:
        body = messages.InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
        )
        response = await self.call(ApiKey.INIT_PRODUCER_ID, _INIT_PRODUCER, body)
        _check(response.error_code)
        return int(response.producer_id)

    # ---- topics

    async def topics(self) -> dict[bytes, tuple[str, int]]:
        """Every topic: id to name and number of partitions."""
        body = messages.MetadataRequest(topics=None, allow_auto_topic_creation=False)
        response = await self.call(ApiKey.METADATA, _METADATA, body)
        for topic in response.topics:
            for code in (topic.error_code, *(one.error_code for one in topic.partitions)):
                _check(code, topic.name)
        return {bytes(topic.topic_id): (topic.name, len(topic.partitions)) for topic in response.topics}

    async def create_topic(
        self, name: str, partitions: int, configs: Mapping[str, str], factor: int = 1
    ) -> bytes:
        """Returns the id of the new topic."""
        request = messages.CreateTopicsRequest
        entries = [request.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()]
        topic = request.CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=factor, assignments=[], configs=entries
        )
        body = request(topics=[topic], timeout_ms=30_000, validate_only=False)
        answer = (await self.call(ApiKey.CREATE_TOPICS, _CREATE, body, answer_s_max=CHANGE_S_MAX)).topics[0]
        _check(answer.error_code, answer.error_message)
        return bytes(answer.topic_id)

    async def alter_topic(self, name: str, key: str, value: str | None) -> None:
        """Set one setting of a topic; None means the default."""
        request = messages.IncrementalAlterConfigsRequest
        change = request.AlterableConfig(
            name=key, config_operation=0 if value is not None else 1, value=value
        )
        resource = request.AlterConfigsResource(resource_type=_TOPIC, resource_name=name, configs=[change])
        response = await self.call(
            ApiKey.INCREMENTAL_ALTER_CONFIGS, _ALTER, request(resources=[resource]), answer_s_max=CHANGE_S_MAX
        )
        answer = response.responses[0]
        _check(answer.error_code, answer.error_message)

    async def delete_topic(self, topic_id: bytes) -> None:
        request = messages.DeleteTopicsRequest
        body = request(topics=[request.DeleteTopicState(name=None, topic_id=topic_id)], timeout_ms=30_000)
        answer = (await self.call(ApiKey.DELETE_TOPICS, _DELETE, body, answer_s_max=CHANGE_S_MAX)).responses[
            0
        ]
        _check(answer.error_code, answer.error_message)

    async def delete_records(self, name: str, partition: int, before_offset: int) -> int:
        """Returns the new start offset."""
        request = messages.DeleteRecordsRequest
        one = request.DeleteRecordsPartition(partition_index=partition, offset=before_offset)
        topic = request.DeleteRecordsTopic(name=name, partitions=[one])
        response = await self.call(
            ApiKey.DELETE_RECORDS, _DELETE_RECORDS, request(topics=[topic], timeout_ms=30_000)
        )
        answer = response.topics[0].partitions[0]
        _check(answer.error_code)
        return int(answer.low_watermark)


def make_batch(
    records: Sequence[NewRecord], now_ms: int, *, producer_id: int = -1, sequence: int = -1, codec: int = 0
) -> bytes:
    """A batch as a producer sends it; with an id and a sequence it is an idempotent one of epoch 0."""
    batch = build_batch(records, now_ms, codec)
    if producer_id >= 0:
        header = decode_header(batch)._replace(
            producer_id=producer_id, producer_epoch=0, base_sequence=sequence
        )
        batch[:_HEADER_BYTES] = encode_header(header)
        stamp_checksum(batch)
    return bytes(batch)


def _open(content: memoryview | bytes, offset: int) -> tuple[list[Record], int]:
    """The records from `offset` on of whole batches whose checksums are right, and the offset behind them."""
    records: list[Record] = []
    view = memoryview(content)
    next_offset = offset
    while len(view):
        raw = view[: size_at(view, 0)]
        header = check(raw)
        records += [one for one in open_batch(raw, header) if one.offset >= offset]
        next_offset = header.next_offset
        view = view[len(raw) :]
    return records, next_offset


def _open_committed(
    content: memoryview | bytes, offset: int, aborted: set[tuple[int, int]]
) -> tuple[list[bytes | None], int]:
    """The values of batches that no aborted transaction wrote, and the offset behind all of them."""
    values: list[bytes | None] = []
    skipping: set[int] = set()
    view, next_offset = memoryview(content), offset
    while len(view):
        raw = view[: size_at(view, 0)]
        header = check(raw)
        begun = {one for one in aborted if one[1] <= header.base_offset}
        aborted -= begun
        skipping |= {producer_id for producer_id, _ in begun}
        if header.is_control:
            skipping.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in skipping):
            values += [one.value for one in open_batch(raw, header)]
        next_offset = header.next_offset
        view = view[len(raw) :]
    return values, next_offset


def _check(code: int, message: str | None = None) -> None:
    if code:
        raise KafkaError(code, message)
