"""A member of subscriptions over the queue door: takes messages, acknowledges them, and notes what it was told.

Speaks the protocol itself, on one socket: a message that the broker took back is never served from a buffer that
outlives the connection. An acknowledgement asks for an answer, so that it is known which ones are durable.
"""

from __future__ import annotations

import json
import random
import socket
import time
from collections.abc import Callable
from typing import Any

from checker.history import INFO, INVOKE, NEMESIS, OK, RECEIPT, TAKE, Event, key_of, topic_of
from checker.queue import ACCEPTED
from checker.workers.diary import Diary
from checker.workers.stack import CALL_S_MAX, POLL_MS
from penstock.wire.queue.frames import Frame, FrameStream, MessageType, encode

REFUSED, UNKNOWN = "refused", "unknown"
TAKEN_MAX = 20
FRAME_BYTES_MAX = 1 << 20
PAUSE_S = 0.05
SILENT_SHARE = 1 / 40
"""Of all takes, those after which the member leaves without acknowledging anything."""


def subscription_of(topic: str) -> str:
    return f"work-{topic}"


class ConnectionOver(Exception):
    """The broker is gone, silent, or has ended the membership."""


class QueueConnection:
    """Frames over a socket, with a deadline for everything."""

    def __init__(self, address: str, name: str) -> None:
        host, _, port = address.rpartition(":")
        self._name = name
        self._requests = 0
        self._stream = FrameStream(FRAME_BYTES_MAX)
        self._frames: list[Frame] = []
        try:
            self._socket = socket.create_connection((host, int(port)), CALL_S_MAX)
        except OSError as error:
            raise ConnectionOver(str(error)) from None

    def close(self) -> None:
        self._socket.close()

    def send(self, kind: MessageType, sequence: int = -1, **properties: str) -> str:
        """Returns the number of the request, which its answer repeats."""
        self._requests += 1
        pairs = {"@client": self._name, **{f"@{name}": value for name, value in properties.items()}}
        pairs["@request"] = str(self._requests)
        try:
            self._socket.settimeout(CALL_S_MAX)
            self._socket.sendall(encode(Frame(kind, sequence, 0, tuple(pairs.items()), b"")))
        except OSError as error:
            raise ConnectionOver(str(error)) from None
        return str(self._requests)

    def receive(self, deadline_s: float) -> Frame | None:
        """The next frame; None if none comes in time."""
        while not self._frames:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return None
            try:
                self._socket.settimeout(left_s)
                content = self._socket.recv(65_536)
            except TimeoutError:
                return None
            except OSError as error:
                raise ConnectionOver(str(error)) from None
            if not content:
                raise ConnectionOver("the broker closed the connection")
            self._frames += self._stream.feed(content)
        return self._frames.pop(0)

    def put_back(self, frames: list[Frame]) -> None:
        """Receive these next."""
        self._frames = frames + self._frames

    def ask(self, kind: MessageType, **properties: str) -> tuple[dict[str, str], bytes]:
        """The answer to a request. Deliveries that come before it are for later. Raises ConnectionOver if it is an
        error."""
        passed: list[Frame] = []
        number = self.send(kind, **properties)
        deadline_s = time.monotonic() + CALL_S_MAX
        while (frame := self.receive(deadline_s)) is not None:
            words = dict(frame.properties)
            if frame.type == MessageType.ACK and words.get("@request") == number:
                self.put_back(passed)
                if words["@status"] != "success":
                    raise ConnectionOver(words.get("@error", ""))
                return words, frame.body
            passed.append(frame)
        raise ConnectionOver(f"no answer to {kind.name}")


