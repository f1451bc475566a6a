"""What a new user meets first: wrong ports, several topics, a broker that goes away, signals, names in place of ids."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock import BrokerClient, Consumer, Producer
from penstock.testing import Broker, running_broker

COMMAND = [sys.executable, "-m", "penstock"]
SECONDS_MAX = 60


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker(storage="memory") as running:
        yield running


def environment(broker: Broker) -> dict[str, str]:
    return {
        **os.environ,
        "PENSTOCK_BOOTSTRAP": broker.bootstrap,
        "PENSTOCK_QUEUE": f"{broker.host}:{broker.queue_port}",
    }


def run(broker: Broker, *words: str, code: int = 0, stdin: str = "") -> str:
    ran = subprocess.run(
        [*COMMAND, *words],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        env=environment(broker),
        input=stdin,
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr
    return ran.stdout if code == 0 else ran.stderr


def start(broker: Broker, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(broker)
    )


def write(broker: Broker, topic: str, *values: str) -> None:
    with Producer(bootstrap=broker.bootstrap) as producer:
        for value in values:
            producer.send(topic, value)


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


@pytest.mark.parametrize("group", [(), ("--group", "several")], ids=["plain", "group"])
def test_sub_reads_several_topics(broker: Broker, group: tuple[str, ...]) -> None:
    write(broker, "apples", "a1", "a2")
    write(broker, "pears", "p1")
    words = ("sub", "--topic", "apples", "--topic", "pears", "--topic", "apples", "--until", "end", *group)
    lines = run(broker, *words, "--format", "%t %v\\n").splitlines()
    assert {"apples a1", "apples a2", "pears p1"} == set(lines) and len(lines) % 3 == 0
    assert "no topic plums" in run(broker, *words, "--topic", "plums", code=4)


def test_pub_refuses_a_second_topic(broker: Broker) -> None:
    told = run(broker, "pub", "--topic", "one", "--topic", "two", "--message", "x", code=2)
    assert "--topic" in told and "once" in told


@pytest.mark.parametrize(
    ("door", "name"),
    [("http", "HTTP door"), ("text", "text door"), ("json", "JSON door"), ("queue", "queue door")],
)
def test_another_door_is_named(broker: Broker, door: str, name: str) -> None:
    address = f"{broker.host}:{getattr(broker, f'{door}_port')}"
    for words in (("topic", "list"), ("sub", "--topic", "x"), ("pub", "--topic", "x", "--message", "y")):
        told = run(broker, *words, "--bootstrap", address, code=3)
        assert name in told and address in told and "--bootstrap" in told


def test_too_large_names_the_limit(broker: Broker) -> None:
    run(broker, "topic", "create", "small", "--config", "max.message.bytes=1000")
    told = run(broker, "pub", "--topic", "small", "--message", "x" * 2_000, code=5)
    assert "max.message.bytes, which is 1000" in told and "penstock topic alter small" in told


def test_counts_are_in_good_english(broker: Broker) -> None:
    assert run(broker, "pub", "--topic", "words", stdin="one\n").startswith("1 record, ")
    assert run(broker, "pub", "--topic", "words", stdin="two\nthree\n").startswith("2 records, ")
    run(broker, "create-subscription", "counting", "words")
    assert run(broker, "subscription", "redrive", "counting").startswith("0 dead letters ")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_temporary_subscription_ends_with_its_command(broker: Broker, number: signal.Signals) -> None:
    write(broker, "passing", "hello")
    reader = start(broker, "subscribe", "passing")
    assert reader.stdout is not None and reader.stdout.readline() == "hello\n"
    reader.send_signal(number)
    assert reader.wait(SECONDS_MAX) == 0
    assert "passing" not in run(broker, "subscription", "list")


def test_a_member_that_is_terminated_has_committed_and_left(broker: Broker) -> None:
    write(broker, "leaving", "hello")
    reader = start(broker, "sub", "--topic", "leaving", "--group", "leavers")
    assert reader.stdout is not None and reader.stdout.readline() == "hello\n"
    reader.send_signal(signal.SIGTERM)
    assert reader.wait(SECONDS_MAX) == 0
    with Consumer("leaving", group="leavers", bootstrap=broker.bootstrap, until_end=True) as consumer:
        assert list(consumer) == []


def test_sub_says_once_that_the_broker_is_gone_and_that_it_is_back(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        write(broker, "news", "one")
        reader = start(broker, "sub", "--topic", "news")
        assert reader.stdout is not None and reader.stderr is not None
        assert reader.stdout.readline() == "one\n"
        broker.kill()
        assert reader.stderr.readline() == f"No broker answers at {broker.bootstrap}; retrying.\n"
        broker.start()
        assert reader.stderr.readline() == f"The broker at {broker.bootstrap} answers again.\n"
        write(broker, "news", "two")
        assert reader.stdout.readline() == "two\n"
        reader.send_signal(signal.SIGINT)
        assert reader.wait(SECONDS_MAX) == 0 and reader.stderr.read() == ""


def test_log_files_are_called_by_the_names_of_their_topics(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        write(broker, "harvest", "one")
        broker.stop()
        dumped = run(broker, "log", "dump", str(broker.data_dir))
        assert "harvest partition 0  /" in dumped
        lines = [
            json.loads(line)
            for line in run(broker, "log", "dump", str(broker.data_dir), "-o", "json").splitlines()
        ]
        assert ("harvest", 0) in {(line.get("topic"), line.get("partition")) for line in lines}
        (log,) = [Path(line["path"]) for line in lines if line.get("topic") == "harvest"]
        log.write_bytes(log.read_bytes()[:-1] + b"?")
        told = subprocess.run(
            [*COMMAND, "log", "verify", str(log.parent)], capture_output=True, text=True, timeout=SECONDS_MAX
        )
        assert told.returncode == 1 and "harvest partition 0" in told.stdout
        assert told.stdout.endswith("1 log checked, damage found in 2 places\n")
        broker.start()


def test_watching_the_lag_redraws_in_place(broker: Broker) -> None:
    write(broker, "watched", "one", "two")
    run(broker, "sub", "--topic", "watched", "--group", "watchers", "--count", "1")
    screen, terminal = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "group", "lag", "watchers", "--watch"],
        stdout=terminal,
        stderr=terminal,
        env={**environment(broker), "TERM": "xterm", "COLUMNS": "100", "LINES": "40"},
    )
    os.close(terminal)
    shown = b""
    while shown.count(b"watchers: 1 record behind") < 2:
        shown += os.read(screen, 65_536)
    process.send_signal(signal.SIGINT)
    while True:
        try:
            shown += os.read(screen, 65_536)
        except OSError:
            break
    assert process.wait(SECONDS_MAX) == 0
    between = shown.split(b"watchers: 1 record behind")[1]
    assert b"\x1b[1A" in between, "the cursor goes back up before the second picture"
    os.close(screen)


def test_a_terminal_subscription_is_not_left_behind_by_a_closed_pipe(broker: Broker) -> None:
    write(broker, "piped", "0")
    piped = subprocess.Popen(
        ["bash", "-c", f"{' '.join(COMMAND)} subscribe piped | head -1"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(broker),
    )

    def has_ended() -> bool:
        """A closed pipe is noticed with the next message."""
        write(broker, "piped", "more")
        return piped.poll() is not None

    wait_until(has_ended)
    assert piped.stdout is not None
    assert piped.stdout.read() == "0\n"
    with BrokerClient(broker.host, broker.queue_port, "looker") as client:
        wait_until(lambda: all(one["topic"] != "piped" for one in client.list_subscriptions()))
