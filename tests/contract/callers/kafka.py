"""The Kafka door, by the codec of kafka-python. Kafka has no last words: it hangs up.

With a cluster it goes to the leader of the topic, as every client does.
"""

from __future__ import annotations

import io
import struct
from typing import Any, ClassVar

from kafka.protocol.consumer import FetchRequest
from kafka.protocol.producer import ProduceRequest

from compat.raw import RawConnection, batch, batches, built, fetch_fields, produce_fields
from compat.routes import leader_of
from compat.vocabulary import Sent, error_name
from contract.callers.caller import Caller, Kept, Message, Refused
from penstock.testing import Broker

PRODUCE_VERSION, FETCH_VERSION = 9, 11


class KafkaCaller(Caller):
    door = "kafka"
    words: ClassVar[dict[str, str]] = {
        "unknown topic": "UNKNOWN_TOPIC_OR_PARTITION",
        "out of range": "OFFSET_OUT_OF_RANGE",
        "too large": "MESSAGE_TOO_LARGE",
        "frame too large": "",
        "malformed": "",
    }

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self._bootstrap = broker.bootstrap
        self._at = f"{broker.host}:{broker.port}"

    @classmethod
    def port_of(cls, broker: Broker) -> int:
        return broker.port

    def publish(self, topic: str, message: Message) -> int:
        self._go(topic)
        records = batch(Sent(message.value, message.key, message.headers))
        answer = self._ask(ProduceRequest, PRODUCE_VERSION, produce_fields(topic, records, -1, 0))
        placed = answer.responses[0].partition_responses[0]
        _check(placed.error_code)
        return int(placed.base_offset)

    def read(self, topic: str, offset: int) -> Kept:
        self._go(topic)
        answer = self._ask(FetchRequest, FETCH_VERSION, fetch_fields([(topic, 0, offset)]))
        found = answer.responses[0].partitions[0]
        _check(found.error_code)
        records = [record for one in batches(found.records) for record in one]
        (record,) = [record for record in records if record.offset == offset]
        headers = tuple((name, value) for name, value in record.headers)
        return Kept(record.offset, Message(record.value, record.key, headers))

    def request(self, topic: str) -> bytes:
        self._go(topic)
        return self._encoded(FetchRequest, FETCH_VERSION, fetch_fields([(topic, 0, 0)]))[0]

    def half(self, topic: str) -> bytes:
        return self.request(topic)[:-1]

    def malformed(self) -> bytes:
        return struct.pack(">ihhi", 8, 999, 0, 1)

    def announced(self, topic: str, size_bytes: int) -> bytes:
        return struct.pack(">i", size_bytes)

    def last_word(self, said: bytes) -> str:
        return said.decode()

    def _go(self, topic: str) -> None:
        """Be connected to the leader of partition 0."""
        if "," not in self._bootstrap:
            return
        with RawConnection(self._bootstrap) as guide:
            leader = leader_of(guide.call, {"name": topic}, 0) or self._at
        if leader != self._at:
            self._at = leader
            self.close()
            host, _, port = leader.rpartition(":")
            self.connect(host, int(port))

    def _ask(self, kind: Any, version: int, fields: dict[str, Any]) -> Any:
        data, decoder = self._encoded(kind, version, fields)
        self.send(data)
        (size,) = struct.unpack(">i", self.exactly(4))
        return decoder.decode(io.BytesIO(self.exactly(size)), header=True)

    @staticmethod
    def _encoded(kind: Any, version: int, fields: dict[str, Any]) -> tuple[bytes, Any]:
        request = built(kind, fields, version=version)
        request.with_header(correlation_id=1, client_id="contract")
        return bytes(request.encode(header=True, framed=True)), request.header.get_response_class()


def _check(code: int) -> None:
    if code:
        raise Refused(error_name(code))
