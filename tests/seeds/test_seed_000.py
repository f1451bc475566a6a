"""Seed 000, the configurable broker: its config.yaml, its three commands, its two example sessions, its goals.

The document's port and directory are replaced by ones that a test may use; nothing else is.
"""

from __future__ import annotations

import json
import signal
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from penstock import Producer
from penstock.client.errors import Refused
from seeds.commands import COMMAND, ROOT, WAIT_S_MAX, FromConfig, environment, free_port, run

CONFIG = """\
port: 1234
logDir: /var/log/broker
maxConnections: 1000
maxMessageSize: 1024
bufferSizes:
  - 1024
  - 2048
logLevel: info
"""


class Session(NamedTuple):
    """A broker as the document starts it."""

    broker: FromConfig
    port: int
    bootstrap: str
    log_dir: Path


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    port, log_dir = free_port(), tmp_path / "log"
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG.replace("1234", str(port)).replace("/var/log/broker", str(log_dir)))
    with FromConfig(config, {}) as broker:
        broker.start(port)
        yield Session(broker, port, f"127.0.0.1:{port}", log_dir)


def command(session: Session, *words: str) -> str:
    return run(*words, PENSTOCK_BOOTSTRAP=session.bootstrap)


def test_every_option_of_the_document_is_understood(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG + "topicAutoCreate: off\n")
    shown = json.loads(run("config", "explain", "--config", str(config), "-o", "json"))
    settings = {row["name"]: row["value"] for row in shown if row["source"] != "default"}
    document = {
        "port": 1234,
        "data_dir": "/var/log/broker",
        "connections_max": 1000,
        "message_bytes_max": 1024,
        "socket_receive_bytes": 1024,
        "socket_send_bytes": 2048,
        "log_level": "info",
        "auto_create_topics": False,
    }
    assert {name: settings.get(name) for name in document} == document


def test_broker_is_a_command() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["broker"] == scripts["penstock"]


def test_publish_here_and_subscribe_in_another_terminal(session: Session) -> None:
    command(session, "pub", "--topic", "orders", "--message", "hi")
    subscriber = subprocess.Popen(
        [*COMMAND, "sub", "--topic", "orders"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(PENSTOCK_BOOTSTRAP=session.bootstrap),
    )
    assert subscriber.stdout is not None
    assert subscriber.stdout.readline() == "hi\n"
    command(session, "pub", "--topic", "orders", "--message", "there")
    assert subscriber.stdout.readline() == "there\n"
    subscriber.send_signal(signal.SIGINT)
    subscriber.communicate(timeout=WAIT_S_MAX)
    assert subscriber.returncode == 0


def test_publish_then_kill_the_broker_process(session: Session) -> None:
    for message in ("hi", "there"):
        command(session, "pub", "--topic", "orders", "--message", message)
    session.broker.kill()
    session.broker.start(session.port)
    assert command(session, "sub", "--topic", "orders", "--until", "end") == "hi\nthere\n"
    assert any(session.log_dir.parent.rglob("0*.log"))


def test_standalone_consumers_read_from_the_offset_that_they_choose(session: Session) -> None:
    command(session, "topic", "create", "orders", "--partitions", "2")
    with Producer(bootstrap=session.bootstrap) as producer:
        for number in range(10):
            producer.send("orders", str(number), partition=1)
    place = ("sub", "--topic", "orders", "--partition", "1", "--until", "end")
    assert command(session, *place, "--from", "7") == "7\n8\n9\n"
    assert command(session, *place, "--from", "9") == "9\n"
    assert command(session, *place, "--from", "7") == "7\n8\n9\n"
    (described,) = json.loads(command(session, "topic", "describe", "orders", "-o", "json"))
    assert [part["end_offset"] for part in described["partitions"]] == [0, 10]


def test_consumer_groups_and_committed_offsets(session: Session) -> None:
    command(session, "pub", "--topic", "orders", "--message", "hi")
    reading = ("sub", "--topic", "orders", "--group", "billing", "--until", "end")
    assert command(session, *reading) == "hi\n"
    session.broker.kill()
    session.broker.start(session.port)
    command(session, "pub", "--topic", "orders", "--message", "there")
    assert command(session, *reading) == "there\n"


def test_messages_over_the_limit_are_refused(session: Session) -> None:
    with Producer(bootstrap=session.bootstrap) as producer:
        producer.send_and_wait("orders", b"x" * 512)
        with pytest.raises(Refused, match="too large"):
            producer.send_and_wait("orders", b"x" * 2_048)
