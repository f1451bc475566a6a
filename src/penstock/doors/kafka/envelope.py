"""Envelope: a call that another broker forwards on behalf of its client. Only brokers of the cluster may send it.

The call inside is run for the client that the broker names: its principal has the permissions, not the broker's. Only
calls of clients that cannot look up coordinators are forwarded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.core.errors import BrokerError, InvalidRequest
from penstock.core.session import Session
from penstock.doors.kafka.call import Call
from penstock.doors.kafka.errors import code_of
from penstock.node.connections.connection import Connection
from penstock.node.runtime.slices import Sliced
from penstock.node.waist.waist import Waist
from penstock.wire.kafka import (
    UNSUPPORTED,
    ApiKey,
    KafkaMessage,
    RequestHeader,
    decode_request,
    decode_request_header,
    encode_response,
    messages,
)

FORWARDED = frozenset(
    {
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.DESCRIBE_GROUPS,
    }
)
"""The calls that may be inside. None of them holds a connection for long, nor sends records."""

_SIZE_BYTES = 4


class EnvelopedCall(Call):
    """A call that comes in an envelope. Once it is open, its response travels in the response of the envelope."""

    __slots__ = ("_envelope",)

    def __init__(
        self, connection: Connection, api_key: int, version: int, correlation_id: int, session: Session
    ) -> None:
        super().__init__(connection, api_key, version, correlation_id, session)
        self._envelope: tuple[int, int, int] | None = None

    def open(self, header: RequestHeader, session: Session) -> None:
        """From now on this is the call inside, of this client."""
        self._envelope = self.api_key, self.version, self.correlation_id
        self.api_key, self.version, self.correlation_id = header[:3]
        self.session = session

    def encode(self, body: KafkaMessage) -> list[Any]:
        """See Call."""
        return self._wrap(super().encode(body))

    def encode_sliced(self, body: KafkaMessage) -> Sliced[list[Any]]:
        """See Call."""
        pieces = yield from super().encode_sliced(body)
        return self._wrap(pieces)

    def _wrap(self, pieces: list[Any]) -> list[Any]:
        if self._envelope is None:
            return pieces
        data = b"".join(pieces)[_SIZE_BYTES:]
        return encode_response(*self._envelope, messages.EnvelopeResponse(response_data=data))


class EnvelopeHandler:
    """Handler of Envelope. `start` runs a call, see Dispatch."""

    def __init__(self, waist: Waist, start: Callable[[Call, Any], bool]) -> None:
        self._verbs = waist.peers
        self._start = start

    def open(self, call: Call, request: messages.EnvelopeRequest) -> messages.EnvelopeResponse | None:
        """Run the call inside; a failure of the envelope itself is answered with its error code."""
        assert isinstance(call, EnvelopedCall), "dispatched as one"
        try:
            body = self._open(call, request)
        except BrokerError as error:
            return messages.EnvelopeResponse(error_code=code_of(error))
        self._start(call, body)
        return None

    def _open(self, call: EnvelopedCall, request: messages.EnvelopeRequest) -> Any:
        """The body of the call inside. Raises BrokerError."""
        data = bytes(request.request_data)
        principal = str(bytes(request.request_principal or b""), "utf-8", "replace")
        address = str(bytes(request.client_host_address), "utf-8", "replace")
        client = self._verbs.client_of(call.session, principal, address)
        header = decode_request_header(data)
        if header.body_position == UNSUPPORTED or header.api_key not in FORWARDED:
            raise InvalidRequest("the call in the envelope is not one that brokers forward")
        body = decode_request(header.api_key, header.version, data, header.body_position)
        call.open(header, client.with_client(header.client_id))
        return body
