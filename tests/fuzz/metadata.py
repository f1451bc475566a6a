"""What comes in at the coordinator: its decoder by itself, and its port with a peer that has proven itself.

Whatever comes, the coordinator answers, or ends that connection; nothing crashes, nothing stays behind, and a witness
on another connection is served all the while.
"""

from __future__ import annotations

import asyncio
import logging
from random import Random
from typing import Any

from fuzz.target import Target
from manual_ports import Hand, PromptWorkers, turns
from metadata_peer import HELLO, SECRET, Peer
from penstock.core.errors import Malformed, TornSegment
from penstock.core.machines.catalog.events import Topic, TopicRemoved, TopicSaved
from penstock.core.machines.catalog.events import encode as encode_event
from penstock.node.cluster.metadata_entries import decoded_events
from penstock.node.metadata_coordinator import start_coordinator
from penstock.node.runtime.memory import MemoryFiles
from penstock.node.runtime.slices import run_unsliced
from penstock.node.settings import Settings
from penstock.wire.metadata.fields import encode_metadata_records
from penstock.wire.metadata.frames import (
    LENGTH_BYTES,
    Append,
    Cancel,
    EndSession,
    Message,
    OpenSession,
    Proof,
    ReadFrom,
    Renew,
    Renewed,
    WatchSessions,
    decode,
    encode,
)

ROUNDS_PER_COORDINATOR = 300
TURNS = 30
SETTINGS = Settings(inflight_bytes_max=1_000_000, frame_bytes_max=200_000)
INDEXES = (0, 0, 1, 2, 3, 2**63, 2**64 - 1)


def make_message(rng: Random) -> Message:
    row = (rng.choice(("broker-1", "controller", "", "x" * 300)), rng.randrange(-1, 3), rng.randrange(5))
    topic = Topic(rng.randbytes(16), rng.choice(("a", "b", "no/name")), 1)
    records = [
        encode_event(rng.choice((TopicSaved(topic), TopicRemoved(topic.id)))) for _ in range(rng.randrange(4))
    ]
    return rng.choice(
        (
            Append(rng.choice(INDEXES), encode_metadata_records(records)),
            ReadFrom(rng.choice(INDEXES), rng.random() < 0.5),
            OpenSession(row[0], row[1], rng.randbytes(rng.choice((0, 16, 40)))),
            Renew((row,) * rng.randrange(3)),
            EndSession(row),
            WatchSessions(rng.randrange(3)),
            Cancel(),
            HELLO,
            Proof(rng.randbytes(32)),
        )
    )


def make_frame(rng: Random) -> bytes:
    return encode(rng.randrange(5), make_message(rng))[LENGTH_BYTES:]


def read_frame(content: bytes) -> str:
    """What was read must be writable and come back the same; its events are events or refused."""
    try:
        number, message = decode(content)
        assert encode(number, message)[LENGTH_BYTES:] == content
        if isinstance(message, Append):
            run_unsliced(decoded_events(message.records))
    except (Malformed, TornSegment) as error:
        return type(error).__name__
    return type(message).__name__


class LiveCoordinator(logging.Handler):
    """A coordinator on a loop of its own, and a witness; replaced now and then by a fresh one."""

    def __init__(self) -> None:
        super().__init__(logging.CRITICAL)
        logging.getLogger("penstock").addHandler(self)  # a task that crashed says so in the log
        self._runner = asyncio.Runner()
        self._runner.get_loop().set_exception_handler(self._crashed)
        self.crashes: list[str] = []
        self.rounds = 0
        self._runner.run(self._start())

    def _crashed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.crashes.append(f"{context['message']}: {context.get('exception')!r}")

    def emit(self, record: logging.LogRecord) -> None:
        self.crashes.append(self.format(record))

    async def _start(self) -> None:
        hand = Hand(MemoryFiles(), PromptWorkers())
        self._coordinator = await start_coordinator(hand.runtime, SETTINGS, SECRET)
        self._gate = self._coordinator._gate
        self._witness = Peer(self._coordinator).prove()

    def read(self, content: bytes) -> str:
        self.rounds += 1
        return self._runner.run(self._read(content))

    async def _read(self, content: bytes) -> str:
        peer = Peer(self._coordinator).prove()
        peer.feed(content)
        await turns(TURNS)
        end = "closed" if peer.connection.is_closed else "ended" if peer.line.has_ended else "open"
        outcome = f"{end}, {'answered' if peer.line.sent else 'silent'}"
        self._witness.send(9, Renew(()))
        await turns()
        assert self._witness.received() == [(9, Renewed(()))], "the witness is served"
        peer.line.abort()
        await turns()
        assert not self.crashes, "\n".join(self.crashes)
        assert list(self._gate.connections) == [self._witness.connection]
        assert self._gate.budget.fits(SETTINGS.inflight_bytes_max), "memory of a connection that is gone"
        assert not self._coordinator.failed.done()
        return outcome

    def end(self) -> None:
        self._runner.run(self._stop())
        self._runner.close()
        logging.getLogger("penstock").removeHandler(self)
        assert not self.crashes, "\n".join(self.crashes)

    async def _stop(self) -> None:
        self._witness.line.abort()
        await turns()
        assert await self._coordinator.stop()


_live: LiveCoordinator | None = None


def make_requests(rng: Random) -> bytes:
    return b"".join(encode(number, make_message(rng)) for number in range(rng.randint(1, 5)))


def read_requests(content: bytes) -> str:
    global _live
    if _live is not None and _live.rounds >= ROUNDS_PER_COORDINATOR:
        done, _live = _live, None
        done.end()
    if _live is None:
        _live = LiveCoordinator()
    return _live.read(content)


TARGETS = (
    Target("metadata-frame", make_frame, read_frame),
    Target("metadata-door", make_requests, read_requests),
)
