"""The JSON door: dispatches frames to handlers; replies are in request order.

PRODUCE requests run concurrently; every other request starts when all earlier ones are answered, and later ones wait
for its reply, so that pipelined requests see the effects of earlier ones. HEARTBEAT may overtake reads: a member that
waits for messages must not lose its session.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import CoroutineType, GeneratorType
from typing import Any

from penstock.core.errors import BrokerError, Malformed, TooLarge
from penstock.core.limits import JSON_BYTES_MAX
from penstock.doors.json.call import Handler, JsonCall
from penstock.doors.json.errors import DOOR, error_fields
from penstock.doors.json.groups import JsonGroupHandlers
from penstock.doors.json.records import RecordHandlers
from penstock.doors.json.topics import JsonTopicHandlers
from penstock.node.connections.connection import Connection
from penstock.node.connections.framing import LengthPrefixed
from penstock.node.connections.outbox import Piece
from penstock.node.connections.reply_slot import ReplySlot
from penstock.node.runtime.slices import Sliced
from penstock.node.runtime.tasks import Tasks
from penstock.node.waist.waist import Waist
from penstock.wire.json.fields import Fields, shown
from penstock.wire.json.frames import decode_object, encode_object

FRAMING = LengthPrefixed(JSON_BYTES_MAX)
PRODUCE, HEARTBEAT = "PRODUCE", "HEARTBEAT"
READS = frozenset({"CONSUME", "OFFSETS", "LIST_TOPICS", "METADATA"})


class JsonDoor:
    """The JSON dialect."""

    name = DOOR

    def __init__(self, waist: Waist) -> None:
        self._tasks = Tasks()
        self._slices = waist.slices
        self._records = RecordHandlers(waist)
        topics, groups = JsonTopicHandlers(waist), JsonGroupHandlers(waist)
        self.handlers: dict[str, Handler] = {
            PRODUCE: self._records.produce,
            "CONSUME": self._records.consume,
            "COMMIT": groups.commit,
            "OFFSETS": groups.offsets,
            "CREATE_TOPIC": topics.create_topic,
            "LIST_TOPICS": topics.list_topics,
            "METADATA": topics.metadata,
            "JOIN": groups.join,
            HEARTBEAT: groups.heartbeat,
            "LEAVE": groups.leave,
        }
        meter = waist.meter(DOOR)
        self.timings = {command: meter.call(command) for command in self.handlers}

    def open(self, connection: Connection) -> JsonConversation:
        return JsonConversation(self, connection)

    def release_waiting(self) -> None:
        self._records.release_waiting()

    def start(self, call: JsonCall, handler: Handler) -> None:
        """Start a request; its errors are sent as the answer."""
        try:
            work = handler(call)
        except BrokerError as error:
            call.refuse(error)
            return
        if type(work) is CoroutineType:
            self._tasks.spawn(_finish(call, work), lambda error: call.connection.close(f"defect: {error!r}"))
        elif type(work) is GeneratorType:
            self._slice(call, work)

    def _slice(self, call: JsonCall, steps: Sliced[None]) -> None:
        """Run a handler that works in slices; later requests wait until it has ended."""
        if self._slices.start(steps, call.check):
            return
        release_hold = call.connection.hold()

        def ended_later(outcome: Exception | None) -> None:
            call.check(outcome)
            release_hold()

        self._slices.queue(steps, ended_later)


async def _finish(call: JsonCall, work: CoroutineType[Any, Any, None]) -> None:
    try:
        await work
    except BrokerError as error:
        call.refuse(error)


class JsonConversation:
    """The conversation of one JSON connection."""

    __slots__ = ("_changes", "_connection", "_door")

    framing = FRAMING
    answers_after_end = True

    def __init__(self, door: JsonDoor, connection: Connection) -> None:
        self._door = door
        self._connection = connection
        self._changes = 0
        """Unanswered requests that a HEARTBEAT must not overtake: all but reads."""

    def handle(self, frame: memoryview) -> None:
        own_id: dict[str, Any] = {}
        self._connection.timing = None
        try:
            fields = Fields(decode_object(bytes(frame)), "a request")
            if "id" in fields:
                own_id["id"] = _checked_id(fields.take("id"))
            command = fields.text("command").upper()
            handler = self._door.handlers.get(command)
            if handler is None:
                known = ", ".join(self._door.handlers)
                raise Malformed(f"unknown command {shown(command)}; supported: {known}")
        except (Malformed, TooLarge) as error:
            self._connection.answer((encode_object({"ok": False, **own_id, **error_fields(error)}),))
            return
        self._connection.timing = self._door.timings[command]
        is_change = command not in READS
        self._changes += is_change
        on_answered = self._answered if is_change else None

        def begin(slot: ReplySlot) -> None:
            self._door.start(JsonCall(self._connection, slot, fields, own_id, on_answered), handler)

        if command == HEARTBEAT and self._changes == 1:
            begin(self._connection.reserve())
        elif command in (PRODUCE, HEARTBEAT):
            self._connection.turns.beside(begin)
        else:
            self._connection.turns.in_turn(begin)

    def _answered(self) -> None:
        self._changes -= 1

    def closing_reply(self, error: BrokerError) -> Sequence[Piece]:
        return (encode_object({"ok": False, **error_fields(error)}),)


def _checked_id(found: object) -> object:
    if found is not None and not isinstance(found, str | int | float):
        raise Malformed(f"'id' must be a string or a number, not {shown(found)}")
    return found
