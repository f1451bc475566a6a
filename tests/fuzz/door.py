"""The whole door at a live broker: requests, whole and broken, on a connection of their own.

Whatever comes, the broker answers with Kafka's error or ends that connection; nothing crashes, nothing stays behind,
and a witness on another connection is served all the while.
"""

from __future__ import annotations

import asyncio
import logging
from random import Random
from typing import Any

from fuzz.target import Target
from in_process_client import Caller, open_doors
from kafka_samples import sample
from log_samples import keyed_batch
from manual_ports import Hand, PromptWorkers, turns
from penstock.apps.doorways import KAFKA, Doorways
from penstock.core.machines.cluster.brokers import decide_link_key
from penstock.core.model import Storage
from penstock.node.broker import Broker, start_broker
from penstock.node.runtime.memory import MemoryFiles
from penstock.node.settings import Settings
from penstock.wire.kafka import API, ApiKey, encode_request, messages

ROUNDS_PER_BROKER = 300
TURNS = 30
SETTINGS = Settings(
    storage=Storage.MEMORY,
    frame_bytes_max=200_000,
    inflight_bytes_max=1_000_000,
    response_queue_bytes_max=500_000,
)
LINK_KEY = b"k" * 32
NAMES = ("orders", "orders", "__consumer_offsets", "neu", "..", "x" * 300)


class Live:
    """A broker, its door and a witness, on a loop of their own; replaced now and then by fresh ones."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._loop = self._runner.get_loop()
        self._loop.set_exception_handler(self._crashed)
        self.crashes: list[str] = []
        self.rounds = 0
        self._runner.run(self._start())

    def _crashed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.crashes.append(f"{context['message']}: {context.get('exception')!r}")

    async def _start(self) -> None:
        hand = Hand(MemoryFiles(), PromptWorkers())
        self.broker: Broker = await start_broker(SETTINGS, hand.runtime)
        topic_id = self.broker.new_topic_id()
        await self.broker.change(
            lambda catalog: catalog.decide_create_topic("orders", 2, {}, topic_id=topic_id, now_ms=1)
        )
        await self.broker.change(lambda catalog: decide_link_key(catalog.cluster, LINK_KEY))
        self.doors: Doorways = open_doors(self.broker)
        self.witness = Caller(self.doors)

    def read(self, content: bytes, name: str, door: str = KAFKA) -> str:
        """What comes of these bytes at a door; `name` says what they were meant to be."""
        self.rounds += 1
        return self._runner.run(self._read(content, name, door))

    async def _read(self, content: bytes, name: str, door: str) -> str:
        caller = Caller(self.doors, door)
        caller.feed(content)
        await turns(TURNS)
        end = "closed" if caller.is_closed else "ended" if caller.line.has_ended else "open"
        word = f"{name} {end}, {'answered' if caller.line.sent else 'silent'}"
        answer = await self.witness.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        assert answer.error_code == 0
        assert not caller.connection.session.is_broker, "without the link key"
        caller.line.abort()
        await turns()
        assert not self.crashes, "\n".join(self.crashes)
        assert list(self.doors.gate.connections) == [self.witness.connection]
        assert self.doors.gate.budget.fits(SETTINGS.inflight_bytes_max), "memory of a connection that is gone"
        return word

    def close(self) -> None:
        self._runner.run(self.broker.stop())
        self._runner.close()
        assert not self.crashes, "\n".join(self.crashes)


class _Alarm(logging.Handler):
    """A task that crashed says so in the log, and nowhere else."""

    def __init__(self, live: Live) -> None:
        super().__init__(logging.CRITICAL)
        self._live = live

    def emit(self, record: logging.LogRecord) -> None:
        self._live.crashes.append(self.format(record))


_live: Live | None = None
_alarm: _Alarm | None = None


def live() -> Live:
    global _live, _alarm
    logger = logging.getLogger("penstock")
    if _live is not None and _live.rounds >= ROUNDS_PER_BROKER:
        done, _live = _live, None
        done.close()
    if _live is None:
        if _alarm is not None:
            logger.removeHandler(_alarm)
        _live = Live()
        _alarm = _Alarm(_live)
        logger.addHandler(_alarm)
    return _live


def make_requests(rng: Random) -> bytes:
    """A few requests of what the door speaks, most of them about topics that are there."""
    keys = sorted(live().doors.kafka._dispatch._handlers)
    return b"".join(_request(rng.choice(keys), rng) for _ in range(rng.randint(1, 4)))


def _request(key: int, rng: Random) -> bytes:
    api = API[key]
    version = rng.randint(api.version_min, api.version_max)
    body = sample(api.request, version, rng)
    _aim(body, rng)
    return encode_request(key, version, rng.getrandbits(31), "fuzz", body)


def _aim(value: Any, rng: Random) -> None:
    """Point names, ids, partitions and batches of a random message at what the broker really has."""
    for name in getattr(value, "__slots__", ()):
        found = getattr(value, name)
        if isinstance(found, list):
            for one in found:
                _aim(one, rng)
        elif name in ("name", "topic", "topic_name") and isinstance(found, str):
            setattr(value, name, rng.choice(NAMES))
        elif name == "topic_id":
            topic = live().broker.catalog.find("orders")
            setattr(value, name, topic.id if topic and rng.random() < 0.8 else found)
        elif name in ("index", "partition", "partition_index"):
            setattr(value, name, rng.choice((0, 0, 1, 2, -1)))
        elif name == "records" and found is not None:
            setattr(
                value, name, bytes(keyed_batch([(b"k", b"v" * rng.randint(0, 50))], codec=rng.randint(0, 4)))
            )
        elif name == "acks":
            setattr(value, name, rng.choice((-1, 0, 1, 1, 5)))
        elif name in ("num_partitions", "count"):
            setattr(value, name, rng.choice((-1, 0, 1, 3)))
        elif name == "fetch_offset":
            setattr(value, name, rng.choice((0, 0, 1, -1, 2**62)))
        elif name == "replica_id":
            setattr(value, name, -1)
        elif name in ("session_id", "session_epoch"):
            setattr(value, name, 0)


def read_requests(content: bytes) -> str:
    key = int.from_bytes(content[4:6], "big")
    return live().read(content, API[key].name if key in API else "unknown")


TARGETS = (Target("door", make_requests, read_requests),)