class QueueWorker:
    """One member after the other, at one broker after the other."""

    def __init__(
        self,
        doors: list[str],
        subscriptions: list[str],
        diary: Diary,
        process: int,
        rng: random.Random,
        name: str,
    ) -> None:
        self._doors = doors
        self._subscriptions = subscriptions
        self._diary = diary
        self._process = process
        self._rng = rng
        self._name = name
        self._connection: QueueConnection | None = None

    def run(self, is_over: Callable[[], bool]) -> None:
        """Take and acknowledge until told to stop."""
        while not is_over():
            try:
                connection = self._connection or self._join()
                self._take(connection)
            except ConnectionOver:
                self._leave()
                time.sleep(PAUSE_S)
        self._leave()

    def drain(self, until: Callable[[], bool]) -> bool:
        """The same until nothing is left to be settled; False if that does not come in time."""
        while not until():
            try:
                connection = self._connection or self._join()
                if not self._take(connection) and not self._unsettled(connection):
                    return True
            except ConnectionOver:
                self._leave()
                time.sleep(PAUSE_S)
        return False

    def _unsettled(self, connection: QueueConnection) -> int:
        count = 0
        for name in self._subscriptions:
            _, body = connection.ask(MessageType.DESCRIBE_SUBSCRIPTION, subscription=name)
            count += sum(int(one["unsettled_count"]) for one in json.loads(body)["partitions"])
        return count

    def _join(self) -> QueueConnection:
        connection = self._connection = QueueConnection(self._rng.choice(self._doors), self._name)
        for name in self._subscriptions:
            connection.ask(MessageType.SUBSCRIBE, subscription=name, window=str(TAKEN_MAX))
        return connection

    def _leave(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _write(self, process: int, type_: str, f: str, value: Any, error: str = "") -> None:
        self._diary.write(Event(process, time.monotonic_ns(), type_, f, value, error=error))

    def _take(self, connection: QueueConnection) -> int:
        """How many messages came. Raises ConnectionOver."""
        self._write(self._process, INVOKE, TAKE, None)
        rows: dict[str, list[Any]] = {}
        taken: list[list[Any]] = []
        trouble = ""
        try:
            taken = self._receive(connection)
            self._write(NEMESIS, INFO, RECEIPT, [self._process, [row[:4] for row in taken]])
            if taken and self._rng.random() < SILENT_SHARE:
                raise ConnectionOver("leaves on purpose")
            for row in taken:
                rows[self._acknowledge(connection, row)] = row
            self._await_answers(connection, rows)
        except ConnectionOver as error:
            trouble = str(error)
        is_known = all(row[4] != UNKNOWN for row in taken)
        self._write(self._process, OK if is_known else INFO, TAKE, taken, trouble)
        if not is_known:
            self._process += 1
        if trouble:
            raise ConnectionOver(trouble)
        return len(taken)

    def _receive(self, connection: QueueConnection) -> list[list[Any]]:
        """[key, offset, value, delivery, what came of the acknowledgement] for each message."""
        taken: list[list[Any]] = []
        deadline_s = time.monotonic() + POLL_MS / 1000
        while len(taken) < TAKEN_MAX and (frame := connection.receive(deadline_s)) is not None:
            words = dict(frame.properties)
            if frame.type != MessageType.DATA:
                raise ConnectionOver(words.get("@error", f"unexpected {frame.type.name}"))
            key = key_of(words["@topic"], int(words["@partition"]))
            taken.append([key, frame.sequence, int(frame.body), int(words["@delivery"]), UNKNOWN])
        return taken

    def _acknowledge(self, connection: QueueConnection, row: list[Any]) -> str:
        key, offset = row[:2]
        topic, partition = topic_of(key)
        return connection.send(
            MessageType.ACK, offset, subscription=subscription_of(topic), partition=str(partition)
        )

    def _await_answers(self, connection: QueueConnection, rows: dict[str, list[Any]]) -> None:
        """What comes meanwhile is put back."""
        passed: list[Frame] = []
        deadline_s, waiting = time.monotonic() + CALL_S_MAX, set(rows)
        while waiting:
            frame = connection.receive(deadline_s)
            if frame is None:
                raise ConnectionOver("no answer to an acknowledgement")
            words = dict(frame.properties)
            number = words.get("@request", "")
            if frame.type == MessageType.ACK and number in waiting:
                waiting.remove(number)
                rows[number][4] = outcome_of(words)
            elif frame.type == MessageType.DATA:
                passed.append(frame)
            else:
                raise ConnectionOver(words.get("@error", f"unexpected {frame.type.name}"))
        connection.put_back(passed)


def outcome_of(words: dict[str, str]) -> str:
    """Only NOT_HELD says for certain that nothing was settled."""
    if words["@status"] == "success":
        return ACCEPTED
    return REFUSED if words.get("@code") == "NOT_HELD" else UNKNOWN
