"""The text door on a real broker: what a person types, what a hasty client sends, and what nobody should."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from in_process_client import Line, receive
from manual_ports import turns
from memory_broker import SETTINGS, make_topic, until, with_broker
from penstock.apps.doorways import Doorways
from penstock.core.errors import leaves
from penstock.core.limits import ERROR_CHARS_MAX
from penstock.core.model import Header, NewRecord
from penstock.doors.text.errors import CODES
from penstock.node.broker import Broker
from penstock.wire.foreign_protocol import HTTP_ANSWER
from penstock.wire.text.commands import LINE_BYTES_MAX


class Person:
    """One client on a line without a socket."""

    def __init__(self, doors: Doorways) -> None:
        self.connection = doors.listeners["text"].connect()
        self.line = Line(self.connection)
        self.connection.connection_made(self.line)  # type: ignore[arg-type]

    def type(self, content: bytes) -> None:
        receive(self.connection, self.line, content)

    async def read(self, count: int = 1) -> bytes:
        """So many lines, and nothing behind them."""
        await until(lambda: self.line.sent.count(b"\r\n") >= count)
        await turns()
        content = bytes(self.line.sent)
        self.line.sent.clear()
        assert content.count(b"\r\n") == count, content
        return content

    async def ask(self, content: bytes, count: int = 1) -> bytes:
        self.type(content)
        return await self.read(count)


Talk = Callable[[Doorways, Broker], Coroutine[Any, Any, None]]


def at_the_door(talk: Talk, **settings: Any) -> None:
    async def test(broker: Broker) -> None:
        await talk(Doorways(broker), broker)

    with_broker(test, replace(SETTINGS, text_port=0, **settings))


def test_as_the_document_says() -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        person = Person(doors)
        assert await person.ask(b'PUB orders 16\r\n{"order_id":101}') == b"OK 0\r\n"
        assert await person.ask(b"FETCH orders 0\r\n", 2) == b'MSG 0 16\r\n{"order_id":101}\r\n'

    at_the_door(talk)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("step", [1, 3, 1_000])
def test_however_the_bytes_come_and_the_lines_end(end: bytes, step: int) -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        person = Person(doors)
        sent = end.join([b"pub orders 2", b"\r\n", b"PUB orders 0", b"", b"Fetch orders 0", b""])
        for at in range(0, len(sent), step):
            person.type(sent[at : at + step])
        assert await person.read(5) == b"OK 0\r\nOK 1\r\nMSG 0 2\r\n\r\n\r\n"

    at_the_door(talk)


def test_many_in_one_go_share_a_batch_and_keep_their_order() -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        person = Person(doors)
        await make_topic(broker, "orders")
        person.type(b"".join(b"PUB orders 3\r\n%03d" % number for number in range(500)))
        assert await person.read(500) == b"".join(b"OK %d\r\n" % number for number in range(500))
        assert len(list(broker.partition("orders", 0).log.headers_from(0))) < 20
        assert await person.ask(b"FETCH orders 499\r\n", 2) == b"MSG 499 3\r\n499\r\n"

    at_the_door(talk)


def test_a_plain_message_goes_to_partition_0_and_a_keyed_one_where_its_key_belongs() -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        await make_topic(broker, "orders", 4)
        person = Person(doors)
        assert await person.ask(b"PUB orders 1\r\na" * 3, 3) == b"OK 0\r\nOK 1\r\nOK 2\r\n"
        answer = await person.ask(b"PUB orders 1 key=customer%207\r\nb")
        head, _, partition = answer.strip().partition(b"partition=")
        assert head.startswith(b"OK ") and partition.isdigit()
        assert await person.ask(b"PUB orders 1 partition=3\r\nc") == b"OK %d\r\n" % (partition == b"3")
        asked = b"FETCH orders %s partition=%s form=full\r\n" % (head.split()[1], partition)
        assert b"key=customer%207" in await person.ask(asked, 2)

    at_the_door(talk)


def test_key_headers_time_and_no_value_go_in_and_out() -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        person = Person(doors)
        line = b"value=none key=%00%FF header.a%20b=%0D%0A header.a%20b= header.c time=12"
        assert await person.ask(b"PUB orders 0 " + line + b"\r\n") == b"OK 0 partition=0\r\n"
        run = broker.partition("orders", 0).read(0, 1_000)
        assert run is not None
        answer = await person.ask(b"FETCH orders first form=full\r\n", 2)
        head = b"MSG 0 0 partition=0 time=12 value=none key=%00%FF header.a%20b=%0D%0A header.a%20b= header.c\r\n\r\n"
        assert answer == head
        publisher = doors.listeners["text"].dialect.publisher  # type: ignore[attr-defined]
        told: list[Any] = []
        headers = (Header("ü =", b"=%"), Header("n", None))
        connection, record = person.connection, NewRecord(b"", b"v", headers, 13)
        publisher.publish(connection.session, "orders", record, told.append, None, connection.hold)
        await until(lambda: told)
        answer = await person.ask(b"FETCH orders 1 form=full\r\n", 2)
        assert answer == b"MSG 1 1 partition=0 time=13 key= header.%C3%BC%20%3D=%3D%25 header.n\r\nv\r\n"

    at_the_door(talk)


def test_waiting_for_what_is_not_there_yet() -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        await make_topic(broker, "orders")
        reader, writer = Person(doors), Person(doors)
        reader.type(b"FETCH orders next wait=60000\r\nTOPICS\r\n")
        assert await writer.ask(b"PUB orders 2\r\nhi") == b"OK 0\r\n"
        assert await reader.read(4) == b"MSG 0 2\r\nhi\r\nTOPICS 1\r\norders 1\r\n"
        assert (await reader.ask(b"FETCH orders 1 wait=1\r\n")).startswith(b"ERR no-message ")
        reader.type(b"FETCH orders 1 wait=60000\r\n")
        doors.listeners["text"].close()
        assert (await reader.read()).startswith(b"ERR no-message ")

    at_the_door(talk)


@pytest.mark.parametrize(
    ("typed", "code"),
    [
        (b"FETCH orders\r\n", b"malformed"),
        (b"FETCH orders -1\r\n", b"malformed"),
        (b"FETCH orders 9223372036854775808\r\n", b"malformed"),
        (b"FETCH orders 9223372036854775807\r\n", b"offset-out-of-range"),
        (b"FETCH orders 00000000000000000000\r\n", b"malformed"),
        (b"FETCH orders 5\r\n", b"offset-out-of-range"),
        (b"FETCH orders 1\r\n", b"no-message"),
        (b"FETCH orders 0 partition=1\r\n", b"unknown-topic"),
        (b"FETCH nowhere 0\r\n", b"unknown-topic"),
        (b"FETCH no/where 0\r\n", b"invalid-topic"),
        (b"FETCH orders 0 wait=soon\r\n", b"malformed"),
        (b"FETCH orders 0 wait=1 wait=1\r\n", b"malformed"),
        (b"FETCH orders 0 key=a\r\n", b"malformed"),
        (b"FETCH orders 0 header.a=b\r\n", b"malformed"),
        (b"FETCH orders 0 wait\r\n", b"malformed"),
        (b"FETCH orders 0 isolation=none\r\n", b"malformed"),
        (b"PUB orders 1 wait=1\r\nx", b"malformed"),
        (b"PUB orders 1 value=none\r\nx", b"malformed"),
        (b"PUB orders 1 partition=7\r\nx", b"unknown-topic"),
        (b"PUB orders 1 header.\xff=1\r\nx", b"malformed"),
        (b"PUB \xff\xff 1\r\nx", b"malformed"),
        (b"PUB no/name 1\r\nx", b"invalid-topic"),
        (b"PUB __consumer_offsets 1\r\nx", b"invalid-topic"),
        (b"TOPICS all\r\n", b"malformed"),
        (b"PUB orders 2000\r\n" + bytes(2_000), b"too-large"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_and_the_connection_goes_on(typed: bytes, code: bytes) -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        await make_topic(broker, "orders", max_message_bytes="1000")
        await broker.group_coordinator.open()
        person = Person(doors)
        await person.ask(b"PUB orders 1\r\nx")
        answer = await person.ask(typed)
        assert answer.startswith(b"ERR %s " % code), answer
        assert await person.ask(b"FETCH orders 0\r\n", 2) == b"MSG 0 1\r\nx\r\n"

    at_the_door(talk)


@pytest.mark.parametrize(
    ("typed", "code"),
    [
        (b"PUB orders\r\n", b"malformed"),
        (b"PUB orders x\r\nhello", b"malformed"),
        (b"PUB orders -1\r\n", b"malformed"),
        (b"PUB orders 99999999999999999999\r\n", b"malformed"),
        (b"PUB orders 5000\r\n", b"too-large"),
        (b"x" * LINE_BYTES_MAX, b"too-large"),
        (b"PUB orders 5000000000\r\n" + bytes(10_000), b"too-large"),
        (b"HELLO\r\nPUB orders 1\r\ny", b"malformed"),
        (b"Host: a\r\nPUB orders 1\r\ny", b"malformed"),
        (b"\xff\xfe\x00\r\nPUB orders 1\r\ny", b"malformed"),
    ],
)
def test_behind_what_is_no_command_nothing_is_executed_and_the_error_is_the_last_line(
    typed: bytes, code: bytes
) -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        person, other = Person(doors), Person(doors)
        person.type(b"PUB orders 1\r\nx" + typed)
        answers = (await person.read(2)).split(b"\r\n")
        assert answers[0] == b"OK 0" and answers[1].startswith(b"ERR %s " % code)
        assert person.line.has_ended
        assert (await other.ask(b"FETCH orders 0\r\n", 2)).endswith(b"x\r\n")
        assert (await other.ask(b"FETCH orders 1\r\n")).startswith(b"ERR no-message ")

    at_the_door(talk, frame_bytes_max=4_000)


@pytest.mark.parametrize(
    "line",
    [b"POST / HTTP/1.1", b"GET /a b HTTP/1.0", b"PRI * HTTP/2.0", b"fetch / HTTP/1.1", b"TOPICS / HTTP/1.1"],
)
def test_http_gets_an_answer_in_http_and_its_body_is_not_executed(line: bytes) -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        person = Person(doors)
        person.type(line + b"\r\nHost: localhost:9081\r\nContent-Length: 16\r\n\r\nPUB orders 1\r\nx\r\n")
        await until(lambda: person.line.has_ended)
        assert bytes(person.line.sent) == HTTP_ANSWER
        assert broker.catalog.find("orders") is None

    at_the_door(talk)


def test_a_tls_handshake_is_refused_before_its_line_ends(caplog: pytest.LogCaptureFixture) -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        person = Person(doors)
        person.type(b"\x16\x03\x01\x02\x00\x01")
        await until(lambda: person.line.was_aborted)
        assert not person.line.sent

    at_the_door(talk)
    assert "TLS" in caplog.text and "plaintext" in caplog.text


def test_quit_answers_what_is_due_and_nothing_behind_it() -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        person = Person(doors)
        assert await person.ask(b"PUB orders 1\r\nxQUIT\r\nTOPICS\r\n", 2) == b"OK 0\r\nBYE\r\n"
        assert person.line.has_ended

    at_the_door(talk)


def test_help_lists_every_command() -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        answer = await Person(doors).ask(b"HELP\r\n", 6)
        for name in (b"PUB", b"FETCH", b"TOPICS", b"HELP", b"QUIT"):
            assert b"\r\n" + name in answer

    at_the_door(talk)


def test_half_a_request_and_then_silence_ends_at_the_limit(caplog: pytest.LogCaptureFixture) -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        halves = [Person(doors) for _ in range(2)]
        halves[0].type(b"PUB orders 100\r\nhalf")
        halves[1].type(b"FETCH ord")
        doors.gate.watch()
        async with asyncio.timeout(30):
            while any(not one.connection.is_closed for one in halves):
                await asyncio.sleep(0.005)

    at_the_door(talk, frame_ms_max=50)
    assert caplog.text.count("frame_ms_max") == 2


def test_a_reader_that_never_reads_is_not_read_from_and_disturbs_nobody() -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        person, other = Person(doors), Person(doors)
        await other.ask(b"PUB orders 900\r\n" + b"x" * 900)
        person.connection.pause_writing()
        for _ in range(100):
            person.type(b"FETCH orders 0\r\n")
            await turns()
        assert not person.line.is_reading
        assert person.connection.waiting_bytes < 10_000
        assert (await other.ask(b"FETCH orders 0\r\n", 2)).startswith(b"MSG 0 900")
        person.connection.resume_writing()
        await until(lambda: person.line.is_reading)

    at_the_door(talk, response_queue_bytes_max=5_000)


def test_every_error_has_a_code_of_its_own() -> None:
    assert set(CODES) == set(leaves())
    assert len(set(CODES.values())) == len(CODES)
    assert CODES[next(one for one in CODES if one.__name__ == "UnknownTopicId")] == "unknown-topic-id"


def test_long_words_are_cut() -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        answer = await Person(doors).ask(b"FETCH " + b"y" * 5_000 + b" 0\r\n")
        assert answer.startswith(b"ERR invalid-topic ") and len(answer) < ERROR_CHARS_MAX + 100

    at_the_door(talk)
