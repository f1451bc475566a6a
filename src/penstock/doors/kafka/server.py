"""The Kafka door: its dialect and conversations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from penstock.core.errors import BrokerError
from penstock.doors.kafka.dispatch import Dispatch
from penstock.doors.kafka.errors import DOOR
from penstock.node.connections.addresses import Address
from penstock.node.connections.connection import Connection
from penstock.node.connections.conversation import Conversation
from penstock.node.connections.framing import LengthPrefixed
from penstock.node.connections.outbox import Piece
from penstock.node.waist.waist import Waist

FRAMING = LengthPrefixed()


class KafkaConversation:
    """The conversation of one Kafka connection. The protocol has no error outside of a response."""

    __slots__ = ("handle",)

    framing = FRAMING
    answers_after_end = False

    def __init__(self, dispatch: Dispatch, connection: Connection) -> None:
        self.handle = partial(dispatch.handle, connection)

    def closing_reply(self, error: BrokerError) -> Sequence[Piece]:
        return ()


class KafkaDoor:
    """The Kafka dialect."""

    name = DOOR

    def __init__(self, waist: Waist) -> None:
        self._waist = waist
        self._dispatch = Dispatch(waist)

    def advertise(self, address: Address) -> None:
        """Set the address that clients are told to connect to."""
        self._waist.cluster.advertised = address

    def open(self, connection: Connection) -> Conversation:
        return KafkaConversation(self._dispatch, connection)

    def release_waiting(self) -> None:
        self._dispatch.release_waiting()
