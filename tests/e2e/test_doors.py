"""The doors of one real broker together: shared limits, idle crowds, groups of both kinds of members, kill -9."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer

from penstock.testing import running_broker

SECONDS_MAX = 60
DOORS = ("port", "text_port", "json_port", "queue_port", "http_port")


@contextmanager
def connected(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), SECONDS_MAX) as line:
        yield line


def ask_text(line: socket.socket, request: bytes) -> bytes:
    """One request, one line back."""
    line.sendall(request)
    answer = b""
    while not answer.endswith(b"\n"):
        read = line.recv(1)
        assert read, "closed"
        answer += read
    return answer


def ask_json(line: socket.socket, command: str, **fields: Any) -> dict[str, Any]:
    body = json.dumps({"command": command, **fields}).encode()
    line.sendall(len(body).to_bytes(4, "big") + body)
    size = int.from_bytes(line.recv(4, socket.MSG_WAITALL), "big")
    answer: dict[str, Any] = json.loads(line.recv(size, socket.MSG_WAITALL))
    return answer


def wait_until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen"


def test_a_connection_counts_the_same_through_whichever_door_it_comes(tmp_path: Path) -> None:
    with running_broker(tmp_path, storage="memory", connections_max=3) as broker, ExitStack() as stack:
        text = stack.enter_context(connected(broker.text_port))
        both = stack.enter_context(connected(broker.json_port))
        stack.enter_context(connected(broker.port))
        assert ask_text(text, b"PUB orders 1\r\nx") == b"OK 0\r\n"
        assert ask_json(both, "CONSUME", topic="orders")["next_offset"] == 1
        wait_until(lambda: is_turned_away(broker.text_port))
        assert is_turned_away(broker.port) and is_turned_away(broker.json_port)
        assert ask_text(text, b"PUB orders 1\r\ny") == b"OK 1\r\n"
        assert "connections_max" in broker.output()


def is_turned_away(port: int) -> bool:
    """Whether one more connection is closed at once; it says nothing by itself."""
    with connected(port) as line:
        line.settimeout(0.2)
        try:
            return line.recv(1) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False


def test_a_thousand_idle_connections_over_all_doors_disturb_nobody(tmp_path: Path) -> None:
    with running_broker(tmp_path, storage="memory") as broker, ExitStack() as stack:
        ready = json.loads(broker.ready_path.read_text())
        ports = [ready[name] for name in DOORS if name in ready]
        for number in range(1_000):
            stack.enter_context(connected(ports[number % len(ports)]))
        text = stack.enter_context(connected(broker.text_port))
        for number in range(20):
            assert ask_text(text, b"PUB orders 1\r\nx") == b"OK %d\r\n" % number
        assert ask_json(stack.enter_context(connected(broker.json_port)), "LIST_TOPICS")["ok"]


def read_from(consumer: Consumer, partitions: set[int]) -> None:
    """Read until something came from each. Given a partition again before it ever read from it, librdkafka may follow
    its first question for an offset instead of the second."""
    read: set[int] = set()

    def read_one() -> bool:
        message = consumer.poll(0.1)
        read.update([] if message is None else [message.partition()])
        return read >= partitions

    wait_until(read_one)


def test_members_of_the_json_door_and_of_kafka_share_one_group(tmp_path: Path) -> None:
    """Each holds one partition; when one leaves, the other gets its part from where it was committed."""
    with (
        running_broker(tmp_path, storage="memory", consumer_group_heartbeat_ms=100) as broker,
        connected(broker.json_port) as line,
    ):
        assert ask_json(line, "CREATE_TOPIC", topic="lines", partitions=2)["ok"]
        consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": "both",
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        try:
            consumer.subscribe(["lines"])
            for partition in range(2):
                assert ask_json(line, "PRODUCE", topic="lines", partition=partition, message="first")["ok"]
            read_from(consumer, {0, 1})
            me = ask_json(line, "JOIN", group="both", topics=["lines"])
            assert me["ok"] and me["assignment"] == []

            def beat() -> bool:
                nonlocal me
                consumer.poll(0.05)
                names = ("group", "member", "epoch", "assignment")
                me = ask_json(line, "HEARTBEAT", **{name: me[name] for name in names})
                return len(me["assignment"]) == 1

            wait_until(beat)
            wait_until(lambda: consumer.poll(0.05) is None and len(consumer.assignment()) == 1)
            (mine,) = [one["partition"] for one in me["assignment"]]
            (theirs,) = [one.partition for one in consumer.assignment()]
            assert {mine, theirs} == {0, 1}
            offsets = [{"topic": "lines", "partition": mine, "offset": 2}]
            for number in (1, 2):
                word = f"message {number}"
                assert (
                    ask_json(line, "PRODUCE", topic="lines", partition=mine, message=word)["offset"] == number
                )
            by = {"group": "both", "member": me["member"]}
            assert ask_json(line, "COMMIT", epoch=me["epoch"], offsets=offsets, **by) == {"ok": True}
            assert ask_json(line, "LEAVE", **by) == {"ok": True}
            found: list[Any] = []
            wait_until(lambda: found.append(consumer.poll(0.1)) or found[-1] is not None)
            assert (found[-1].partition(), found[-1].offset(), found[-1].value()) == (mine, 2, b"message 2")
        finally:
            consumer.close()


def test_what_one_door_stores_the_others_read(tmp_path: Path) -> None:
    with running_broker(tmp_path, storage="memory") as broker, ExitStack() as stack:
        text = stack.enter_context(connected(broker.text_port))
        line = stack.enter_context(connected(broker.json_port))
        assert ask_text(text, b"PUB mixed 4 key=k header.a=1 time=5\r\ntext") == b"OK 0 partition=0\r\n"
        assert ask_json(line, "PRODUCE", topic="mixed", message="json", key="k", headers={"a": "1"}, time=6)[
            "ok"
        ]
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("mixed", b"kafka", b"k", timestamp=7, headers=[("a", b"1")])
        assert producer.flush(SECONDS_MAX) == 0
        expected = [
            {
                "offset": at,
                "time": 5 + at,
                "key": "k",
                "message": word,
                "headers": [{"name": "a", "value": "1"}],
            }
            for at, word in enumerate(("text", "json", "kafka"))
        ]
        assert ask_json(line, "CONSUME", topic="mixed")["messages"] == expected
        head = ask_text(text, b"FETCH mixed 2 form=full\r\n")
        assert head == b"MSG 2 5 partition=0 time=7 key=k header.a=1\r\n"


def test_what_the_text_door_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        acknowledged = 0
        with connected(broker.text_port) as line:
            line.sendall(b"".join(b"PUB orders 4\r\n%04d" % number for number in range(3_000)))
            while acknowledged < 1_000:
                acknowledged += line.recv(1 << 16).count(b"\n")
            broker.kill()
            line.settimeout(SECONDS_MAX)
            try:
                while read := line.recv(1 << 16):
                    acknowledged += read.count(b"\n")
            except ConnectionError:
                assert acknowledged >= 1_000
        broker.start()
        assert acknowledged >= 1_000
        with connected(broker.json_port) as line:
            answer = ask_json(line, "CONSUME", topic="orders", max=10_000)
        stored = [message["message"] for message in answer["messages"]]
        assert stored == [f"{number:04d}" for number in range(len(stored))] and len(stored) >= acknowledged
