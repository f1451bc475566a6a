"""Links to all other brokers, for calls between brokers. Decides neither whom to call nor whether to call again.

One authenticated Kafka connection per broker, opened with the first call and closed when idle. Calls of one link start
in the order in which they were sent; their responses come in any order. A caller that needs one call to take effect
before another waits for its response, except that Produce requests of one link are appended in order. Runs on the
loop; the buffers in a request must not change before it is settled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from penstock.core.errors import BrokerError, PeerUnavailable
from penstock.node.peers.link import BrokerLink
from penstock.node.peers.link_opening import LinkPeer
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.tasks import resolver
from penstock.wire.kafka import KafkaRequest, ResponseT

FindPeer = Callable[[int], LinkPeer | None]
"""Where a broker can be reached; None if it is unknown or fenced."""

IDLE_S_MAX = 60.0
"""Links that carry no call for longer are closed: most brokers of a large cluster have nothing to say to each other."""
SWEEP_S = 5.0
"""How often idle links are looked for; peers too, in case nobody said that they changed."""


class PeerLinks:
    """The links of one broker. Needs a running loop."""

    def __init__(self, runtime: Runtime, broker_id: int, find_peer: FindPeer) -> None:
        self._runtime = runtime
        self._broker_id = broker_id
        self._find_peer = find_peer
        self._links: dict[int, BrokerLink] = {}
        self._loop = asyncio.get_running_loop()
        self._sweep: asyncio.TimerHandle | None = None
        self.on_trouble: Callable[[int], None] = lambda broker_id: None
        """Called when the connection to a broker is lost or cannot be opened."""
        self.is_closed = False
        """Whether this broker is stopping: no call will be sent any more."""

    async def call(self, broker_id: int, request: KafkaRequest[ResponseT], *, timeout_ms: int) -> ResponseT:
        """Call a broker and return its response, error codes included.

        Raises PeerUnavailable, Throttled or UnsupportedVersion if nothing was sent, TimedOut if the outcome is unknown.
        """
        reply: asyncio.Future[Any] = self._loop.create_future()
        self.send(broker_id, request, resolver(reply), timeout_ms=timeout_ms)
        outcome = await reply
        if isinstance(outcome, BrokerError):
            raise outcome
        return cast(ResponseT, outcome)

    def send(
        self,
        broker_id: int,
        request: KafkaRequest[ResponseT],
        answered: Callable[[ResponseT | BrokerError], None],
        *,
        timeout_ms: int,
    ) -> None:
        """The same with a callback, which is called once, maybe before this returns."""
        link = self._links.get(broker_id)
        if link is None:
            try:
                link = self._make(broker_id)
            except BrokerError as error:
                answered(error)
                return
        link.send(request, answered, timeout_ms)

    def _make(self, broker_id: int) -> BrokerLink:
        assert broker_id != self._broker_id, "a broker does not call itself"
        if self.is_closed:
            raise PeerUnavailable("this broker is stopping, nothing was sent")
        peer = self._find_peer(broker_id)
        if peer is None:
            raise PeerUnavailable(f"broker {broker_id} is unknown or fenced, nothing was sent")
        link = self._links[broker_id] = BrokerLink(
            self._runtime, self._broker_id, broker_id, peer, lambda: self.on_trouble(broker_id)
        )
        if self._sweep is None:
            self._sweep = self._loop.call_later(SWEEP_S, self._tidy)
        return link

    def refresh(self) -> None:
        """Brokers have changed: close the links to those that are fenced, gone, or have moved."""
        for broker_id, link in list(self._links.items()):
            peer = self._find_peer(broker_id)
            if peer == link.peer:
                continue
            del self._links[broker_id]
            why = "it is fenced or gone" if peer is None else f"it is at {peer.address} now"
            link.abandon(why)

    def _tidy(self) -> None:
        self.refresh()
        for link in self._links.values():
            link.rest(IDLE_S_MAX)
        self._sweep = self._loop.call_later(SWEEP_S, self._tidy) if self._links else None

    async def close(self) -> None:
        """Close all links: calls that were sent fail with TimedOut, others with PeerUnavailable."""
        self.is_closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        links, self._links = self._links, {}
        for link in links.values():
            await link.close("this broker is stopping")
