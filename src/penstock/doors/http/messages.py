"""Publish and read messages over HTTP."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from penstock.core.errors import BrokerError, InvalidRequest, UnknownTopic
from penstock.core.limits import PARTITIONS_PER_TOPIC_MAX
from penstock.core.model import Isolation, Record
from penstock.doors.http.errors import problem_of, refusal_fields
from penstock.doors.http.exchange import Exchange
from penstock.doors.http.query import EARLIEST, LATEST, OFFSET_MAX, Choice, Field, Number, Offset
from penstock.node.runtime.slices import Sliced
from penstock.node.waist.pages import Page, Pages
from penstock.node.waist.positions import Edge
from penstock.node.waist.publisher import Published, Publisher
from penstock.node.waist.reader import Reader, Wanted
from penstock.wire.http.messages import (
    MESSAGE_FIELDS,
    Show,
    check_object,
    read_message,
    read_number,
    read_object,
    read_text,
    show_message,
)
from penstock.wire.http.response import Response, json_bytes, json_response
from penstock.wire.pieces import list_between

BATCH_MESSAGES_MAX = 10_000
"""Maximum messages per request."""

UNITS_PER_YIELD = 64
BYTES_PER_UNIT = 512
"""Decoding a message costs one unit, one per this many bytes of its value, and one per header."""

READ_MESSAGES_MAX = 10_000
READ_BYTES_MAX = 16 << 20
WAIT_MS_MAX = 60_000

_ONE_FIELDS = ("topic", "partition", *MESSAGE_FIELDS)
_BATCH_FIELDS = ("topic", "partition", "messages")
_PARTITION_MAX = PARTITIONS_PER_TOPIC_MAX - 1

EDGES = {EARLIEST: Edge.EARLIEST, LATEST: Edge.LATEST}
ISOLATIONS = {"read_committed": Isolation.READ_COMMITTED, "read_uncommitted": Isolation.READ_UNCOMMITTED}

SHOW_FIELD = Field(
    "values",
    Choice(tuple(Show)),
    Show.JSON.value,
    "Format of values: JSON objects and arrays as such and the rest as text; all as text; or all as base64. Values"
    " that are not text are always base64.",
)
ISOLATION_FIELD = Field(
    "isolation",
    Choice(tuple(ISOLATIONS)),
    "read_committed",
    "Whether records of open transactions are returned.",
)
READ_FIELDS = (
    Field("offset", Offset(), EARLIEST, "Start position: an offset, `earliest` or `latest`."),
    Field("max", Number(1, READ_MESSAGES_MAX), 100, "Maximum number of messages."),
    Field(
        "max_bytes", Number(1, READ_BYTES_MAX), 1 << 20, "Maximum bytes of messages; one message always fits."
    ),
    Field("wait_ms", Number(0, WAIT_MS_MAX), 0, "How long to wait for the first message."),
    ISOLATION_FIELD,
    SHOW_FIELD,
)


def read_partition(text: str) -> int:
    """Parse a partition number from a path."""
    try:
        return Number(0, OFFSET_MAX).read("a partition", text)
    except InvalidRequest:
        raise UnknownTopic(f"{text[:100]!r} is not the number of a partition") from None


class MessageHandlers:
    """Handlers of publish and read requests."""

    def __init__(self, publisher: Publisher, reader: Reader) -> None:
        self._publisher = publisher
        self._reader = reader
        self._pages = Pages(reader)

    # -- publish

    def publish(self, exchange: Exchange) -> None:
        """POST /api/v1/messages"""
        found = read_object(exchange.request.body, _ONE_FIELDS)
        topic = read_text(found, "topic", "the message")
        record = read_message(found, "the message")
        partition = read_number(found, "partition", 0, _PARTITION_MAX, "the message")

        def settled(outcome: Published | BrokerError) -> None:
            if isinstance(outcome, BrokerError):
                exchange.refuse(outcome)
            else:
                exchange.reply(
                    json_response({"topic": topic, "partition": outcome.partition, "offset": outcome.offset})
                )

        self._publisher.publish(exchange.session, topic, record, settled, partition, exchange.connection.hold)

    def publish_batch(self, exchange: Exchange) -> Sliced[None]:
        """POST /api/v1/messages/batch"""
        found = read_object(exchange.request.body, _BATCH_FIELDS)
        topic = read_text(found, "topic", "the batch")
        partition = read_number(found, "partition", 0, _PARTITION_MAX, "the batch")
        messages = found.get("messages")
        if not isinstance(messages, list) or not 1 <= len(messages) <= BATCH_MESSAGES_MAX:
            raise InvalidRequest(f"the batch needs 'messages', a list of 1 to {BATCH_MESSAGES_MAX} messages")
        records = []
        units = 0
        for number, one in enumerate(messages):
            where = f"message {number}"
            records.append(record := read_message(check_object(one, MESSAGE_FIELDS, where), where))
            units += 1 + len(record.value or b"") // BYTES_PER_UNIT + len(record.headers)
            if units >= UNITS_PER_YIELD:
                yield units
                units = 0

        def settled(outcomes: list[Published | BrokerError]) -> None:
            exchange.reply(_batch_response(topic, outcomes))

        self._publisher.publish_all(
            exchange.session, topic, records, settled, partition, exchange.connection.hold
        )

    # -- read

    def read(self, exchange: Exchange) -> None:
        """GET /api/v1/topics/{topic}/partitions/{partition}/messages"""
        query = exchange.query
        topic, index = exchange.parts["topic"], read_partition(exchange.parts["partition"])
        isolation = ISOLATIONS[query["isolation"]]
        session, offset = exchange.session, query["offset"]

        def begin(start: int | BrokerError) -> None:
            if isinstance(start, BrokerError):
                exchange.refuse(start)
            else:
                self._read_page(exchange, Wanted(topic, index, start, isolation=isolation))

        if offset in EDGES:
            self._reader.start(session, topic, index, EDGES[offset], isolation, begin)
        else:
            begin(offset)

    def _read_page(self, exchange: Exchange, start: Wanted) -> None:
        query, topic, index = exchange.query, start.topic, start.partition
        wanted = start._replace(
            records_max=query["max"], bytes_max=query["max_bytes"], wait_ms=query["wait_ms"]
        )
        show = Show(query["values"])

        def encode(records: list[Record]) -> bytes:
            return json_bytes([show_message(record, show) for record in records])[1:-1]

        def answered(outcome: Page | BrokerError) -> None:
            if isinstance(outcome, BrokerError):
                exchange.refuse(outcome)
                return
            before = {"topic": topic, "partition": index}
            after = {
                "next_offset": outcome.next_offset,
                "start_offset": outcome.start_offset,
                "end_offset": outcome.end_offset,
            }
            pieces = list_between(json_bytes, before, "messages", outcome.pieces, after)
            exchange.reply(Response(HTTPStatus.OK, pieces=[*pieces, b"\n"]))

        self._pages.read(exchange.session, exchange.connection, wanted, encode, answered)


def _batch_response(topic: str, outcomes: list[Published | BrokerError]) -> Response:
    """One result per message; if all failed with the same error, that error is the response."""
    failures = [one for one in outcomes if isinstance(one, BrokerError)]
    if len(failures) == len(outcomes) and len({str(one) for one in failures}) == 1:
        return problem_of(failures[0])
    results = [_result(one) for one in outcomes]
    status = HTTPStatus.MULTI_STATUS if failures else HTTPStatus.OK
    return json_response({"topic": topic, "failed": len(failures), "results": results}, status)


def _result(outcome: Published | BrokerError) -> dict[str, Any]:
    if isinstance(outcome, BrokerError):
        return refusal_fields(outcome)
    return {"partition": outcome.partition, "offset": outcome.offset}
