"""Scenario four: one log, five protocols. Each protocol writes a message, and each one reads all of them."""

from __future__ import annotations

import json
import queue
import socket
import urllib.request
from collections.abc import Callable
from typing import NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

from demo.stage import Stage
from penstock import BrokerClient
from penstock.testing import Broker, running_broker

TOPIC = "letters"
SECONDS_MAX = 20.0


class Door(NamedTuple):
    """One protocol: `put` returns the offset, `read` returns the first `count` letters."""

    name: str
    put: Callable[[Broker, str], int]
    read: Callable[[Broker, int], list[str]]


def play(stage: Stage) -> bool:
    stage.act("One log, five protocols", "A message written over any protocol can be read over all of them.")
    with running_broker() as broker:
        put_in = []
        rows = []
        for door in DOORS:
            put_in.append(f"a letter over {door.name}")
            rows.append((door.name, str(door.put(broker, put_in[-1])), put_in[-1]))
        stage.table("protocol", "offset", "letter", rows=rows)
        held = True
        for door in DOORS:
            found = door.read(broker, len(put_in))
            held &= stage.check(
                found == put_in, f"{door.name} reads {len(found)} of {len(put_in)} letters, in order"
            )
        return held


# -- text: as typed into telnet


def put_text(broker: Broker, letter: str) -> int:
    with socket.create_connection((broker.host, broker.text_port), SECONDS_MAX) as line:
        line.sendall(f"PUB {TOPIC} {len(letter)}\r\n{letter}".encode())
        return int(line.makefile().readline().split()[1])


def read_text(broker: Broker, count: int) -> list[str]:
    with socket.create_connection((broker.host, broker.text_port), SECONDS_MAX) as line:
        answers = line.makefile()
        letters = []
        for offset in range(count):
            line.sendall(f"FETCH {TOPIC} {offset}\r\n".encode())
            answers.readline()
            letters.append(answers.readline().rstrip())
        return letters


# -- JSON: four bytes of length, then an object


def ask_json(broker: Broker, **request: object) -> dict[str, object]:
    with socket.create_connection((broker.host, broker.json_port), SECONDS_MAX) as line:
        body = json.dumps(request).encode()
        line.sendall(len(body).to_bytes(4, "big") + body)
        size = int.from_bytes(line.recv(4, socket.MSG_WAITALL), "big")
        answer: dict[str, object] = json.loads(line.recv(size, socket.MSG_WAITALL))
        return answer


def put_json(broker: Broker, letter: str) -> int:
    return int(str(ask_json(broker, command="PRODUCE", topic=TOPIC, message=letter)["offset"]))


def read_json(broker: Broker, count: int) -> list[str]:
    messages = ask_json(broker, command="CONSUME", topic=TOPIC, max=count)["messages"]
    assert isinstance(messages, list)
    return [one["message"] for one in messages]


# -- queue: a subscription, each message acknowledged


def put_queue(broker: Broker, letter: str) -> int:
    with BrokerClient(broker.host, broker.queue_port) as client:
        return client.publish_text(TOPIC, letter)


def read_queue(broker: Broker, count: int) -> list[str]:
    came: queue.SimpleQueue[str] = queue.SimpleQueue()
    with BrokerClient(broker.host, broker.queue_port) as client:
        client.create_subscription("postman", TOPIC)
        client.subscribe_to_subscription("postman", handler=lambda message: came.put(message.text))
        return [came.get(timeout=SECONDS_MAX) for _ in range(count)]


# -- HTTP


def ask_http(broker: Broker, path: str, body: object = None) -> dict[str, object]:
    request = urllib.request.Request(
        f"http://{broker.host}:{broker.http_port}/api/v1{path}",
        None if body is None else json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=SECONDS_MAX) as response:
        answer: dict[str, object] = json.load(response)
        return answer


def put_http(broker: Broker, letter: str) -> int:
    return int(str(ask_http(broker, "/messages", {"topic": TOPIC, "value": letter})["offset"]))


def read_http(broker: Broker, count: int) -> list[str]:
    messages = ask_http(broker, f"/topics/{TOPIC}/partitions/0/messages?offset=0&max={count}")["messages"]
    assert isinstance(messages, list)
    return [one["value"] for one in messages]


# -- Kafka


def put_kafka(broker: Broker, letter: str) -> int:
    offsets: list[int] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 2})
    producer.produce(TOPIC, letter, on_delivery=lambda _, message: offsets.append(message.offset()))
    producer.flush(SECONDS_MAX)
    return offsets[0]


def read_kafka(broker: Broker, count: int) -> list[str]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "reader", "log_level": 2})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    letters = [(one.value() or b"").decode() for one in consumer.consume(count, SECONDS_MAX)]
    consumer.close()
    return letters


DOORS = (
    Door("text", put_text, read_text),
    Door("JSON", put_json, read_json),
    Door("queue", put_queue, read_queue),
    Door("HTTP", put_http, read_http),
    Door("Kafka", put_kafka, read_kafka),
)
