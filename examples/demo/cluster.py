"""Scenario five: three brokers replicate a topic; a leader is killed while records are written, and none is lost.

Runs `penstock cluster up`, as a user would, and kills a broker behind its back: the command restarts it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic, PartitionMetadata

from demo import durability
from demo.durability import Acked
from demo.stage import SECONDS_MAX, Stage, wait_for

TOPIC = "readings"
PARTITIONS = 6
BROKERS = 3
BURST = 6
PAUSE_S = 0.005


class Cluster:
    """`penstock cluster up` in a process of its own."""

    def __init__(self, home: Path) -> None:
        self._root = home / "cluster"
        self._log = home / "cluster.log"
        ready_file = home / "ready.json"
        words = f"cluster up --brokers {BROKERS} --any-port --no-console --no-services --die-with-parent"
        files = [f"--data-dir={self._root}", f"--ready-file={ready_file}"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "penstock", *words.split(), *files], stdout=log, stderr=log
            )
        came = wait_for(lambda: ready_file.exists() or self._process.poll() is not None)
        assert came and ready_file.exists(), f"the cluster did not start\n{self._log.read_text()}"
        ready = json.loads(ready_file.read_text())
        self.bootstrap: str = ready["bootstrap"]
        self._doors: dict[int, dict[str, Any]] = {one["node_id"]: one for one in ready["brokers"]}
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 2})

    def create_topic(self) -> None:
        for future in self._admin.create_topics([NewTopic(TOPIC, PARTITIONS, BROKERS)]).values():
            future.result(SECONDS_MAX)

    def leaders(self) -> dict[int, int]:
        """The broker that leads each partition; -1 if none does."""
        found = self._partitions()
        return {partition: found[partition].leader for partition in sorted(found)}

    def are_in_sync(self) -> bool:
        """Whether every partition has all its replicas."""
        return all(len(one.isrs) == BROKERS for one in self._partitions().values())

    def _partitions(self) -> dict[int, PartitionMetadata]:
        return self._admin.list_topics(TOPIC, SECONDS_MAX).topics[TOPIC].partitions

    def publish(self, broker_id: int, partition: int, acked: Acked) -> str:
        """Publish over the text protocol of one broker; returns its answer."""
        at, text = self._doors[broker_id], f"by text through broker {broker_id}"
        with socket.create_connection((at["host"], at["text_port"]), SECONDS_MAX) as line:
            line.sendall(f"PUB {TOPIC} {len(text)} partition={partition}\r\n{text}".encode())
            answer = line.makefile().readline().strip()
        if answer.startswith("OK "):
            acked[partition, int(answer.split()[1])] = text.encode()
        return answer

    def pid(self, broker_id: int) -> int:
        """The process of a broker that accepts clients; 0 while it does not."""
        try:
            pid = int(json.loads((self._root / "run" / f"broker-{broker_id}.json").read_text())["pid"])
            os.kill(pid, 0)
        except (FileNotFoundError, ProcessLookupError):
            return 0
        return pid

    def end(self, broker_id: int, number: signal.Signals) -> None:
        """Send a signal; returns when the process is gone."""
        pid = self.pid(broker_id)
        assert pid, f"broker {broker_id} is not running"
        os.kill(pid, number)
        wait_for(lambda: self.pid(broker_id) != pid)

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        self._process.terminate()
        return self._process.wait(SECONDS_MAX)

    def close(self) -> None:
        if self._process.poll() is None:
            self.stop()


class Writer:
    """Writes numbered readings to all partitions in turn until it is stopped, and records what is acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self.acked: Acked = {}
        self._acked_s: dict[int, float] = {}
        self._pauses_s: dict[int, float] = {}
        self._stopping = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "linger.ms": 2,
                "enable.idempotence": True,
                "reconnect.backoff.max.ms": 200,  # the default of 10 s is longer than a restart takes
                "log_level": 2,
            }
        )
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def _write(self) -> None:
        number = 0
        while not self._stopping.is_set():
            for _ in range(BURST):
                self._producer.produce(
                    TOPIC, str(number).encode(), partition=number % PARTITIONS, on_delivery=self._delivered
                )
                number += 1
            self._producer.poll(PAUSE_S)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            return
        partition, now_s = message.partition() or 0, time.monotonic()
        self.acked[partition, message.offset() or 0] = message.value() or b""
        pause_s = now_s - self._acked_s.get(partition, now_s)
        self._pauses_s[partition] = max(pause_s, self._pauses_s.get(partition, 0.0))
        self._acked_s[partition] = now_s

    def longest_pause_ms(self, partitions: list[int]) -> float:
        """The longest time between two acknowledgements of one of these partitions since the last call."""
        pauses_s, self._pauses_s = self._pauses_s, {}
        return 1000 * max(pauses_s[one] for one in partitions)

    def await_more(self) -> bool:
        """Wait until each partition has acknowledged something new."""
        before = self._newest()
        return wait_for(lambda: all(now > then for now, then in zip(self._newest(), before, strict=True)))

    def _newest(self) -> list[int]:
        acked = list(self.acked)
        return [max((offset for at, offset in acked if at == one), default=-1) for one in range(PARTITIONS)]

    def stop(self) -> int:
        """Returns how many records were given up."""
        self._stopping.set()
        self._thread.join()
        return self._producer.flush(SECONDS_MAX)


