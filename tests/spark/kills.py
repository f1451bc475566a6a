"""A pipeline in a process of its own, killed again and again, and every record counted in the end.

    with Ordeal(tmp_path, child) as ordeal:        # child: the words that start the pipeline
        ordeal.run(plan(seed=1, kills=50), tally)  # tally: what has come out so far, by value
        ordeal.finish(tally)

Victims: the driver (its Python and its JVM), one Python worker of an executor, a broker, which is restarted at once;
several brokers take turns. In a cluster, whose topics have three replicas, also a leader, which stays away until the
pipeline has worked without it. Each kill happens at a point in the job: before or after the nth call of some kind that
the pipeline makes, seen in the passage between the pipeline and a broker. Partitions of a cluster move all the time.
Never looks into the pipeline.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

import penstock
from checker.mover import Mover
from checker.sight import view
from e2e.move_clients import raw_cluster
from penstock.client.access import read_access
from penstock.client.errors import ClientError
from penstock.client.raw.cluster import Cluster, codes_in
from penstock.testing import Broker, CoordinatorServer, Flag
from penstock.wire.kafka import ApiKey, messages
from spark.passage import Passage, Point, Trap
from spark.processes import DAEMON, below, kill_9, ports

CLIENT_ID = "pipeline"
"""What the pipeline calls itself (`kafka.client.id`), so that its calls are told from others."""
INPUT, OUTPUT, PARTITIONS = "in", "out", 3
REPLICAS = 3
TRANSACTIONS = "__transaction_state"
CHUNK = 300
"""Records that are fed before each kill, and again when all have come out and the point has not."""
POINT_S_MAX = 240.0
FINISH_S_MAX = 300.0
FEED_S = 3.0
LATER_S_MAX = 1.0
"""About as long as a batch takes: a kill so much behind a call may hit whatever is done without one."""
POLL_S = 0.05
SESSION_MS = 6_000
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A JVM that lives for a minute need not think long about its code."""
QUIET = {"log_level": 0}
"""Clients that do not tell of every connection that a kill cost them."""

Tally = Callable[[], Counter[str]]
"""Counts what has come out so far, by value."""

VICTIMS = ("driver", "worker", "broker", "worker", "broker")
"""In turn. A driver takes longest to come back, so several of the others die in the life of one."""
CLUSTER_VICTIMS = ("leader", "worker", "broker", "leader", "driver")
"""The same for several brokers."""

CALLS = (
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.PRODUCE,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
    ApiKey.FETCH,
)
"""Where kills happen, unless the pipeline makes other calls."""


class Kill(NamedTuple):
    """Who dies, and when."""

    victim: str
    point: Point

    def __str__(self) -> str:
        return f"{self.victim} {self.point}"


def plan(seed: int, kills: int, calls: Sequence[int] = CALLS, nodes: int = 1) -> list[Kill]:
    """Kills in turn over all victims, at points drawn by chance."""
    chance, victims = random.Random(seed), VICTIMS if nodes == 1 else CLUSTER_VICTIMS
    return [
        Kill(
            victims[number % len(victims)],
            Point(
                chance.choice(calls),
                chance.randint(1, 6),
                chance.random() < 0.5,
                chance.choice((0.0, chance.uniform(0, LATER_S_MAX))),
            ),
        )
        for number in range(kills)
    ]


