"""What the blocking and the asyncio queue client have in common: where they go, what they are subscribed to. No I/O."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from penstock.client.errors import BadArgument, ClientError, IllegalState
from penstock.client.queue_requests import MemberTerms, queue_address

logger = logging.getLogger("penstock.client")

H = TypeVar("H", bound=Callable[..., object])


class Subscribed(NamedTuple, Generic[H]):
    """Who handles the messages of a subscription, and how many may wait for it."""

    handler: H
    window: int | None


class QueueMember(Generic[H]):
    """Without `host` and `port` it goes to `PENSTOCK_QUEUE` (HOST:PORT), else to localhost:9999.

    A call is answered within `request_timeout_s`, over as many connections as it takes, or raises. `on_end` is told of
    subscriptions that the broker has ended.
    """

    def __init__(
        self,
        host: str | None = None,
        port: int | None = None,
        client_id: str = "penstock-client",
        *,
        request_timeout_s: float = 30.0,
        on_end: Callable[[str, ClientError], None] | None = None,
    ) -> None:
        if request_timeout_s <= 0:
            raise BadArgument(f"request_timeout_s is more than 0, not {request_timeout_s}")
        self.host, self.port = queue_address(host, port)
        self.client_id = client_id
        self._request_timeout_s = request_timeout_s
        self._on_end = on_end
        self._is_open = False
        self._subscribed: dict[str, Subscribed[H]] = {}
        self._terms = MemberTerms()
        self._prepare()

    def _prepare(self) -> None:
        """Make what this kind of client needs beside."""

    def is_subscribed(self, name: str) -> bool:
        """Whether messages of this subscription come to this client, now or once it is connected again."""
        return name in self._subscribed

    def _enter(self, name: str, handler: H, window: int | None) -> None:
        if not callable(handler):
            raise BadArgument(f"a handler is something to call, not {handler!r}")
        if name in self._subscribed:
            raise IllegalState(f"this client is subscribed to {name!r} already")
        self._subscribed[name] = Subscribed(handler, window)

    def _strike(self, name: str) -> None:
        if self._subscribed.pop(name, None) is None:
            raise IllegalState(f"this client is not subscribed to {name!r}")

    def _ended(self, name: str, error: ClientError) -> None:
        """The broker has ended a subscription. One that it only cannot serve now comes back with the connection."""
        if not error.retriable and self._subscribed.pop(name, None) is not None:
            logger.error("the subscription %r has ended: %s", name, error)
            if self._on_end is not None:
                self._on_end(name, error)
