"""The text door: PUB, FETCH, TOPICS, HELP and QUIT. wire/text decodes the lines.

Publishes run concurrently and share batches; every other command starts when all earlier ones are answered, and later
ones wait for its reply, so that a pipelined FETCH reads what the PUB before it wrote, and nothing later.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.core.errors import BrokerError, Malformed
from penstock.core.model import check_topic_name
from penstock.doors.text.errors import DOOR, NO_MESSAGE, error_line
from penstock.node.connections.connection import Connection
from penstock.node.connections.outbox import Piece
from penstock.node.connections.reply_slot import ReplySlot
from penstock.node.runtime.slices import Sliced, chunks
from penstock.node.waist.positions import Edge
from penstock.node.waist.publisher import Published
from penstock.node.waist.reader import Run, Wanted
from penstock.node.waist.topics import Topic
from penstock.node.waist.waist import Waist
from penstock.wire.text.commands import (
    FIRST,
    NAMES,
    NEXT,
    BareCommand,
    Fetch,
    Pub,
    TextFraming,
    Unknown,
    command_name,
    decode_command,
)
from penstock.wire.text.responses import BYE, HELP, encode_error, encode_lines, encode_ok, encode_text_message

FRAMING = TextFraming()
_EDGES = {FIRST: Edge.EARLIEST, NEXT: Edge.LATEST}


class TextDoor:
    """The text dialect."""

    name = DOOR

    def __init__(self, waist: Waist) -> None:
        meter = waist.meter(DOOR)
        self.timings = {name: meter.call(name) for name in NAMES}
        self.slices = waist.slices
        self.topics = waist.topics
        self.publisher = waist.publisher()
        self.reader = waist.reader()

    def open(self, connection: Connection) -> TextConversation:
        return TextConversation(self, connection)

    def release_waiting(self) -> None:
        self.reader.release_waiting()


class TextConversation:
    """The conversation of one text connection."""

    __slots__ = ("_connection", "_door")

    framing = FRAMING
    answers_after_end = True

    def __init__(self, door: TextDoor, connection: Connection) -> None:
        self._door = door
        self._connection = connection

    def handle(self, frame: memoryview) -> None:
        self._connection.timing = None
        try:
            command = decode_command(bytes(frame))
        except Malformed as error:
            self._connection.answer((error_line(error),))
            return
        if command is None:
            return
        if isinstance(command, Unknown):
            raise Malformed(
                f"unknown command {command.shown}; HELP lists the commands; closing the connection"
            )
        self._connection.timing = self._door.timings[command_name(command)]
        match command:
            case Pub():
                self._connection.turns.beside(lambda slot: self._publish(slot, command))
            case Fetch():
                self._connection.turns.in_turn(lambda slot: self._fetch(slot, command))
            case BareCommand("QUIT"):
                self._connection.answer((BYE,))
                self._connection.finish()
            case BareCommand("HELP"):
                self._connection.answer((encode_lines("HELP", HELP),))
            case BareCommand():
                self._connection.turns.in_turn(self._list_topics)

    def closing_reply(self, error: BrokerError) -> Sequence[Piece]:
        return (error_line(error),)

    def _publish(self, slot: ReplySlot, command: Pub) -> None:
        names_partition = command.partition is None

        def settled(outcome: Published | BrokerError) -> None:
            if isinstance(outcome, BrokerError):
                slot.answer((error_line(outcome),))
            else:
                slot.answer((encode_ok(outcome.offset, outcome.partition if names_partition else None),))

        connection = self._connection
        self._door.publisher.publish(
            connection.session,
            command.topic,
            command.record,
            settled,
            command.partition,
            connection.hold,
        )

    def _fetch(self, slot: ReplySlot, command: Fetch) -> None:
        topic, index, isolation = command.topic, command.partition, command.isolation
        session, reader = self._connection.session, self._door.reader

        def begin(offset: int | BrokerError) -> None:
            if isinstance(offset, BrokerError):
                slot.answer((error_line(offset),))
                return
            wanted = Wanted(topic, index, offset, wait_ms=command.wait_ms, isolation=isolation)
            reader.read(
                session,
                self._connection,
                wanted,
                lambda outcome: slot.answer((_answer(command, offset, outcome),)),
            )

        try:
            check_topic_name(topic)
        except BrokerError as error:
            slot.answer((error_line(error),))
            return
        if command.place in _EDGES:
            reader.start(session, topic, index, _EDGES[command.place], isolation, begin)
        else:
            begin(command.offset)

    def _list_topics(self, slot: ReplySlot) -> None:
        found = self._door.topics.all(self._connection.session)
        topics = [topic for topic in found if not topic.internal]

        def ended(answer: bytes | Exception) -> None:
            if isinstance(answer, Exception):
                self._connection.close(f"defect: {answer!r}")
            else:
                slot.answer((answer,))

        self._door.slices.go(_topic_lines(topics), ended)


def _topic_lines(topics: list[Topic]) -> Sliced[bytes]:
    lines: list[str] = []
    for some in chunks(topics):
        lines += [f"{topic.name} {topic.partition_count}" for topic in some]
        yield len(some) // 8
    return encode_lines("TOPICS", lines)


def _answer(command: Fetch, offset: int, outcome: Run | BrokerError) -> bytes:
    if isinstance(outcome, BrokerError):
        return error_line(outcome)
    if not outcome.records:
        return encode_error(NO_MESSAGE, f"offset {offset} is not written yet; wait=<ms> waits for it")
    return encode_text_message(outcome.records[0], command.partition if command.is_full else None)