class Ordeal:
    """A broker or a cluster, the passage before each broker, a pipeline, and what was fed into it."""

    def __init__(self, home: Path, child: Callable[[str], Sequence[str]], nodes: int = 1) -> None:
        self.home = home
        self.brokers: list[Broker] = []
        self._nodes = nodes
        self._mover: Mover | None = None
        self._absent: Broker | None = None
        """A leader that was killed and is not started yet."""
        self._passages: list[Passage] = []
        self.fed = 0
        self.kills: Counter[str] = Counter()
        self.restarts = 0
        self._child = child
        self._process: subprocess.Popen[bytes] | None = None
        self._stack = ExitStack()
        self.log_path = home / "pipeline.log"

    def __enter__(self) -> Self:
        try:
            self._start_brokers()
        except BaseException:
            self._stack.close()
            raise
        self.bootstrap = ",".join(f"127.0.0.1:{passage.port}" for passage in self._passages)
        self._create(INPUT, OUTPUT)
        if self._nodes > 1:
            self._mover = Mover(self.bootstrap, [INPUT, OUTPUT], self._nodes, seed=self._nodes)
            self._mover.start()
            self._stack.callback(self._mover.stop)
        self._producer = Producer(
            {"bootstrap.servers": self.bootstrap, **QUIET, "linger.ms": 5, "enable.idempotence": True}
        )
        self._stack.callback(self._end_pipeline)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start_brokers(self) -> None:
        flags: dict[str, Flag] = {}
        if self._nodes > 1:
            coordinator = CoordinatorServer(self.home / "coordinator", SESSION_MS)
            coordinator.start()
            self._stack.callback(coordinator.close)
            flags |= {"metadata": coordinator.url, "default_replication_factor": REPLICAS}
        for number in range(1, self._nodes + 1):
            passage = self._stack.enter_context(Passage())
            own: dict[str, Flag] = {"node_id": number, "advertised_port": passage.port}
            broker = Broker(self.home / f"broker-{number}", {**flags, **own})
            broker.start()
            self._stack.callback(broker.close)
            passage.upstream_port = broker.port
            self._passages.append(passage)
            self.brokers.append(broker)

    def _set_trap(self, trap: Trap | None) -> None:
        for passage in self._passages:
            passage.trap = trap

    # -- the course of things

    def run(self, kills: Sequence[Kill], tally: Tally) -> None:
        """One kill after the other, a line for each; the pipeline is started again whenever it is gone."""
        began_s = time.monotonic()
        for number, kill in enumerate(kills, 1):
            while self.kills.total() < number:
                trap = Trap(CLIENT_ID, kill.point, partial(self._kill, kill.victim))
                self._set_trap(trap)
                self.feed()
                self._until(trap.sprung.is_set, POINT_S_MAX, f"the point of {kill} did not come", tally)
                self._set_trap(None)
            self._await_failover(tally)
            print(f"{time.monotonic() - began_s:6.1f} s  {number:3} of {len(kills)}  {kill}", flush=True)

    def _await_failover(self, tally: Tally) -> None:
        """Without the leader that was killed: what was fed comes out. Then it returns, and all replicas are in sync."""
        if self._absent is None:
            return
        self.feed()
        target = self.fed
        self._until(lambda: sum(tally().values()) >= target, FINISH_S_MAX, "no other broker took over")
        self._absent.start()
        self._absent = None
        with raw_cluster(self.bootstrap) as cluster:
            self._until(partial(_are_in_sync, cluster), FINISH_S_MAX, "not all replicas are in sync again")

    def finish(self, tally: Tally) -> None:
        """Let the pipeline do the rest, then compare: every record that was fed has come out, once."""
        self.feed()
        self._producer.flush()
        self._until(lambda: sum(tally().values()) >= self.fed, FINISH_S_MAX, "not everything came out")
        self._end_pipeline()
        if self._mover is not None:
            self._mover.stop()
            assert self._mover.problems() == []
        found = tally()
        expected = {str(number) for number in range(self.fed)}
        lost, twice = expected - set(found), [one for one, count in found.items() if count > 1]
        assert not lost, f"{len(lost)} of {self.fed} records are lost: {sorted(lost)[:10]}"
        assert not twice, f"{len(twice)} of {self.fed} records came twice: {sorted(twice)[:10]}"
        assert set(found) == expected

    def feed(self) -> None:
        """The next records, numbered, over all partitions."""
        for number in range(self.fed, self.fed + CHUNK):
            self._producer.produce(INPUT, str(number), str(number), on_delivery=_must_arrive)
        self.fed += CHUNK

    def report(self) -> str:
        killed = ", ".join(f"{count} {victim}" for victim, count in sorted(self.kills.items()))
        moved = f", {self._mover.started} moves of partitions" if self._mover is not None else ""
        kills = sum(self.kills.values())
        return f"{self.fed} records, {kills} kills ({killed}), {self.restarts} starts{moved}"

    # -- victims

    def _kill(self, victim: str, caller_port: int) -> None:
        if victim == "leader":
            self._absent = self._leader()
            self._absent.kill()
            self.kills[victim] += 1
            return
        if victim == "broker":
            broker = self.brokers[self.kills[victim] % len(self.brokers)]
            broker.kill()
            broker.start()
            self.kills[victim] += 1
            return
        pids = self._drivers() if victim == "driver" else self._workers(caller_port)
        for pid in pids:
            kill_9(pid)
        self.kills[victim] += bool(pids)

    def _leader(self) -> Broker:
        """The leader of one partition after the other, of the topics and of the transactions."""
        with raw_cluster(self.bootstrap) as cluster:
            found = sorted(view(cluster).partitions.items())
        led = [one.leader for (topic, _), one in found if topic in (INPUT, OUTPUT, TRANSACTIONS)]
        return self.brokers[max(led[self.kills["leader"] * PARTITIONS % len(led)], 1) - 1]

    def _drivers(self) -> list[int]:
        process = self._process
        return [] if process is None else [process.pid, *below(process.pid, "org.apache.spark")]

    def _workers(self, caller_port: int) -> list[int]:
        """The one that called, or any if that was not a worker; none while the pipeline is just being started again."""
        workers = [] if self._process is None else below(self._process.pid, DAEMON)
        return [pid for pid in workers if caller_port in ports(pid)] or workers[-1:]

    # -- the pipeline

    def _until(
        self, is_so: Callable[[], bool], seconds_max: float, words: str, tally: Tally | None = None
    ) -> None:
        """Keep the pipeline alive until it is so; with a tally, also busy."""
        started = fed = time.monotonic()
        while not is_so():
            now = time.monotonic()
            assert now - started < seconds_max, f"{words}\n{self.report()}\n{self._tail()}"
            if self._process is None or self._process.poll() is not None:
                self._start_pipeline()
            if tally is not None and now - fed > FEED_S:
                if sum(tally().values()) >= self.fed:
                    self.feed()
                fed = now
            self._producer.poll(POLL_S)

    def _start_pipeline(self) -> None:
        self._end_pipeline()
        self.restarts += 1
        path = os.pathsep.join([str(Path(penstock.__file__).parents[1]), str(Path(__file__).parents[1])])
        environment = {
            **os.environ,
            "PYTHONPATH": path,
            "PYTHONUNBUFFERED": "1",
            "JAVA_TOOL_OPTIONS": QUICK_JAVA,
        }
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *self._child(self.bootstrap)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
            )

    def _end_pipeline(self) -> None:
        if self._process is None:
            return
        for pid in [*below(self._process.pid), self._process.pid]:
            kill_9(pid)
        self._process.wait()
        self._process = None

    def _tail(self) -> str:
        return self.log_path.read_text(errors="replace")[-4000:] if self.log_path.exists() else ""

    def _create(self, *names: str) -> None:
        topic = messages.CreateTopicsRequest.CreatableTopic
        wanted = [
            topic(
                name=name,
                num_partitions=PARTITIONS,
                replication_factor=min(REPLICAS, self._nodes),
                assignments=[],
                configs=[],
            )
            for name in names
        ]
        with Cluster(read_access({"bootstrap.servers": self.bootstrap})) as cluster:
            request = messages.CreateTopicsRequest(topics=wanted, timeout_ms=10_000)
            assert set(codes_in(cluster.ask(ApiKey.CREATE_TOPICS, request))) == {0}


