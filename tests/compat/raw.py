"""A bare connection that speaks exact versions, for what no client library would send.

Never retries, never negotiates: the message layouts come from kafka-python, the bytes of a batch too. In a cluster it
goes to the broker that must answer before each request, as every client does.
"""

from __future__ import annotations

import io
import select
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

from kafka.protocol.admin import CreateTopicsRequest
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from compat.routes import Fields, address_for
from compat.vocabulary import Sent

ANSWER_S_MAX = 20.0
VISIBLE_S_MAX = 10.0
POLL_S = 0.02
EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP = -2, -1, -3
BATCH_BYTES_MAX = 1 << 24
FETCH_BYTES_MAX = 1 << 20


def built(kind: Any, values: dict[str, Any], **version: int) -> Any:
    """A message from nested dicts: the library wants an object of its own at every level."""
    made: dict[str, Any] = {}
    for name, value in values.items():
        field = kind.fields[name]
        if value is not None and field.is_struct_array():
            made[name] = [built(field.data_class, item) for item in value]
        elif value is not None and field.is_struct():
            made[name] = built(field.data_class, value)
        else:
            made[name] = value
    return kind(**made, **version)


class RawConnection:
    """One socket. `call` asks and answers in turn; `send` and `receive` let a test pipeline.

    With several brokers, one socket to each of them. It is at one broker at a time: there the next bytes go, and
    from there answers come. It moves only with a request that has its own broker.
    """

    def __init__(self, bootstrap: str, client_id: str | None = "compat-raw") -> None:
        self.client_id = client_id
        self.addresses = bootstrap.split(",")
        self._sockets: dict[str, socket.socket] = {}
        self._socket = self._connected(self.addresses[0])
        self._guide: RawConnection | None = None
        """Answers where a request must go, so that this connection carries nothing but what the test sends."""
        self._correlation_id = 0
        self._asked: dict[int, Any] = {}

    def __enter__(self) -> RawConnection:
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._sockets.values():
            one.close()
        if self._guide is not None:
            self._guide.__exit__()

    def _connected(self, address: str) -> socket.socket:
        if address not in self._sockets:
            host, _, port = address.rpartition(":")
            opened = socket.create_connection((host, int(port)), timeout=ANSWER_S_MAX)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets[address] = opened
        return self._sockets[address]

    @property
    def guide(self) -> RawConnection:
        if self._guide is None:
            self._guide = RawConnection(self.addresses[0])
        return self._guide

    def go(self, api_key: int, fields: Fields) -> None:
        """Be at the broker that must get such a request; stay here if any will do."""
        if len(self.addresses) > 1 and (address := address_for(self.guide.call, api_key, fields)):
            self._socket = self._connected(address)

    def send(self, kind: type[ApiMessage], version: int, **values: Any) -> int:
        """Send a request; its correlation id names the answer."""
        self.go(kind.API_KEY, values)
        self._correlation_id += 1
        request = built(kind, values, version=version)
        request.with_header(correlation_id=self._correlation_id, client_id=self.client_id)
        self.send_bytes(bytes(request.encode(header=True, framed=True)))
        self._asked[self._correlation_id] = request.header.get_response_class()
        return self._correlation_id

    def send_bytes(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive_frame(self) -> bytes:
        """The next answer without its length."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def receive(self) -> tuple[int, Any]:
        """The next answer, whichever request it belongs to."""
        frame = self.receive_frame()
        (correlation_id,) = struct.unpack_from(">i", frame)
        decoder = self._asked.pop(correlation_id)
        return correlation_id, decoder.decode(io.BytesIO(frame), header=True)

    def call(self, kind: type[ApiMessage], version: int, **values: Any) -> Any:
        correlation_id = self.send(kind, version, **values)
        answered, answer = self.receive()
        assert answered == correlation_id
        return answer

    def is_answer_due(self, wait_s: float) -> bool:
        """Whether bytes (or the end) arrive within a moment: to see that a request is still parked."""
        return bool(select.select([self._socket], [], [], wait_s)[0])

    def is_closed_by_peer(self) -> bool:
        """Whether the next thing from the broker is the end of the connection, and not an answer."""
        try:
            return self._socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            if not part:
                raise ConnectionError("the broker closed the connection")
            data += part
        return bytes(data)

    # -- the few requests that nearly every test needs -------------------------------------------------

    def create_topic(
        self, topic: str, partitions: int = 1, *, beside: str | None = None, **configs: str
    ) -> None:
        """Create and wait until every partition has a leader. Config names with underscores for dots.

        `beside` puts it on the broker that leads partition 0 of another topic, for requests about both.
        """
        entries = [{"name": name.replace("_", "."), "value": value} for name, value in configs.items()]
        wanted = {"name": topic, "num_partitions": partitions, "replication_factor": 1, "configs": entries}
        wanted["assignments"] = []
        if beside is not None:
            leader = self.metadata([beside]).topics[0].partitions[0].leader_id
            places = [{"partition_index": index, "broker_ids": [leader]} for index in range(partitions)]
            wanted |= {"assignments": places, "num_partitions": -1, "replication_factor": -1}
        answer = self.call(CreateTopicsRequest, 5, topics=[wanted], timeout_ms=10_000, validate_only=False)
        assert answer.topics[0].error_code == 0, answer
        self.await_leaders(topic, partitions)

    def await_leaders(self, topic: str, partitions: int) -> None:
        """Wait until every broker knows the leader of every partition, and the leaders serve."""
        for one in self._each_broker():
            one._await_known(topic, partitions)
        deadline = time.monotonic() + VISIBLE_S_MAX
        while not all(self._is_serving(topic, index) for index in range(partitions)):
            assert time.monotonic() < deadline, f"the leaders of {topic} do not serve"
            time.sleep(POLL_S)

    def _each_broker(self) -> Iterator[RawConnection]:
        """A connection to each broker. A single one may accept no second connection."""
        if len(self.addresses) == 1:
            yield self
            return
        for address in self.addresses:
            with RawConnection(address) as one:
                yield one

    def _await_known(self, topic: str, partitions: int) -> None:
        deadline = time.monotonic() + VISIBLE_S_MAX
        while time.monotonic() < deadline:
            (described,) = self.metadata([topic]).topics
            leaders = [one.leader_id for one in described.partitions if one.error_code == 0]
            if len(leaders) == partitions and -1 not in leaders:
                return
            time.sleep(POLL_S)
        raise AssertionError(f"{topic} has no leaders")

    def _is_serving(self, topic: str, partition: int) -> bool:
        """Metadata may know a leader before the leader itself does."""
        if len(self.addresses) == 1:
            return self._has_end(topic, partition)
        with RawConnection(",".join(self.addresses)) as asking:
            return asking._has_end(topic, partition)

    def _has_end(self, topic: str, partition: int) -> bool:
        return bool(self.offset_at(topic, LATEST_TIMESTAMP, partition=partition).error_code == 0)

    def await_absence(self, topic: str) -> None:
        """Wait until no broker knows the topic."""
        for one in self._each_broker():
            one._await_forgotten(topic)

    def _await_forgotten(self, topic: str) -> None:
        deadline = time.monotonic() + VISIBLE_S_MAX
        while time.monotonic() < deadline:
            if topic not in {described.name for described in self.metadata(None).topics}:
                return
            time.sleep(POLL_S)
        raise AssertionError(f"{topic} is still there")

    def await_end(self, topic: str, offset: int) -> None:
        """Wait until readers see everything before `offset`; with acks=0 nobody says when."""
        deadline = time.monotonic() + VISIBLE_S_MAX
        while (found := self.offset_at(topic, -1).offset) != offset:
            assert time.monotonic() < deadline, f"{topic} ends at {found}, not at {offset}"
            time.sleep(POLL_S)

    def metadata(self, topics: list[str] | None, *, create: bool = False, version: int = 12) -> Any:
        wanted = None if topics is None else [{"name": topic} for topic in topics]
        return self.call(MetadataRequest, version, topics=wanted, allow_auto_topic_creation=create)

    def produce(
        self, topic: str, records: bytes | None, *, version: int = 9, acks: int = -1, partition: int = 0
    ) -> Any:
        """The one partition's answer; None for acks 0."""
        kind = produce_fields(topic, records, acks, partition)
        if acks == 0:
            self._asked.pop(self.send(ProduceRequest, version, **kind))
            return None
        return self.call(ProduceRequest, version, **kind).responses[0].partition_responses[0]

    def send_produce(self, topic: str, records: bytes, *, version: int = 9, acks: int = -1) -> int:
        return self.send(ProduceRequest, version, **produce_fields(topic, records, acks, 0))

    def fetch(self, topic: str, offset: int, *, version: int = 11, **overrides: Any) -> Any:
        """The one partition's answer."""
        answer = self.call(FetchRequest, version, **fetch_fields([(topic, 0, offset)], **overrides))
        return answer.responses[0].partitions[0]

    def offset_at(self, topic: str, timestamp_ms: int, *, version: int = 7, partition: int = 0) -> Any:
        wanted = {"partition_index": partition, "current_leader_epoch": -1, "timestamp": timestamp_ms}
        topics = [{"name": topic, "partitions": [wanted]}]
        answer = self.call(ListOffsetsRequest, version, replica_id=-1, isolation_level=0, topics=topics)
        return answer.topics[0].partitions[0]

    def producer_id(self) -> tuple[int, int]:
        answer = self.call(InitProducerIdRequest, 1, transactional_id=None, transaction_timeout_ms=60_000)
        assert answer.error_code == 0
        return answer.producer_id, answer.producer_epoch


def produce_fields(topic: str, records: bytes | None, acks: int, partition: int) -> dict[str, Any]:
    data = [{"name": topic, "partition_data": [{"index": partition, "records": records}]}]
    return {"transactional_id": None, "acks": acks, "timeout_ms": 10_000, "topic_data": data}


def fetch_fields(
    places: list[tuple[str, int, int]],
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = FETCH_BYTES_MAX,
    partition_max_bytes: int = FETCH_BYTES_MAX,
    leader_epoch: int = -1,
    session_id: int = 0,
    session_epoch: int = -1,
) -> dict[str, Any]:
    """A fetch of (topic, partition, offset)s in that order."""
    topics = [
        {
            "topic": topic,
            "partitions": [
                {
                    "partition": partition,
                    "current_leader_epoch": leader_epoch,
                    "fetch_offset": offset,
                    "log_start_offset": -1,
                    "partition_max_bytes": partition_max_bytes,
                }
            ],
        }
        for topic, partition, offset in places
    ]
    return {
        "replica_id": -1,
        "max_wait_ms": max_wait_ms,
        "min_bytes": min_bytes,
        "max_bytes": max_bytes,
        "isolation_level": 0,
        "session_id": session_id,
        "session_epoch": session_epoch,
        "topics": topics,
        "forgotten_topics_data": [],
        "rack_id": "",
    }


def batch(
    *values: bytes | Sent | None,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    timestamp_ms: int | None = None,
) -> bytes:
    """One uncompressed record batch of version 2."""
    builder = DefaultRecordBatchBuilder(2, 0, False, producer_id, epoch, sequence, BATCH_BYTES_MAX)
    now_ms = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
    for index, item in enumerate(values):
        record = item if isinstance(item, Sent) else Sent(item, timestamp_ms=now_ms)
        stamp_ms = now_ms if record.timestamp_ms is None else record.timestamp_ms
        assert builder.append(index, stamp_ms, record.key, record.value, list(record.headers)) is not None
    return bytes(builder.build())


def batches(records: bytes | None) -> list[Any]:
    """Whole batches in a fetch answer, in order."""
    assert records is not None, "an answer without records carries empty bytes, not null"
    memory = MemoryRecords(bytes(records))
    found: list[Any] = []
    while memory.has_next():
        found.append(memory.next_batch())
    return found


def values(records: bytes | None) -> list[bytes | None]:
    return [record.value for one in batches(records) for record in one]
