"""What a door has to be: a dialect that opens one conversation per connection. Only shapes; never any work.

docs/adr/0007 says how a door is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from penstock.core.errors import BrokerError
from penstock.node.connections.framing import Framing
from penstock.node.connections.outbox import Piece

C = TypeVar("C", contravariant=True)


class Conversation(Protocol):
    """One client's side of a protocol: what it does with a frame, and how it says that it cannot go on."""

    @property
    def framing(self) -> Framing: ...

    @property
    def answers_after_end(self) -> bool:
        """Whether a client that has sent its last byte still gets the answers to what it asked."""

    def handle(self, frame: memoryview) -> None:
        """Start one request; the frame is valid until this returns. BrokerError: the connection cannot go on."""

    def closing_reply(self, error: BrokerError) -> Sequence[Piece]:
        """The error in the protocol's own language, sent before the connection ends; empty: it just ends."""


class Dialect(Protocol[C]):
    """One protocol on one door. `C` is the connection."""

    @property
    def name(self) -> str:
        """What the door is called in logs and settings."""

    def open(self, connection: C) -> Conversation:
        """A client has come."""

    def release_waiting(self) -> None:
        """The doors are closing: answer every call that waits, with what there is."""