class TopicTally:
    """The values of a topic that a reader of committed records sees, counted as they come."""

    def __init__(self, bootstrap: str, topic: str = OUTPUT, partitions: int = PARTITIONS) -> None:
        self._found: Counter[str] = Counter()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                **QUIET,
                "group.id": "tally",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        self._partitions = partitions
        self._at_end: set[int] = set()

    def __call__(self) -> Counter[str]:
        """Read on until every partition is at its end for now, and say what there is in all.

        An end is told once, when it is reached: until then silence says nothing but that the machine is busy.
        """
        while (message := self._consumer.poll(POLL_S)) is not None or len(self._at_end) < self._partitions:
            if message is None:
                continue
            if (error := message.error()) is None:
                self._at_end.discard(message.partition())
                self._found[(message.value() or b"").decode()] += 1
            elif error.code() == KafkaError._PARTITION_EOF:
                self._at_end.add(message.partition() or 0)
        return self._found

    def close(self) -> None:
        self._consumer.close()


def _are_in_sync(cluster: Cluster) -> bool:
    try:
        found = view(cluster).partitions
    except ClientError:  # the broker that was asked is not ready yet
        return False
    return all(len(one.isr) == len(one.replicas) for one in found.values())


def _must_arrive(error: KafkaError | None, _: object) -> None:
    assert error is None, error