def play(stage: Stage) -> bool:
    stage.act(
        "Three brokers, the leader killed",
        "A cluster on one machine. Every partition has three replicas.",
    )
    with running() as cluster:
        cluster.create_topic()
        leaders = cluster.leaders()
        held = stage.check(
            len(set(leaders.values())) == BROKERS,
            f"{PARTITIONS} partitions × {BROKERS} replicas, led by {shares(leaders)}",
        )
        writer = Writer(cluster.bootstrap)
        letters: Acked = {}
        try:
            held &= stage.check(writer.await_more(), "confluent-kafka writes to all of them, with acks=all")
            held &= publish_elsewhere(stage, cluster, leaders, letters)
            held &= fail_over(stage, cluster, writer, leaders)
            held &= restart(stage, cluster, writer)
        finally:
            given_up = writer.stop()
        held &= read_all(stage, cluster, writer.acked | letters, given_up)
        return held & stage.check(cluster.stop() == 0, "clean shutdown of all processes on SIGTERM")


@contextmanager
def running() -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory(prefix="penstock-cluster-") as home:
        cluster = Cluster(Path(home))
        try:
            yield cluster
        finally:
            cluster.close()


def publish_elsewhere(stage: Stage, cluster: Cluster, leaders: dict[int, int], letters: Acked) -> bool:
    """Publish through a broker that does not lead the partition."""
    partition, leader = next(iter(leaders.items()))
    other = leader % BROKERS + 1
    answer = cluster.publish(other, partition, letters)
    return stage.check(
        answer.startswith("OK "),
        f"the text door of broker {other} writes to partition {partition} of broker {leader}: {answer}",
    )


def fail_over(stage: Stage, cluster: Cluster, writer: Writer, leaders: dict[int, int]) -> bool:
    """Kill a leader while it is written to."""
    victim = leaders[0]
    led = [one for one, leader in leaders.items() if leader == victim]
    writer.longest_pause_ms(led)
    cluster.end(victim, signal.SIGKILL)
    stage.say(f"broker {victim}, the leader of partitions {led}, is killed with SIGKILL")
    held = stage.check(writer.await_more(), "writes go on, and every partition acknowledges records again")
    pause_ms = writer.longest_pause_ms(led)
    stage.say(f"pause of the partitions that it led: {pause_ms:,.0f} ms between two acknowledgements")
    held &= stage.check(
        wait_for(cluster.are_in_sync), f"broker {victim} is back, and all replicas are in sync again"
    )
    return held & stage.check(
        wait_for(lambda: cluster.leaders() == leaders), f"broker {victim} leads its partitions again"
    )


def restart(stage: Stage, cluster: Cluster, writer: Writer) -> bool:
    """Restart every broker, one after the other, as for an upgrade."""
    everything = list(range(PARTITIONS))
    writer.longest_pause_ms(everything)
    held = True
    for broker_id in range(1, BROKERS + 1):
        cluster.end(broker_id, signal.SIGTERM)
        held &= writer.await_more()
        held &= wait_for(lambda at=broker_id: cluster.pid(at) > 0) and wait_for(cluster.are_in_sync)
    pause_ms = writer.longest_pause_ms(everything)
    return stage.check(held, f"rolling restart of all brokers under load: longest pause {pause_ms:,.0f} ms")


def read_all(stage: Stage, cluster: Cluster, acked: Acked, given_up: int) -> bool:
    """Compare what another client reads with what was acknowledged."""
    read = asyncio.run(durability.read_back(cluster.bootstrap, TOPIC, PARTITIONS))
    lost = [where for where, value in acked.items() if read.get(where) != value]
    held = stage.check(
        not lost and not given_up,
        f"aiokafka reads all {len(acked):,} acknowledged records: {len(lost)} lost or changed",
    )
    return held & stage.check(
        durability.are_dense(read, PARTITIONS) and in_order(read),
        "in the order they were written, none twice",
    )


def in_order(read: Acked) -> bool:
    """Whether the numbers in each partition rise by the same step."""
    for partition in range(PARTITIONS):
        numbers = [
            int(read[where]) for where in sorted(read) if where[0] == partition and read[where].isdigit()
        ]
        if numbers != list(range(partition, partition + PARTITIONS * len(numbers), PARTITIONS)):
            return False
    return True


def shares(leaders: dict[int, int]) -> str:
    return ", ".join(
        f"broker {broker_id} {[one for one, leader in leaders.items() if leader == broker_id]}"
        for broker_id in sorted(set(leaders.values()))
    )
