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
from penstock.apps.race.servers.kafka import Kafka
from penstock.apps.race.servers.nats import Nats
from penstock.apps.race.servers.penstock import Penstock
from penstock.apps.race.servers.rabbitmq import RabbitMq
from penstock.apps.race.servers.redis import Redis
from penstock.apps.race.servers.runner import Runner, Running


class MakeLane(Protocol):
    def __call__(self, address: Address, size: int) -> Lane: ...


class MakeWriteLane(Protocol):
    def __call__(self, address: Address, size: int) -> WriteLane: ...


class MakeWorkLane(Protocol):
    def __call__(self, address: Address, size: int) -> WorkLane: ...


class Entrant(NamedTuple):
    """One runner: its server, its stream, the way to write whose acknowledgement means flushed, its queue of work."""

    runner: Runner
    stream: MakeLane
    flushed: MakeWriteLane
    work: MakeWorkLane | None
    stream_door: str = "main"
    work_door: str = "main"
    no_work_because: str = ""

    def lane(self, started: Running, size: int) -> Lane:
        return self.stream(started.address(self.stream_door), size)

    def flushed_lane(self, started: Running, size: int) -> WriteLane:
        return self.flushed(started.address(), size)


OURS = "Penstock"
ENTRANTS = (
    Entrant(Penstock(), KafkaLane, KafkaLane, QueueLane, work_door="queue"),
    Entrant(
        Kafka(), KafkaLane, KafkaLane, None,
        no_work_because="acknowledging one by one needs a share group, which has no bare-socket lane here",
    ),
    Entrant(Nats(), NatsLane, NatsLane, NatsLane),
    Entrant(Redis(), RedisLane, RedisLane, RedisLane),
    Entrant(RabbitMq(), StreamLane, QuorumLane, QuorumLane, stream_door="stream"),
)  # fmt: skip
