"""The connections on which one client is relayed to other brokers, and its memberships there.

Frames are passed on in both directions as they are, with the back-pressure of both sides: a client that does not read
is not read for, and a broker that does not read holds the client's requests.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from penstock.core.errors import BrokerError, NotCoordinator
from penstock.core.session import Session
from penstock.doors.queue.membership import RENEW, Membership
from penstock.doors.queue.upstream import Upstream, open_upstream
from penstock.node.connections.connection import Connection
from penstock.node.waist.peers import PeerVerbs
from penstock.node.waist.subscriptions import Outcome
from penstock.wire.queue.frames import Frame, MessageType, encode, encode_parts
from penstock.wire.queue.properties import encode_properties
from penstock.wire.queue.request_properties import OUTCOME, PARTITION, REASON, SUBSCRIPTION

logger = logging.getLogger("penstock.queue")

DOOR = "queue"
WAITING_BYTES_MAX = 1 << 20
"""Bytes that may wait for a broker; beyond it, the client's requests are held."""
BEAT_S_MAX = 10.0
SILENT_S_MAX = 3 * BEAT_S_MAX
"""A broker that is sent heartbeats and sends nothing for so long is given up."""


class RelayedSeat:
    """The membership of a client in a subscription that another broker coordinates."""

    def __init__(self, upstream: Upstream, subscription: str) -> None:
        self.upstream = upstream
        self._subscription = subscription
        self._accepting: dict[int, bytes] = {}
        """Encoded properties of an acknowledgement by partition: members repeat the same ones."""

    def acknowledge(
        self, session: Session, partition: int, offset: int, outcome: Outcome, reason: str | None = None
    ) -> None:
        """Pass on an acknowledgement. If the broker rejects it, the client hears of it later."""
        if outcome is not Outcome.ACCEPT or reason is not None:
            self._send(partition, offset, outcome.value, reason)
            return
        raw = self._accepting.get(partition)
        if raw is None:
            named = (SUBSCRIPTION, self._subscription), (PARTITION, str(partition))
            raw = self._accepting[partition] = encode_properties(named)
        self.upstream.send(encode_parts(MessageType.ACK, offset, 0, raw, b""))

    def renew(self, session: Session, partition: int, offset: int) -> None:
        self._send(partition, offset, RENEW, None)

    def _send(self, partition: int, offset: int, outcome: str, reason: str | None) -> None:
        properties = [(SUBSCRIPTION, self._subscription), (PARTITION, str(partition)), (OUTCOME, outcome)]
        if reason is not None:
            properties.append((REASON, reason))
        self.upstream.send(encode(Frame(MessageType.ACK, offset, 0, tuple(properties))))

    def pause(self) -> None:
        self.upstream.pause()

    def resume(self) -> None:
        self.upstream.resume()

    def abandon(self) -> None:
        """Nothing to do: the connection to the broker ends with the client's."""

    def release(self) -> None:
        """The same."""


