"""One client's connection: answers in the order of the requests, limits by not reading, everything given back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from in_process_client import Line, receive
from manual_ports import turns
from penstock.core.errors import BrokerError, TornSegment
from penstock.core.log.segment import Slice
from penstock.node.connections.connection import Connection
from penstock.node.connections.crowd import CROWD_UNITS, Crowd
from penstock.node.connections.framing import LengthPrefixed
from penstock.node.connections.intake import Budget
from penstock.node.connections.reply_slot import ReplySlot
from penstock.node.connections.turns import UNITS_PER_TURN
from penstock.node.runtime.disk import DiskFiles


@dataclass
class Limits:
    frame_bytes_max: int = 1 << 20
    requests_in_flight_max: int = 100
    response_queue_bytes_max: int = 1 << 20


class Client:
    """A connection with a gate and a dialect that take every request down; the test answers."""

    framing = LengthPrefixed()
    name = "test"

    def __init__(
        self,
        limits: Limits | None = None,
        budget: Budget | None = None,
        *,
        crowd: Crowd | None = None,
        admits: bool = True,
        words: Sequence[bytes] = (),
        answers_after_end: bool = False,
    ) -> None:
        self.requests: list[bytes] = []
        self.slots: list[ReplySlot] = []
        self.answer: Callable[[Connection, bytes], None] = lambda connection, frame: self.slots.append(
            connection.reserve()
        )
        self.forgotten = 0
        self._admits = admits
        self._words = words
        self.answers_after_end = answers_after_end
        self.limits = limits or Limits()
        self.budget = budget or Budget(1 << 30)
        self.crowd = crowd or Crowd()
        self.line = Line()
        self.connection = Connection(asyncio.get_running_loop(), self, self)
        self.connection.connection_made(self.line)  # type: ignore[arg-type]

    def open(self, connection: Connection) -> Client:
        return self

    def handle(self, frame: memoryview) -> None:
        self.requests.append(bytes(frame))
        self.answer(self.connection, bytes(frame))

    def closing_reply(self, error: BrokerError) -> Sequence[bytes]:
        return self._words

    def release_waiting(self) -> None:
        """Nothing waits here by itself."""

    def admit(self, connection: Connection) -> bool:
        return self._admits

    def forget(self, connection: Connection) -> None:
        self.forgotten += 1

    def send(self, *requests: bytes) -> None:
        """Receive these frames in as few pieces as there is room for."""
        content = b"".join(len(one).to_bytes(4, "big") + one for one in requests)
        receive(self.connection, self.line, content)


def connected(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


def test_answers_leave_in_the_order_of_the_requests() -> None:
    async def test() -> None:
        client = Client()
        client.send(b"1", b"2", b"3")
        client.slots[2].answer([b"third "])
        client.slots[1].answer([b"second "])
        await turns()
        assert client.line.sent == b""
        client.slots[0].answer([b"first "])
        client.answer = lambda connection, frame: connection.answer([b"at once"])
        client.send(b"4")
        await turns()
        assert client.line.sent == b"first second third at once"
        assert client.connection.is_quiet and client.connection.in_flight == 0

    connected(test)


def test_an_answer_that_is_ready_waits_behind_one_that_is_not() -> None:
    async def test() -> None:
        client = Client()
        client.send(b"1")
        client.connection.answer([b"second"])
        await turns()
        assert client.line.sent == b"" and not client.connection.is_quiet
        client.slots[0].answer([b"first "])
        await turns()
        assert client.line.sent == b"first second"

    connected(test)


def test_answering_twice_is_our_bug() -> None:
    async def test() -> None:
        client = Client()
        client.send(b"1")
        client.slots[0].answer([b"x"])
        with pytest.raises(AssertionError, match="twice"):
            client.slots[0].answer([b"y"])

    connected(test)


def test_with_too_many_requests_in_flight_it_is_not_read_from() -> None:
    async def test() -> None:
        client = Client(Limits(requests_in_flight_max=3))
        client.send(*[b"%d" % number for number in range(7)])
        assert len(client.requests) == 3 and not client.line.is_reading
        client.slots[1].answer([b"b"])
        await turns()
        assert len(client.requests) == 3, "the first is still in line"
        client.slots[0].answer([b"a"])
        await turns()
        assert len(client.requests) == 5 and not client.line.is_reading
        for slot in client.slots[2:]:
            slot.answer([b"."])
        await turns()
        for slot in client.slots[5:]:
            slot.answer([b"."])
        await turns()
        assert client.requests == [b"%d" % number for number in range(7)]
        assert client.line.is_reading
        assert client.line.sent == b"ab....."

    connected(test)


def test_answers_of_one_turn_are_counted_before_they_are_sent() -> None:
    async def test() -> None:
        client = Client(Limits(response_queue_bytes_max=10_000))
        client.answer = lambda connection, frame: connection.answer([b"x" * 4_000])
        client.send(*[b"?"] * 50)
        assert len(client.requests) == 3, "the rest waits until these are out"
        await turns(200)
        assert len(client.requests) == 50 and len(client.line.sent) == 200_000
        assert client.line.is_reading

    connected(test)


def test_answers_that_wait_in_line_are_counted_too() -> None:
    async def test() -> None:
        client = Client(Limits(response_queue_bytes_max=10_000))
        client.send(b"slow")
        client.answer = lambda connection, frame: connection.answer([b"x" * 6_000])
        client.send(b"1", b"2", b"3")
        assert len(client.requests) == 3 and not client.line.is_reading
        client.slots[0].answer([b"s"])
        await turns(20)
        assert len(client.requests) == 4 and client.line.is_reading

    connected(test)


def test_a_held_connection_starts_no_further_request() -> None:
    async def test() -> None:
        client = Client()
        holds = []

        def handle(connection: Connection, frame: bytes) -> None:
            if frame.startswith(b"slow"):
                holds.append(connection.hold())
            connection.answer([frame])

        client.answer = handle
        client.send(b"slow1")
        client.send(b"2")
        client.send(b"slow3")
        client.send(b"4")
        await turns()
        assert client.requests == [b"slow1"]
        for release_hold in holds:
            release_hold()
        await turns()
        client.send(b"5")
        assert client.requests == [b"slow1", b"2", b"slow3"]
        holds[1]()
        await turns()
        client.send(b"6")
        assert client.requests == [b"slow1", b"2", b"slow3", b"4", b"5", b"6"]

    connected(test)


def test_requests_beside_each_other_wait_for_an_exclusive_one() -> None:
    async def test() -> None:
        client = Client()
        begun: list[bytes] = []
        slots: dict[bytes, ReplySlot] = {}

        def handle(connection: Connection, frame: bytes) -> None:
            def begin(slot: ReplySlot) -> None:
                begun.append(frame)
                slots[frame] = slot

            (connection.turns.in_turn if frame.startswith(b"turn") else connection.turns.beside)(begin)

        client.answer = handle
        client.send(b"1", b"2", b"turn3", b"4", b"5", b"turn6", b"7")
        assert begun == [b"1", b"2"]
        slots[b"2"].answer([b"2"])
        slots[b"1"].answer([b"1"])
        assert begun == [b"1", b"2", b"turn3"]
        slots[b"turn3"].answer([b"3"])
        assert begun == [b"1", b"2", b"turn3", b"4", b"5"]
        slots[b"4"].answer([b"4"])
        slots[b"5"].answer([])
        slots[b"turn6"].answer([b"6"])
        assert begun[-1] == b"7" and not client.connection.turns.has_exclusive
        await turns()
        assert client.line.sent == b"12346"

    connected(test)


def test_a_hold_keeps_requests_in_line_from_being_started() -> None:
    async def test() -> None:
        client = Client()
        begun: list[bytes] = []
        holds = []

        def handle(connection: Connection, frame: bytes) -> None:
            def begin(slot: ReplySlot) -> None:
                begun.append(frame)
                if frame == b"slow":
                    holds.append(connection.hold())
                slot.answer([frame])

            connection.turns.in_turn(begin) if frame == b"turn" else connection.turns.beside(begin)

        first = client.connection.reserve()
        client.answer = handle
        client.send(b"turn", b"slow", b"quick")
        first.answer([b"first "])
        assert begun == [b"turn", b"slow"]
        holds[0]()
        assert begun == [b"turn", b"slow", b"quick"]

    connected(test)


def test_a_long_line_of_requests_answered_at_once_does_not_recurse() -> None:
    async def test() -> None:
        client = Client()
        client.answer = lambda connection, frame: connection.turns.in_turn(lambda slot: slot.answer([b"x"]))
        first = client.connection.reserve()
        client.send(*[b"%d" % number for number in range(990)])
        first.answer([b"first "])
        for _ in range(990 // UNITS_PER_TURN + 1):
            await turns()
        assert client.line.sent == b"first " + b"x" * 990

    connected(test)


def test_many_connections_share_one_turn_and_each_goes_on() -> None:
    async def test() -> None:
        crowd = Crowd()
        clients = [Client(crowd=crowd) for _ in range(20)]
        for client in clients:
            client.answer = lambda connection, frame: connection.answer([b"x"])
            client.send(*[b"%d" % number for number in range(90)])
        started = sum(len(client.requests) for client in clients)
        assert all(client.requests for client in clients)
        assert started <= CROWD_UNITS + UNITS_PER_TURN + len(clients)
        for _ in range(90):
            await turns()
        assert [len(client.requests) for client in clients] == [90] * 20

    connected(test)


def test_a_hold_released_at_once_costs_nothing() -> None:
    async def test() -> None:
        client = Client()
        client.answer = lambda connection, frame: connection.hold()()
        client.send(b"1")
        client.send(b"2")
        assert client.requests == [b"1", b"2"] and client.line.is_reading

    connected(test)


def test_a_reader_that_does_not_read_is_not_read_from() -> None:
    async def test() -> None:
        client = Client(Limits(response_queue_bytes_max=1_000))
        client.answer = lambda connection, frame: connection.answer([b"x" * 600])
        client.connection.pause_writing()
        client.send(b"1")
        client.send(b"2")
        client.send(b"3")
        await turns()
        assert len(client.requests) == 2 and not client.line.is_reading
        client.connection.resume_writing()
        await turns()
        assert client.line.is_reading and client.line.sent == b"x" * 1_200
        client.send(b"4")
        assert client.requests == [b"1", b"2", b"3", b"4"]

    connected(test)


def test_over_the_shared_memory_it_is_not_read_from_until_there_is_room() -> None:
    async def test() -> None:
        budget = Budget(100_000)
        greedy, patient = Client(budget=budget), Client(budget=budget)
        greedy.send(b"x" * 90_000)
        greedy.connection._intake.room()[:4] = (90_000).to_bytes(4, "big")
        greedy.connection.buffer_updated(4)
        patient.send(b"y" * 70_000)
        assert not patient.line.is_reading and patient.requests == []
        greedy.connection.connection_lost(None)
        await turns()
        assert patient.line.is_reading
        patient.send(b"")
        assert patient.connection.is_closed is False

    connected(test)


def test_a_frame_that_cannot_be_ends_the_connection_with_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        client = Client(Limits(frame_bytes_max=100))
        client.send(b"x" * 101)
        assert client.line.was_aborted and client.connection.is_closed
        client.connection.close("again")

    connected(test)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert caplog.records[0].peer == "10.0.0.7:5000"  # type: ignore[attr-defined]


def test_a_handler_that_refuses_ends_the_connection_and_the_rest_is_not_handled() -> None:
    async def test() -> None:
        client = Client()

        def refuse(connection: Connection, frame: bytes) -> None:
            raise TornSegment("no")

        client.answer = refuse
        client.send(b"1", b"2")
        assert client.requests == [b"1"] and client.line.was_aborted

    connected(test)


def test_a_door_that_is_full_turns_it_away() -> None:
    async def test() -> None:
        client = Client(admits=False)
        assert client.line.was_aborted and client.connection.is_closed

    connected(test)


def test_hanging_up_is_no_abort() -> None:
    async def test() -> None:
        client = Client()
        client.connection.hang_up()
        assert client.line.was_closed and not client.line.was_aborted

    connected(test)


def test_the_end_calls_back_once_and_forgets_everything() -> None:
    async def test() -> None:
        client = Client()
        calls: list[str] = []
        stays, leaves = (lambda: calls.append("stays")), (lambda: calls.append("leaves"))
        client.connection.on_close(stays)
        client.connection.on_close(leaves)
        client.connection.not_on_close(leaves)
        client.send(b"1")
        client.connection.connection_lost(None)
        assert calls == ["stays"] and client.forgotten == 1
        client.slots[0].answer([b"too late"])
        await turns()
        assert client.line.sent == b""

    connected(test)


def log_file(root: Path) -> tuple[DiskFiles, Any]:
    files = DiskFiles(root, 16)
    file = files.open("a.log", create=True)
    file.append([b"records"])
    return files, file


def test_a_file_that_retention_removes_while_its_answer_waits_in_line_is_sent(tmp_path: Path) -> None:
    async def test() -> None:
        files, file = log_file(tmp_path)
        client = Client()
        client.send(b"produce", b"fetch")
        client.slots[1].answer([b"<", Slice(file, 0, 7, 0), b">"])
        file.close()
        files.remove("a.log")
        client.slots[0].answer([b"done"])
        await turns()
        assert client.line.sent == b"done<records>"
        assert files.open_count() == 0

    connected(test)


def test_the_end_gives_back_the_files_of_answers_that_were_never_sent(tmp_path: Path) -> None:
    async def test() -> None:
        files, file = log_file(tmp_path)
        client = Client()
        client.send(b"1", b"2")
        client.slots[1].answer([Slice(file, 0, 7, 0)])
        client.connection.connection_lost(None)
        client.slots[0].answer([Slice(file, 0, 7, 0)])
        ready = Client()
        ready.connection.answer([Slice(file, 0, 7, 0)])
        ready.connection.connection_lost(None)
        await turns()
        file.close()
        assert files.open_count() == 0

    connected(test)


def test_a_file_that_is_gone_already_ends_the_connection_and_pins_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        files, file = log_file(tmp_path)
        other = files.open("b.log", create=True)
        client = Client()
        file.close()
        client.connection.answer([Slice(other, 0, 0, 0), Slice(file, 0, 7, 0)])
        assert client.line.was_aborted
        other.close()
        assert files.open_count() == 0

    connected(test)
