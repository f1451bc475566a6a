"""One TCP connection to another broker: requests out, responses matched by number. Never reconnects, knows no deadline.

Responses may come in any order. Requests of one turn of the loop leave in one write. Whatever the peer sends that is no
response to a pending request ends the connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from penstock.core.errors import BrokerError, PeerUnavailable, UnsupportedVersion
from penstock.core.limits import LINK_RESPONSE_BYTES_MAX
from penstock.node.connections.framing import LengthPrefixed
from penstock.node.connections.intake import Budget, Intake
from penstock.node.connections.outbox import Outbox
from penstock.node.peers.pending_calls import PendingCall
from penstock.node.runtime.meters import LinkMeter
from penstock.node.runtime.tasks import resolver
from penstock.wire.kafka import (
    API,
    KafkaRequest,
    ResponseT,
    api_key_of,
    decode_response,
    encode_request_parts,
)
from penstock.wire.kafka.classes import Buffer

CORRELATION_IDS = 1 << 31

FRAMING = LengthPrefixed()


class LinkConnection(asyncio.BufferedProtocol):
    """The asyncio protocol object. `on_answer` and `on_lost` belong to the link once the handshake is over."""

    def __init__(self, loop: asyncio.AbstractEventLoop, meter: LinkMeter, client_id: str) -> None:
        self._loop = loop
        self._meter = meter
        self._client_id = client_id
        self._number = 0
        self._sent: dict[int, PendingCall] = {}
        """By correlation id. A call that was settled before its response came stays until it does."""
        self._queued: list[PendingCall] = []
        self._pieces: list[Buffer] = []
        """What leaves at the end of this turn."""
        self._versions: dict[type[object], tuple[int, int]] = {}
        self.supported: dict[int, tuple[int, int]] = {}
        """The peer's versions by API key."""
        self._intake = Intake(Budget(LINK_RESPONSE_BYTES_MAX), LINK_RESPONSE_BYTES_MAX, FRAMING)
        self.heard_s = loop.time()
        """When the peer last sent anything."""
        self.is_closed = False
        self.on_answer: Callable[[PendingCall, Any], None] = _answer
        self.on_lost: Callable[[str], None] = self._fail_all

    # -- calls

    def encode(self, call: PendingCall) -> list[Buffer]:
        """The request's bytes; its records are not copied. Raises UnsupportedVersion."""
        kind = type(call.request)
        api_key, version = self._versions.get(kind) or self._agree_on(kind)
        call.api_key, call.version = api_key, version
        self._number = number = (self._number + 1) % CORRELATION_IDS
        return encode_request_parts(api_key, version, number, self._client_id, call.request)

    def send(self, call: PendingCall, pieces: list[Buffer]) -> None:
        """Send what `encode` returned last."""
        self._sent[self._number] = call
        if not self._queued:
            self._loop.call_soon(self._flush)
        self._queued.append(call)
        self._pieces += pieces

    async def exchange(
        self, request: KafkaRequest[ResponseT], versions: tuple[int, int] | None = None
    ) -> ResponseT:
        """One call of the handshake. `versions`: what the peer is known to support before it said so."""
        if versions is not None:
            self.supported[api_key_of(type(request))] = versions
        reply: asyncio.Future[Any] = self._loop.create_future()
        call = PendingCall(request, resolver(reply), 0, 0.0)
        self.send(call, self.encode(call))
        outcome = await reply
        if isinstance(outcome, BrokerError):
            raise outcome
        return cast(ResponseT, outcome)

    def _agree_on(self, kind: type[object]) -> tuple[int, int]:
        api_key = api_key_of(kind)
        api = API[api_key]
        low, high = self.supported.get(api_key, (0, -1))
        version = min(high, api.version_max)
        if version < max(low, api.version_min):
            raise UnsupportedVersion(
                f"the broker supports versions {low} to {high} of {api.name}, this one needs {api.version_min} to"
                f" {api.version_max}: run versions of Penstock that can talk to each other"
            )
        self._versions[kind] = api_key, version
        return api_key, version

    def _flush(self) -> None:
        queued, self._queued = self._queued, []
        pieces, self._pieces = self._pieces, []
        if self.is_closed:
            return
        for call in queued:
            call.is_sent = True
        self._meter.bytes["out"] += sum(map(len, pieces))
        self._outbox.write(pieces)

    # -- called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._outbox = Outbox(self._loop, self._transport, lambda: None)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._intake.room()

    def buffer_updated(self, nbytes: int) -> None:
        if self.is_closed:
            return
        intake = self._intake
        is_full = intake.received(nbytes)
        self.heard_s = self._loop.time()
        self._meter.bytes["in"] += nbytes
        try:
            while not self.is_closed and (frame := intake.take()) is not None:
                # The buffer is reused, and records stay slices of the frame: this is their only copy. A replica appends
                # from it, which needs writable bytes.
                self._receive(bytearray(frame))
            has_room = intake.make_room()
        except BrokerError as error:
            self.close(f"the peer sent a malformed response: {error}")
            return
        assert has_room, "the budget holds the largest response"
        if is_full:
            intake.widen()

    def _receive(self, frame: bytearray) -> None:
        number = int.from_bytes(frame[:4], "big")
        call = self._sent.get(number)
        if call is None:
            self.close(f"the peer answered request {number}, which is not pending")
            return
        response = None if call.is_settled else decode_response(call.api_key, call.version, frame)[1]
        del self._sent[number]
        if not call.is_settled:
            self.on_answer(call, response)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._outbox.pause()

    def resume_writing(self) -> None:
        self._outbox.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        self.close(str(exc) if exc is not None else "the peer closed the connection")
        self._outbox.close()
        self._intake.drop()

    # -- close

    def shrink(self) -> None:
        """No call is pending: return memory."""
        self._intake.shrink()

    def close(self, why: str) -> None:
        """End the connection at once; `on_lost` is told why, once."""
        if self.is_closed:
            return
        self.is_closed = True
        self._transport.abort()
        self.on_lost(why)
        self._sent.clear()

    def _fail_all(self, why: str) -> None:
        """During the handshake."""
        for call in self._sent.values():
            _answer(call, PeerUnavailable(why))


def _answer(call: PendingCall, outcome: Any) -> None:
    call.is_settled = True
    call.answered(outcome)
