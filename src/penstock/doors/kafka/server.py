"""The Kafka door: its dialect, one conversation per connection. Never listens, never does a handler's work."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from penstock.core.errors import BrokerError
from penstock.doors.kafka.dispatch import Dispatch
from penstock.doors.kafka.errors import DOOR
from penstock.node.connections.addresses import Address
from penstock.node.connections.connection import Connection
from penstock.node.connections.framing import LengthPrefixed
from penstock.node.connections.outbox import Piece
from penstock.node.waist.waist import Waist

FRAMING = LengthPrefixed()


class KafkaConversation:
    """One client that speaks Kafka's protocol. It has no words for an error outside of an answer."""

    __slots__ = ("handle",)

    framing = FRAMING
    answers_after_end = False

    def __init__(self, dispatch: Dispatch, connection: Connection) -> None:
        self.handle = partial(dispatch.handle, connection)

    def closing_reply(self, error: BrokerError) -> Sequence[Piece]:
        return ()


class KafkaDoor:
    """The dialect of one broker."""

    name = DOOR

    def __init__(self, waist: Waist) -> None:
        self._waist = waist
        self._dispatch = Dispatch(waist)

    def advertise(self, address: Address) -> None:
        """Clients are told to come to `address`."""
        self._waist.cluster.advertised = address

    def open(self, connection: Connection) -> KafkaConversation:
        return KafkaConversation(self._dispatch, connection)

    def release_waiting(self) -> None:
        self._dispatch.release_waiting()
