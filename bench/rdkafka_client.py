"""One librdkafka client in its own process, configured for throughput. The rows measure the broker.

`python -m bench.rdkafka_client produce|consume BOOTSTRAP TOPIC RECORDS PARTITIONS SETTINGS` prints one JSON object at
the end. SETTINGS is a JSON object of settings of librdkafka, and of the size of a value.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from penstock.apps.bench.harness.frames import VALUE_BYTES
from penstock.apps.bench.harness.machine import on_cpu

QUEUE_RECORDS = 100_000
POLL_RECORDS = 10_000
IDLE_S_MAX = 30.0
VALUES = 64
PRODUCER = {"linger.ms": 5, "acks": "all", "queue.buffering.max.messages": QUEUE_RECORDS}
CONSUMER = {"enable.auto.commit": False, "group.id": "bench", "auto.offset.reset": "error"}
VALUE_SIZE = "value.bytes"
"""The size of a value, among the settings."""
Setting = str | int | bool
Settings = dict[str, Setting]


@dataclass(frozen=True, slots=True)
class Done:
    """The result of one client."""

    records: int
    value_bytes: int
    seconds: float
    cpu_s: float
    """Of the client."""


class ClientFailed(Exception):
    """The client lost records or timed out."""


def produce(bootstrap: str, topic: str, count: int, partitions: int, settings: Settings) -> Done:
    """To the partitions in turn."""
    size = int(settings.pop(VALUE_SIZE, VALUE_BYTES))
    producer = Producer({"bootstrap.servers": bootstrap, **PRODUCER, **settings})
    chance = random.Random(1)
    values = [chance.randbytes(size) for _ in range(VALUES)]
    failures: list[str] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(str(error))

    start_s = time.perf_counter()
    for at in range(count):
        while True:
            try:
                producer.produce(topic, values[at % VALUES], partition=at % partitions, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.01)
        if at % 500 == 0:
            producer.poll(0)
    left = producer.flush(IDLE_S_MAX)
    if left or failures:
        raise ClientFailed(f"{left} records were not acknowledged, {len(failures)} failed: {failures[:1]}")
    return Done(count, count * size, time.perf_counter() - start_s, time.process_time())


def consume(bootstrap: str, topic: str, count: int, partitions: int, settings: Settings) -> Done:
    """From the start of all partitions."""
    consumer = Consumer({"bootstrap.servers": bootstrap, **CONSUMER, **settings})
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    seen = value_bytes = 0
    start_s = last_s = time.perf_counter()
    while seen < count:
        for message in consumer.consume(POLL_RECORDS, 0.2):
            if message.error() is not None:
                raise ClientFailed(str(message.error()))
            value_bytes += len(message.value() or b"")
            seen += 1
            last_s = time.perf_counter()
        if time.perf_counter() - last_s > IDLE_S_MAX:
            raise ClientFailed(f"only {seen} of {count} records arrived")
    done = Done(seen, value_bytes, time.perf_counter() - start_s, time.process_time())
    consumer.close()
    return done


def run_client(
    cpu: int,
    verb: str,
    bootstrap: str,
    topic: str,
    count: int,
    partitions: int = 1,
    settings: Mapping[str, Setting] = MappingProxyType({}),
) -> Done:
    """Run one client process on that CPU and wait for its result. Raises ClientFailed."""
    command = [sys.executable, "-m", "bench.rdkafka_client", verb, bootstrap, topic, str(count)]
    command += [str(partitions), json.dumps(dict(settings))]
    with on_cpu(cpu):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    out, _ = process.communicate()
    if process.returncode:
        raise ClientFailed(f"{verb} ended with code {process.returncode}")
    return Done(**json.loads(out))


if __name__ == "__main__":
    work = {"produce": produce, "consume": consume}[sys.argv[1]]
    words = sys.argv
    print(json.dumps(asdict(work(words[2], words[3], int(words[4]), int(words[5]), json.loads(words[6])))))
