"""The subscription memberships of one connection: delivery, acknowledgements, back-pressure, liveness.

The subscription decides which member gets which message. It may be coordinated by another broker; `relays` has those
memberships.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol

from penstock.core.errors import BrokerError, InvalidRequest
from penstock.core.model import Record
from penstock.core.session import Session
from penstock.doors.queue.errors import error_properties
from penstock.node.connections.connection import Connection
from penstock.node.waist.subscriptions import Delivered, Outcome, Seat, SubscriptionVerbs
from penstock.wire.queue.frames import Frame, MessageType, encode, encode_parts
from penstock.wire.queue.properties import encode_properties, properties_of
from penstock.wire.queue.request_properties import (
    DELIVERY,
    OUTCOME,
    PARTITION,
    REASON,
    SUBSCRIPTION,
    TOPIC,
    RequestProperties,
)

WAITING_BYTES_MAX = 1 << 20
"""Bytes that may wait for a slow member; beyond it, other members get the messages."""

SILENCE_BEATS = 3
"""Missed heartbeats after which a member is removed."""

ACK_CACHE_MAX = 256
"""Maximum cached acknowledgements: one per partition is enough."""

RENEW = "renew"
_PLAIN = frozenset({SUBSCRIPTION, PARTITION, OUTCOME})
_OUTCOMES = {outcome.value: outcome for outcome in Outcome}


class MemberSeat(Protocol):
    """One membership, here or at another broker. See Seat."""

    def acknowledge(
        self, session: Session, partition: int, offset: int, outcome: Outcome, reason: str | None = None
    ) -> None: ...

    def renew(self, session: Session, partition: int, offset: int) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def release(self) -> None: ...

    def abandon(self) -> None: ...


class CachedAck(NamedTuple):
    """A parsed acknowledgement that only accepts a message; it differs from the next one in its offset only."""

    seat: MemberSeat
    partition: int
    fields: RequestProperties


class Membership:
    """The seats of one connection, one per subscription."""

    def __init__(self, connection: Connection, heartbeat_ms: int) -> None:
        self._connection = connection
        self._silence_s_max = SILENCE_BEATS * heartbeat_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._seats: dict[str, MemberSeat] = {}
        self.counts_loss = True
        """Whether held messages count as delivered if the connection is lost: not if a broker is at its other end, and
        has not said that the client is lost."""
        self._is_slow = False
        self._active_at = self._loop.time()
        self._watch: asyncio.TimerHandle | None = None
        self.ack_cache: dict[bytes, CachedAck] = {}
        """Parsed acknowledgements by their raw properties: members repeat the same ones."""

    # -- join and leave

    def join(self, subscriptions: SubscriptionVerbs, name: str, member_id: str, window: int) -> Seat:
        self.check_absent(name)
        seat = subscriptions.join(self._connection.session, name, member_id, window, self)
        self.sit(name, seat)
        return seat

    def check_absent(self, name: str) -> None:
        """Raise if the connection is a member already, or is closed."""
        if name in self._seats:
            raise InvalidRequest(f"this connection is already a member of {name!r}")
        if self._connection.is_closed:
            raise InvalidRequest("the connection is closed")

    def sit(self, name: str, seat: MemberSeat) -> None:
        """The connection is a member from now on."""
        if not self._seats:
            self._connection.on_close(self._lost)
            self._connection.on_drained(self._drained)
            self._check_liveness()
        self._seats[name] = seat

    def rise(self, name: str) -> None:
        """It is no longer a member."""
        if name in self._seats:
            self._drop(name)

    async def leave(self, subscription: str) -> None:
        """Leave a subscription; returns once all acknowledgements are durable."""
        seat = self._seat(subscription)
        assert isinstance(seat, Seat), "the broker of a relayed member is asked"
        done: asyncio.Future[BrokerError | None] = self._loop.create_future()
        seat.leave(self._connection.session, done.set_result)
        self._drop(subscription)
        error = await done
        if error is not None:
            raise error

    def _seat(self, subscription: str) -> MemberSeat:
        seat = self._seats.get(subscription)
        if seat is None:
            raise InvalidRequest(f"this connection is not a member of {subscription!r}; send SUBSCRIBE first")
        return seat

    def _drop(self, subscription: str) -> None:
        self._seats.pop(subscription, None)
        self.ack_cache.clear()
        if not self._seats:
            self._connection.not_on_close(self._lost)
            self._connection.not_on_drained(self._drained)
            if self._watch is not None:
                self._watch.cancel()
                self._watch = None

    def _lost(self) -> None:
        """The connection is closed: give up all seats."""
        for name, seat in list(self._seats.items()):
            self._drop(name)
            if self.counts_loss:
                seat.abandon()
            else:
                seat.release()

    # -- liveness

    def note_activity(self) -> None:
        """Record that the client has sent something."""
        self._active_at = self._loop.time()

    def _check_liveness(self) -> None:
        silent_s = self._loop.time() - self._active_at
        if silent_s >= self._silence_s_max:
            self._watch = None
            self._connection.close(
                f"no heartbeat from a member for {silent_s:.1f} s (subscription_heartbeat_ms)"
            )
            return
        self._watch = self._loop.call_later(self._silence_s_max - silent_s + 0.001, self._check_liveness)

    # -- messages

    def deliver(self, subscription: str, messages: Sequence[Delivered]) -> None:
        seat = self._seats.get(subscription)
        if not isinstance(seat, Seat):
            return
        topic = seat.definition.topic
        self._connection.push(
            [
                b"".join(
                    [
                        encode_parts(
                            MessageType.DATA,
                            record.offset,
                            record.timestamp_ms,
                            _origin(subscription, topic, partition, number) + _content(record),
                            record.value or b"",
                        )
                        for partition, record, number in messages
                    ]
                )
            ]
        )
        self.check_slow()

    def check_slow(self) -> None:
        """Pause all seats if the client does not read what was sent."""
        if self._connection.waiting_bytes > WAITING_BYTES_MAX and not self._is_slow:
            self._is_slow = True
            for other in self._seats.values():
                other.pause()

    def _drained(self) -> None:
        if self._is_slow:
            self._is_slow = False
            for seat in self._seats.values():
                seat.resume()

    def end(self, subscription: str, error: BrokerError) -> None:
        """Report the end of a membership to the client; the connection stays open."""
        self.rise(subscription)
        properties = (*error_properties(error), (SUBSCRIPTION, subscription))
        self._connection.push([encode(Frame(MessageType.ACK, properties=properties))])

    def cache_ack(self, raw: bytes, fields: RequestProperties) -> None:
        """Cache an acknowledgement that only accepts: the member will repeat it."""
        if (
            fields.values.keys() <= _PLAIN
            and fields.values.get(OUTCOME, Outcome.ACCEPT.value) == Outcome.ACCEPT.value
        ):
            if len(self.ack_cache) == ACK_CACHE_MAX:
                self.ack_cache.clear()
            seat = self._seat(fields.text(SUBSCRIPTION))
            self.ack_cache[raw] = CachedAck(seat, fields.number(PARTITION) or 0, fields)

    def seat_for(self, fields: RequestProperties) -> MemberSeat:
        """The seat that a request names. Raises BrokerError."""
        return self._seat(fields.text(SUBSCRIPTION))

    def acknowledge(self, fields: RequestProperties, offset: int) -> MemberSeat:
        """Settle a message or extend its hold. Raises BrokerError."""
        seat, session = self._seat(fields.text(SUBSCRIPTION)), self._connection.session
        partition = fields.number(PARTITION) or 0
        outcome_name = fields.values.get(OUTCOME, Outcome.ACCEPT.value)
        if outcome_name == RENEW:
            seat.renew(session, partition, offset)
            return seat
        outcome = _OUTCOMES.get(outcome_name)
        if outcome is None:
            known = ", ".join((*_OUTCOMES, RENEW))
            raise InvalidRequest(f"ACK: {OUTCOME} must be one of {known}, not {outcome_name!r}")
        seat.acknowledge(session, partition, offset, outcome, fields.values.get(REASON))
        return seat


@lru_cache(1024)
def _origin(subscription: str, topic: str, partition: int, number: int) -> bytes:
    """The encoded origin of a message; cached because few combinations repeat."""
    return encode_properties(
        (
            (SUBSCRIPTION, subscription),
            (TOPIC, topic),
            (PARTITION, str(partition)),
            (DELIVERY, str(number)),
        )
    )


def _content(record: Record) -> bytes:
    if record.key is None and not record.headers and record.value is not None:
        return b""
    return encode_properties(properties_of(record.key, record.headers, is_null=record.value is None))
