"""The interface of a door: a dialect that opens one conversation per connection. Protocols only.

docs/adr/0007 describes how to write a door.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from penstock.core.errors import BrokerError
from penstock.node.connections.framing import Framing
from penstock.node.connections.outbox import Piece

C = TypeVar("C", contravariant=True)


class Conversation(Protocol):
    """The protocol state of one connection: handles frames and encodes the closing reply."""

    @property
    def framing(self) -> Framing: ...

    @property
    def answers_after_end(self) -> bool:
        """Whether a client that has sent EOF still gets its outstanding replies."""

    def handle(self, frame: memoryview) -> None:
        """Start one request; the frame is valid until this returns. A BrokerError closes the connection."""

    def closing_reply(self, error: BrokerError) -> Sequence[Piece]:
        """The error encoded for the client, sent before the connection closes; empty if the protocol has none."""


class Dialect(Protocol[C]):
    """The protocol of one door. `C` is the connection type."""

    @property
    def name(self) -> str:
        """Name of the door in logs and settings."""

    def open(self, connection: C) -> Conversation:
        """Start a conversation on a new connection."""

    def release_waiting(self) -> None:
        """The doors are closing: answer every waiting call with what is available."""
