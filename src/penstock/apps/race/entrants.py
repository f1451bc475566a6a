"""Who runs, and over which lane. Never measures."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from penstock.apps.race.lanes.amqp import QuorumLane
from penstock.apps.race.lanes.kafka import KafkaLane
from penstock.apps.race.lanes.lane import Address, Lane, WorkLane, WriteLane
from penstock.apps.race.lanes.nats import NatsLane
from penstock.apps.race.lanes.queue import QueueLane
from penstock.apps.race.lanes.rabbit_stream import StreamLane
from penstock.apps.race.lanes.redis import RedisLane
from penstock.apps.race.lanes.share import ShareLane
from penstock.apps.race.servers.kafka import Kafka
from penstock.apps.race.servers.nats import Nats
from penstock.apps.race.servers.penstock import Penstock
from penstock.apps.race.servers.rabbitmq import RabbitMq
from penstock.apps.race.servers.redis import Redis
from penstock.apps.race.servers.runner import Runner, Running


class MakeLane(Protocol):
    def __call__(self, address: Address, size: int, stream: str, /) -> Lane: ...


class MakeWriteLane(Protocol):
    def __call__(self, address: Address, size: int, stream: str, /) -> WriteLane: ...


class MakeWorkLane(Protocol):
    def __call__(self, address: Address, size: int, stream: str, /) -> WorkLane: ...


class Entrant(NamedTuple):
    """One runner: its server, its stream, the way to write whose acknowledgement means flushed, its queue of work."""

    runner: Runner
    stream: MakeLane
    flushed: MakeWriteLane
    work: MakeWorkLane
    stream_door: str = "main"
    work_door: str = "main"

    def lane(self, started: Running, size: int, stream: str) -> Lane:
        return self.stream(started.address(self.stream_door), size, stream)

    def flushed_lane(self, started: Running, size: int, stream: str) -> WriteLane:
        return self.flushed(started.address(), size, stream)

    def work_lane(self, started: Running, size: int, stream: str) -> WorkLane:
        return self.work(started.address(self.work_door), size, stream)


OURS = "Penstock"
ENTRANTS = (
    Entrant(Penstock(), KafkaLane, KafkaLane, QueueLane, work_door="queue"),
    Entrant(Kafka(), KafkaLane, KafkaLane, ShareLane),
    Entrant(Nats(), NatsLane, NatsLane, NatsLane),
    Entrant(Redis(), RedisLane, RedisLane, RedisLane),
    Entrant(RabbitMq(), StreamLane, QuorumLane, QuorumLane, stream_door="stream"),
)
