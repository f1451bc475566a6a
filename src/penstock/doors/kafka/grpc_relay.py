"""The Kafka door of a broker that also takes gRPC clients: connections that begin with HTTP/2 are relayed to a service.

Imported only if the setting grpc_relay names one. As the length of a Kafka request, the preface of HTTP/2 would be
1.35 GB: the framing recognises it where such lengths are refused, so that ordinary requests pay nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from penstock.core.errors import BrokerError, Malformed
from penstock.core.model import Address
from penstock.doors.kafka.server import KafkaDoor
from penstock.node.connections.connection import Connection
from penstock.node.connections.conversation import Conversation
from penstock.node.connections.framing import LengthPrefixedOrHttp2
from penstock.node.connections.outbox import Piece
from penstock.node.connections.relay import ByteRelay
from penstock.node.runtime.tasks import Tasks
from penstock.node.waist.waist import Waist
from penstock.wire.foreign_protocol import HTTP2_PREFACE

_FRAMING = LengthPrefixedOrHttp2()
_PREFACE = HTTP2_PREFACE[_FRAMING.prefix_bytes :]
"""As a frame: without the four bytes of its length."""

_Handle = Callable[[memoryview], None]


class _KafkaOrGrpc:
    """A conversation whose first bytes decide: Kafka requests, or a gRPC client."""

    __slots__ = ("_handle_kafka", "_relay", "handle")

    framing = _FRAMING
    answers_after_end = False

    def __init__(self, handle_kafka: _Handle, relay: Callable[[], None]) -> None:
        self._handle_kafka = handle_kafka
        self._relay = relay
        self.handle: _Handle = self._handle_first

    def _handle_first(self, frame: memoryview) -> None:
        """Called for the first frame and, at most, those that arrived together with it."""
        is_first = self.handle is not self._handle_kafka
        self.handle = self._handle_kafka
        if frame != _PREFACE:
            self._handle_kafka(frame)
        elif is_first:
            self._relay()
        else:
            raise Malformed("the client sent HTTP/2 behind Kafka requests on one connection")

    def closing_reply(self, error: BrokerError) -> Sequence[Piece]:
        return ()


class RelayingKafkaDoor(KafkaDoor):
    """The Kafka dialect with a service for gRPC clients."""

    def __init__(self, waist: Waist, service: Address) -> None:
        super().__init__(waist)
        self._service = service
        self._tasks = Tasks()

    def open(self, connection: Connection) -> Conversation:
        handle_kafka = partial(self._dispatch.handle, connection)
        return _KafkaOrGrpc(handle_kafka, partial(self._relay, connection))

    def _relay(self, connection: Connection) -> None:
        ByteRelay(connection, self._service, HTTP2_PREFACE, self._tasks)

    def release_waiting(self) -> None:
        super().release_waiting()
        self._tasks.cancel()
