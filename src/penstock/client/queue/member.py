"""State shared by the blocking and the asyncio queue client: broker address and subscriptions. No I/O."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar, Unpack

from penstock.client.errors import BadArgument, ClientError, IllegalState
from penstock.client.options import TlsOptions, check_options, layered_options
from penstock.client.queue.rejoins import Rejoins
from penstock.client.queue.requests import MemberTerms, queue_address
from penstock.client.queue.session import QueueResponse
from penstock.client.security import read_encryption

logger = logging.getLogger("penstock.client")

H = TypeVar("H", bound=Callable[..., object])


class Subscribed(NamedTuple, Generic[H]):
    """Handler of a subscription and how many messages may be in flight to it."""

    handler: H
    window: int | None


class QueueMember(Generic[H]):
    """Connects to `host`:`port`, else to `PENSTOCK_QUEUE` (HOST:PORT), else to localhost:9999.

    A call is retried across reconnects for at most `request_timeout_s`, then raises. `on_end` is called when the
    broker ends a subscription for good; one that another broker takes over is joined again. TLS is set with the `tls`
    options of the other clients, by keyword or with a `profile`.
    """

    def __init__(
        self,
        host: str | None = None,
        port: int | None = None,
        client_id: str = "penstock-client",
        *,
        request_timeout_s: float = 30.0,
        on_end: Callable[[str, ClientError], None] | None = None,
        profile: str | None = None,
        **tls: Unpack[TlsOptions],
    ) -> None:
        if request_timeout_s <= 0:
            raise BadArgument(f"invalid request_timeout_s {request_timeout_s}: must be greater than 0")
        check_options(TlsOptions, tls, "BrokerClient")
        layered = layered_options({**tls, "profile": profile}, os.environ)
        self.host, self.port = queue_address(host, port, layered.get("queue"))
        self._encryption = read_encryption(layered)
        self.client_id = client_id
        self._request_timeout_s = request_timeout_s
        self._on_end = on_end
        self._is_open = False
        self._subscribed: dict[str, Subscribed[H]] = {}
        self._terms = MemberTerms()
        self._rejoins = Rejoins()
        self._prepare()

    def _prepare(self) -> None:
        """Create the state of the concrete client."""

    def is_subscribed(self, name: str) -> bool:
        """Whether this client receives the subscription's messages, now or after the next reconnect."""
        return name in self._subscribed

    def _register(self, name: str, handler: H, window: int | None) -> None:
        if not callable(handler):
            raise BadArgument(f"handler must be callable, not {handler!r}")
        if name in self._subscribed:
            raise IllegalState(f"this client is already subscribed to {name!r}")
        self._subscribed[name] = Subscribed(handler, window)

    def _unregister(self, name: str) -> None:
        if self._subscribed.pop(name, None) is None:
            raise IllegalState(f"this client is not subscribed to {name!r}")

    def _now_s(self) -> float:
        """The clock by which subscriptions are joined again."""
        return time.monotonic()

    def _ended(self, name: str, error: ClientError) -> None:
        """The broker ended a membership, or rejected an attempt to join: join again after a retriable error."""
        if name not in self._subscribed:
            return
        if error.retriable:
            logger.info("subscription %r has to be joined again: %s", name, error)
            self._rejoins.add(name, self._now_s())
            return
        del self._subscribed[name]
        self._rejoins.forget(name)
        logger.error("subscription %r ended by the broker: %s", name, error)
        if self._on_end is not None:
            self._on_end(name, error)

    def _joined(self, name: str, response: QueueResponse) -> None:
        self._rejoins.forget(name)
        self._terms = self._terms.joined(response)
