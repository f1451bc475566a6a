"""PRODUCE and CONSUME: publish and read messages."""

from __future__ import annotations

from typing import Any

from penstock.core.errors import BrokerError, Malformed
from penstock.core.model import Isolation, NewRecord, Record
from penstock.doors.json.call import JsonCall
from penstock.doors.json.errors import error_fields
from penstock.node.runtime.slices import Sliced, chunks
from penstock.node.waist.pages import Page, Pages
from penstock.node.waist.positions import Edge
from penstock.node.waist.publisher import Published
from penstock.node.waist.reader import Wanted
from penstock.node.waist.waist import Waist
from penstock.wire.json.fields import INT32_MAX, Fields
from penstock.wire.json.frames import encode_json
from penstock.wire.json.messages import decode_message, encode_message

MESSAGES_MAX = 10_000
"""Maximum messages per request."""

ANSWER_BYTES_MAX = 8 << 20
"""Maximum message bytes per CONSUME response, beyond the first message."""

CONSUMED = 100
_EARLIEST = "earliest"
_EDGES = {_EARLIEST: Edge.EARLIEST, "latest": Edge.LATEST}


class RecordHandlers:
    """Handlers of PRODUCE and CONSUME."""

    def __init__(self, waist: Waist) -> None:
        self._publisher = waist.publisher()
        self._reader = waist.reader()
        self._pages = Pages(self._reader)

    def release_waiting(self) -> None:
        self._reader.release_waiting()

    # -- PRODUCE

    def produce(self, call: JsonCall) -> Sliced[None] | None:
        """Publish one message, or a list in `messages`; answered when they are durable."""
        fields = call.fields
        topic = fields.text("topic")
        partition = fields.number("partition", high=INT32_MAX) if "partition" in fields else None
        if "messages" not in fields:
            record = decode_message(fields)
            fields.check_empty()
            self._publisher.publish(
                call.session,
                topic,
                record,
                lambda outcome: _answer_one(call, outcome),
                partition,
                call.connection.hold,
            )
            return None
        messages = fields.listed("messages")
        fields.check_empty()
        return self._produce_all(call, topic, messages, partition)

    def _produce_all(
        self, call: JsonCall, topic: str, messages: list[Any], partition: int | None
    ) -> Sliced[None]:
        records = yield from _decode_all(messages)
        self._publisher.publish_all(
            call.session,
            topic,
            records,
            lambda outcomes: _answer_all(call, outcomes),
            partition,
            call.connection.hold,
        )

    # -- CONSUME

    def consume(self, call: JsonCall) -> None:
        """Read messages from an offset on; optionally waits for the first."""
        fields = call.fields
        level = fields.choice("isolation", "read_committed", "read_uncommitted")
        isolation = Isolation.READ_COMMITTED if level == "read_committed" else Isolation.READ_UNCOMMITTED
        topic, index = fields.text("topic"), fields.number("partition", 0, high=INT32_MAX)
        place = fields.take("offset", _EARLIEST)
        wanted = Wanted(
            topic,
            index,
            offset=0,
            records_max=fields.number("max", CONSUMED, low=1, high=MESSAGES_MAX),
            bytes_max=ANSWER_BYTES_MAX,
            wait_ms=fields.number("wait", 0, high=INT32_MAX),
            isolation=isolation,
        )
        fields.check_empty()
        self._locate(call, wanted, place)

    def _locate(self, call: JsonCall, wanted: Wanted, place: object) -> None:
        """Resolve a number, `earliest`, `latest`, or `{"time": ms}` to an offset, then read from there."""

        def begin(offset: int | BrokerError) -> None:
            if isinstance(offset, BrokerError):
                call.refuse(offset)
            else:
                self._read(call, wanted._replace(offset=offset))

        when: Edge | int | None = _EDGES.get(place) if isinstance(place, str) else None
        if isinstance(place, dict):
            fields = Fields(place, "'offset'")
            when = fields.number("time")
            fields.check_empty()
        if when is None:
            begin(Fields({"offset": place}, "CONSUME").number("offset"))
        else:
            self._reader.start(call.session, wanted.topic, wanted.partition, when, wanted.isolation, begin)

    def _read(self, call: JsonCall, wanted: Wanted) -> None:
        self._pages.read(
            call.session,
            call.connection,
            wanted,
            _encode_all,
            lambda outcome: _answer_page(call, wanted, outcome),
        )


def _decode_all(messages: list[Any]) -> Sliced[list[NewRecord]]:
    if len(messages) > MESSAGES_MAX:
        raise Malformed(f"a request can produce at most {MESSAGES_MAX} messages, not {len(messages)}")
    records = []
    for some in chunks(messages):
        for one in some:
            fields = Fields(one, "a message")
            records.append(decode_message(fields))
            fields.check_empty()
        yield len(some) + sum(len(one.headers) for one in records[-len(some) :])
    return records


def _answer_one(call: JsonCall, outcome: Published | BrokerError) -> None:
    if isinstance(outcome, BrokerError):
        call.refuse(outcome)
    else:
        call.answer({"partition": outcome.partition, "offset": outcome.offset})


def _answer_all(call: JsonCall, outcomes: list[Published | BrokerError]) -> None:
    """One result per message; the response is an error if any message failed."""
    results: list[dict[str, Any]] = [
        error_fields(one)
        if isinstance(one, BrokerError)
        else {"partition": one.partition, "offset": one.offset}
        for one in outcomes
    ]
    failure = next((one for one in outcomes if isinstance(one, BrokerError)), None)
    if failure is None:
        call.answer({"results": results})
    else:
        call.refuse(failure, {"results": results})


def _encode_all(records: list[Record]) -> bytes:
    return encode_json([encode_message(record) for record in records])[1:-1]


def _answer_page(call: JsonCall, wanted: Wanted, outcome: Page | BrokerError) -> None:
    if isinstance(outcome, BrokerError):
        call.refuse(outcome)
        return
    call.answer_list(
        {"topic": wanted.topic, "partition": wanted.partition},
        "messages",
        outcome.pieces,
        {
            "next_offset": outcome.next_offset,
            "start_offset": outcome.start_offset,
            "end_offset": outcome.end_offset,
        },
    )