class ClientRelays:
    """The relays of one client. Closed with its connection."""

    def __init__(
        self,
        peers: PeerVerbs,
        connection: Connection,
        membership: Membership,
        forget: Callable[[ClientRelays], None],
    ) -> None:
        self._peers = peers
        self._connection = connection
        self._membership = membership
        self._forget = forget
        self._upstreams: dict[int, Upstream] = {}
        self._seats: dict[str, RelayedSeat] = {}
        self._release_hold: Callable[[], None] | None = None
        self._is_closed = False
        connection.on_close(self._client_lost)
        connection.on_drained(self._client_drained)

    async def open(self, broker_id: int) -> Upstream:
        """The connection to a broker. Raises BrokerError; nothing was sent then."""
        upstream = self._upstreams.get(broker_id)
        if upstream is not None:
            return upstream
        session = self._connection.session
        upstream = await open_upstream(self._peers.door(session, broker_id, DOOR), session, self)
        if self._is_closed:
            upstream.finish()
            raise NotCoordinator("the client has disconnected")
        known = self._upstreams.setdefault(broker_id, upstream)
        if known is not upstream:  # opened by a concurrent call
            upstream.finish()
        return known

    # -- memberships

    def seat(self, upstream: Upstream, subscription: str) -> None:
        """The broker has accepted the client as a member."""
        seat = self._seats[subscription] = RelayedSeat(upstream, subscription)
        self._membership.sit(subscription, seat)

    def upstream_of(self, subscription: str) -> Upstream | None:
        """The broker at which the client is a member; None if it is none elsewhere."""
        seat = self._seats.get(subscription)
        return None if seat is None else seat.upstream

    def unseat(self, subscription: str) -> None:
        if self._seats.pop(subscription, None) is not None:
            self._membership.rise(subscription)

    @property
    def seats(self) -> dict[str, int]:
        """The broker of each membership."""
        return {name: seat.upstream.broker_id for name, seat in self._seats.items()}

    # -- called by connections to brokers

    def pass_on(self, upstream: Upstream, frames: list[bytes]) -> None:
        """See UpstreamOwner."""
        self._connection.push([b"".join(frames) if len(frames) > 1 else frames[0]])
        self._membership.check_slow()

    def pass_end(self, upstream: Upstream, subscription: str, frame: bytes) -> None:
        """See UpstreamOwner."""
        if self.upstream_of(subscription) is upstream:
            self.unseat(subscription)
            self._connection.push([frame])

    def lose(self, upstream: Upstream, why: str) -> None:
        """See UpstreamOwner. The client gets the error of a restarted broker, and joins again."""
        if self._upstreams.get(upstream.broker_id) is upstream:
            del self._upstreams[upstream.broker_id]
        self.drain()
        lost = [name for name, seat in self._seats.items() if seat.upstream is upstream]
        for name in lost:
            del self._seats[name]
            text = f"broker {upstream.broker_id}, which coordinates subscription {name!r}, is not connected: {why}"
            self._membership.end(name, NotCoordinator(text))
        if lost and not self._is_closed:
            logger.warning(
                "lost the relay to broker %d; the client joins %d subscriptions again: %s",
                upstream.broker_id,
                len(lost),
                why,
                extra=self._connection.context,
            )

    def drain(self) -> None:
        """See UpstreamOwner."""
        if self._release_hold is not None:
            release, self._release_hold = self._release_hold, None
            release()

    def hold_if_full(self) -> None:
        """Hold the client's next requests while a broker does not read them."""
        if self._release_hold is None and any(
            one.waiting_bytes > WAITING_BYTES_MAX for one in self._upstreams.values()
        ):
            self._release_hold = self._connection.hold()

    # -- liveness

    def sweep(self, now_s: float) -> None:
        """Send heartbeats, and give up brokers that are fenced, have moved, or are silent."""
        session = self._connection.session
        for upstream in list(self._upstreams.values()):
            if self._peers.address(session, upstream.broker_id, DOOR) != upstream.address:
                upstream.close("it is fenced, gone, or at another address")
            elif not upstream.is_paused and now_s - upstream.heard_s > SILENT_S_MAX:
                upstream.close(f"it sent nothing for {now_s - upstream.heard_s:.1f} s")
            elif now_s - upstream.beaten_s >= self.beat_s:
                upstream.shrink()
                upstream.beat()

    beat_s = BEAT_S_MAX

    def keep_alive_every(self, heartbeat_ms: int) -> None:
        """A broker wants to hear from its members this often."""
        self.beat_s = min(self.beat_s, heartbeat_ms / 2000)

    # -- close

    def _client_drained(self) -> None:
        for upstream in self._upstreams.values():
            upstream.resume()

    def _client_lost(self) -> None:
        """The client has disconnected: the messages that it held may be the cause."""
        self._close(encode(Frame(MessageType.LOST)))

    def release(self, error: BrokerError) -> None:
        """This broker is stopping: the client's messages go to other members and do not count as delivered."""
        for name in list(self._seats):
            del self._seats[name]
            self._membership.end(name, error)
        self._close(b"")

    def _close(self, last: bytes) -> None:
        self._is_closed = True
        self._seats.clear()
        self._forget(self)
        self._connection.not_on_close(self._client_lost)
        self._connection.not_on_drained(self._client_drained)
        for upstream in list(self._upstreams.values()):
            upstream.finish(last)
