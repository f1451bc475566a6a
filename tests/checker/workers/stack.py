"""What a worker asks of a client library, and the three ways in which it can go wrong. Never names a library."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from checker.history import PARTITIONS_PER_TOPIC, Pair

POLL_MS = 40
FETCH_MS = 100
"""How long a fetch of a client waits for records, in the background."""
POLL_RECORDS_MAX = 500
SEND_S_MAX = 8.0
"""How long a worker waits for an acknowledgement before it calls the outcome unknown."""
REQUEST_MS_MAX = 3000
CALL_S_MAX = 10.0
"""How long anything else of a client may take: opening, a commit, the end of a transaction."""
CLOSE_S_MAX = 2.0
SESSION_MS_MAX = 6000
HEARTBEAT_MS = 1000
TRANSACTION_MS_MAX = 10_000

Polled = dict[int, list[Pair]]


class Unknown(Exception):
    """Nobody knows whether it was done. `is_fatal` when the client must not be used any more."""

    def __init__(self, words: str, *, is_fatal: bool = False) -> None:
        super().__init__(words)
        self.is_fatal = is_fatal


class PositionLost(Unknown):
    """The broker does not have the offset that this client reads from, and the client has no policy to go elsewhere."""

    def __init__(self, words: str) -> None:
        super().__init__(words, is_fatal=True)


class NotDone(Exception):
    """Certainly not done: the broker or the client refused it before anything happened."""


@dataclass(frozen=True, slots=True)
class Place:
    """Who this client is. `transactional_id` empty: no transactions. `group` empty: no group, assignment by hand."""

    bootstrap: str
    name: str
    transactional_id: str = ""
    group: str = ""

    @property
    def isolation(self) -> str:
        return "read_committed" if self.transactional_id else "read_uncommitted"


class Stack(Protocol):
    """One producer and one consumer of one library. Calls block; nothing is shared between processes.

    All stacks join groups with the one assignor that all of them have, so that any of them may lead.
    Consumers have no policy for an offset that is not there: they raise PositionLost instead of going elsewhere.
    Every call raises Unknown when its outcome is open, NotDone when it certainly did nothing.
    """

    rebalanced: set[int]
    """Keys that a rebalance took or gave since the worker last emptied this."""

    def open(self) -> None: ...

    def close(self) -> None:
        """Tear down, without waiting for what is under way."""

    def send(self, records: list[tuple[int, int]]) -> list[int | None]:
        """Send all, wait for all: offsets in the order of sending, None where no acknowledgement came."""

    def assign(self, positions: dict[int, int]) -> None:
        """Read these keys, each from its offset, and no others."""

    def subscribe(self, topics: list[str]) -> None: ...

    def poll(self) -> Polled: ...

    def seek(self, positions: dict[int, int]) -> None: ...

    def commit(self, positions: dict[int, int]) -> None: ...

    def begin(self) -> None: ...

    def add_offsets(self, positions: dict[int, int]) -> None: ...

    def commit_transaction(self) -> None: ...

    def abort_transaction(self) -> None: ...


def bounded(call: Callable[[], Any], s_max: float = CALL_S_MAX) -> None:
    """Run a call that may block for ever; the thread is left behind if it does, and the client is not to be used."""
    trouble: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - raised again below, in the worker's own thread
            trouble.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(s_max)
    if thread.is_alive():
        raise Unknown("no answer in time", is_fatal=True)
    if trouble:
        raise trouble[0]


def keys_of_topics(topics: list[str]) -> list[int]:
    """The keys behind topics."""
    numbers = sorted(int(topic.removeprefix("t")) for topic in topics)
    return [
        number * PARTITIONS_PER_TOPIC + part for number in numbers for part in range(PARTITIONS_PER_TOPIC)
    ]
