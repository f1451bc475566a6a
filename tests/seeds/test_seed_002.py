"""Seed 002, the broker on plain TCP: config.json, PUB and FETCH as its document writes them, messages kept on disk."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import pytest

from conditions import until
from penstock.testing import Broker, running_broker
from seeds.commands import COMMAND, WAIT_S_MAX, FromConfig, environment, free_port
from several_brokers import NODES

ORDER = b'{"order_id":101}'


class Line(NamedTuple):
    """One connection, as a person at `nc` has it."""

    reader: BinaryIO
    writer: socket.socket

    def send(self, data: bytes) -> None:
        self.writer.sendall(data)

    def line(self) -> bytes:
        return self.reader.readline()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with running_broker(tmp_path) as running:
        yield running


def connect(port: int) -> Line:
    writer = socket.create_connection(("127.0.0.1", port), WAIT_S_MAX)
    return Line(writer.makefile("rb"), writer)


def publish(line: Line, topic: str, payload: bytes) -> int:
    line.send(b"PUB %s %d\r\n%s" % (topic.encode(), len(payload), payload))
    word, offset = line.line().split()
    assert word == b"OK"
    return int(offset)


def fetch(line: Line, topic: str, offset: int) -> bytes:
    line.send(b"FETCH %s %d\r\n" % (topic.encode(), offset))
    word, own, size = line.line().split()
    assert (word, int(own)) == (b"MSG", offset)
    payload = line.reader.read(int(size))
    assert line.reader.read(2) == b"\r\n"
    return payload


def test_the_example_of_the_document(broker: Broker) -> None:
    """The document writes 15 for a payload of 16 bytes; here the size is the size."""
    line = connect(broker.text_port)
    for expected in range(50):
        assert publish(line, "orders", b"before") == expected
    line.send(b'PUB orders 16\r\n{"order_id":101}')
    assert line.line() == b"OK 50\r\n"
    line.send(b"FETCH orders 50\r\n")
    assert line.line() == b"MSG 50 16\r\n"
    assert line.line() == b'{"order_id":101}\r\n'


def test_if_the_worker_is_down_messages_wait_on_disk(broker: Broker) -> None:
    """The order service says its word and is done; the email worker comes when it is ready, even after a crash."""
    orders = connect(broker.text_port)
    assert publish(orders, "orders", ORDER) == 0
    assert publish(orders, "logs", b"ordered") == 0
    broker.kill()
    broker.start()
    email, analytics = connect(broker.text_port), connect(broker.text_port)
    assert fetch(email, "orders", 0) == fetch(analytics, "orders", 0) == ORDER
    assert fetch(analytics, "logs", 0) == b"ordered"
    assert publish(connect(broker.text_port), "orders", b"next") == 1
    assert fetch(email, "orders", 1) == b"next"


CONFIG = {"server": {"host": "127.0.0.1", "port": 4222}, "storage": {"data_dir": "./data"}}


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("start",), id="found", marks=pytest.mark.skipif(NODES > 1, reason="a single broker's")),
        pytest.param(("start", "--config", "config.json"), id="given"),
    ],
)
def test_config_json(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Server host and port, and where to store: `config.json` in the directory that the broker starts in. The port is
    that of PUB and FETCH; Kafka's own port is moved by the environment, out of the way of other tests."""
    port = free_port()
    config = tmp_path / "config.json"
    config.write_text(json.dumps(CONFIG).replace("4222", str(port)))
    with FromConfig(config, {"PENSTOCK_TEXT_PORT": None, "PENSTOCK_PORT": "0"}, words) as started:
        started.start(port)
        assert publish(connect(port), "orders", ORDER) == 0
        started.kill()
        started.start(port)
        assert fetch(connect(port), "orders", 0) == ORDER
        until(lambda: "server.port sets text_port" in started.log.read_text(), "the banner is missing")
    assert list((tmp_path / "data").rglob("0*.log"))
    assert "config      config.json" in started.log.read_text()


def test_a_foreign_config_json_is_left_alone(tmp_path: Path) -> None:
    """Other programs have a `config.json` too: the broker says that it did not read it."""
    config = tmp_path / "config.json"
    config.write_text('{"name": "shop", "server": {"port": 1}}')
    shown = subprocess.run(
        [*COMMAND, "config", "explain", "-o", "json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=environment(),
        timeout=WAIT_S_MAX,
    )
    assert shown.returncode == 0 and "config.json in the working directory was not read" in shown.stderr
    assert {row["value"] for row in json.loads(shown.stdout) if row["name"] == "port"} == {9092}
