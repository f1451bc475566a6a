"""The command line against a running broker, as a person uses it: processes, stdin, stdout, exit codes, signals."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from penstock.testing import Broker, running_broker

SOURCE_DIR = Path(__file__).resolve().parents[2] / "src"
COMMAND = [sys.executable, "-m", "penstock"]
SECONDS_MAX = 60


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker(no_auto_create_topics=True) as running:
        yield running


def environment(bootstrap: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SOURCE_DIR), "PENSTOCK_BOOTSTRAP": bootstrap}


def run(broker: Broker, *arguments: str, stdin: bytes = b"", code: int = 0) -> str:
    """Run one command to its end; returns what it wrote. The exit code must be the one expected."""
    ran = subprocess.run(
        [*COMMAND, *arguments],
        input=stdin,
        capture_output=True,
        env=environment(broker.bootstrap),
        timeout=SECONDS_MAX,
    )
    output = ran.stdout.decode() + ran.stderr.decode()
    assert ran.returncode == code, output
    assert "Traceback" not in output
    return output if code else ran.stdout.decode()


def records(broker: Broker, *arguments: str) -> list[dict[str, Any]]:
    lines = run(broker, "sub", "--json", *arguments).splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture
def topic(broker: Broker) -> str:
    name = f"cli-{uuid4().hex[:8]}"
    run(broker, "topic", "create", name, "--partitions", "3")
    return name


def test_one_record_there_and_back(broker: Broker, topic: str) -> None:
    told = json.loads(
        run(
            broker,
            *("pub", "--topic", topic, "--message", "hi", "--key", "alice", "-o", "json"),
            *("--header", "a=1", "--header", "a=2"),
        )
    )
    (read,) = records(broker, "--topic", topic, "--until", "end")
    assert {key: read[key] for key in ("topic", "partition", "offset")} == told
    assert (read["key"], read["value"]) == ("alice", "hi")
    assert read["headers"] == [{"name": "a", "value": "1"}, {"name": "a", "value": "2"}]
    assert told["offset"] == 0


def test_sentence_for_people(broker: Broker, topic: str) -> None:
    assert run(broker, "pub", "--topic", topic, "--message", "x", "--partition", "2") == (
        f"{topic}  partition 2  offset 0\n"
    )
    unknown = run(broker, "pub", "--topic", topic, "--message", "x", "--acks", "0")
    assert "offset unknown" in unknown


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_lines_of_stdin(broker: Broker, topic: str, compression: str) -> None:
    lines = b"".join(b"key-%d:value %d\n" % (number % 7, number) for number in range(2_000))
    arguments = ("pub", "--topic", topic, "--key-separator", ":", "-o", "json", "--compression", compression)
    summary = json.loads(run(broker, *arguments, stdin=lines))
    assert (summary["records"], summary["failed"]) == (2_000, 0)
    read = records(broker, "--topic", topic, "--until", "end")
    assert sorted(f"{r['key']}:{r['value']}\n".encode() for r in read) == sorted(
        lines.splitlines(keepends=True)
    )
    spans = {int(number): span for number, span in summary["offsets"].items()}
    assert sum(high - low + 1 for low, high in spans.values()) == 2_000


def test_where_reading_starts_and_ends(broker: Broker, topic: str) -> None:
    lines = b"".join(b"%d\n" % number for number in range(20))
    run(broker, "pub", "--topic", topic, "--partition", "1", stdin=lines)
    place = ("--topic", topic, "--partition", "1")
    assert [r["offset"] for r in records(broker, *place, "--from", "15", "--until", "end")] == list(
        range(15, 20)
    )
    assert [r["offset"] for r in records(broker, *place, "--count", "3")] == [0, 1, 2]
    assert len(records(broker, "--topic", topic, "--from", "@-1h", "--until", "end")) == 20
    assert records(broker, "--topic", topic, "--from", "latest", "--until", "end") == []
    first_ms = records(broker, *place, "--count", "1")[0]["timestamp_ms"]
    assert records(broker, *place, "--from", f"@{first_ms}", "--count", "1")[0]["offset"] == 0
    assert "has no offset 21" in run(broker, "sub", *place, "--from", "21", code=5)


def test_format(broker: Broker, topic: str) -> None:
    run(broker, "pub", "--topic", topic, "--partition", "0", "--key", "k", "--message", "v")
    line = run(broker, "sub", "--topic", topic, "--until", "end", "--format", r"%t %p %o %k %v{hex} %s\n")
    assert line == f"{topic} 0 0 k 76 1\n"


def test_latest_sees_what_comes(broker: Broker, topic: str) -> None:
    """Nobody is told when a reader has taken its place, so records are written until it has seen one."""
    reader = subprocess.Popen(
        [*COMMAND, "sub", "--topic", topic, "--from", "latest", "--count", "1"],
        stdout=subprocess.PIPE,
        env=environment(broker.bootstrap),
    )
    for _ in range(SECONDS_MAX):
        run(broker, "pub", "--topic", topic, "--partition", "0", "--message", "new")
        if reader.poll() is not None:
            break
    output, _ = reader.communicate(timeout=SECONDS_MAX)
    assert (reader.returncode, output) == (0, b"new\n")


def test_interrupt_is_a_clean_end(broker: Broker, topic: str) -> None:
    run(broker, "pub", "--topic", topic, "--message", "first")
    reader = subprocess.Popen(
        [*COMMAND, "sub", "--topic", topic],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(broker.bootstrap),
    )
    assert reader.stdout is not None
    assert reader.stdout.readline() == b"first\n"
    reader.send_signal(signal.SIGINT)
    _, errors = reader.communicate(timeout=SECONDS_MAX)
    assert (reader.returncode, errors) == (0, b"")


def test_a_reader_that_leaves_is_a_clean_end(broker: Broker, topic: str) -> None:
    run(broker, "pub", "--topic", topic, "--partition", "0", stdin=b"x\n" * 50_000)
    reader = subprocess.Popen(
        [*COMMAND, "sub", "--topic", topic, "--until", "end", "--format", r"%t %v\n"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(broker.bootstrap),
    )
    assert reader.stdout is not None and reader.stderr is not None
    reader.stdout.readline()
    reader.stdout.close()
    errors = reader.stderr.read()
    assert (reader.wait(SECONDS_MAX), errors) == (0, b"")


def test_life_of_a_topic(broker: Broker) -> None:
    name = f"cli-{uuid4().hex[:8]}"
    run(broker, "topic", "create", name, "--partitions", "2", "--config", "retention.ms=7d")
    assert "TOPIC_ALREADY_EXISTS" in run(broker, "topic", "create", name, code=5)
    run(broker, "topic", "create", name, "--if-not-exists")
    listed = json.loads(run(broker, "topic", "list", "-o", "json"))
    assert {"topic": name, "partitions": 2, "replicas": 1, "records": 0, "bytes": 0} in listed
    assert name in run(broker, "topic", "list")

    (shown,) = json.loads(run(broker, "topic", "describe", name, "-o", "json"))
    assert [part["partition"] for part in shown["partitions"]] == [0, 1]
    assert {config["name"]: config["value"] for config in shown["configs"]} == {"retention.ms": "604800000"}

    run(broker, "topic", "alter", name, "--config", "segment.bytes=1m", "--delete-config", "retention.ms")
    run(broker, "topic", "add-partitions", name, "--total", "4")
    (shown,) = json.loads(run(broker, "topic", "describe", name, "-o", "json"))
    assert len(shown["partitions"]) == 4
    assert {config["name"]: config["value"] for config in shown["configs"]} == {"segment.bytes": "1048576"}
    assert [(one["in_sync"], one["elr"]) for one in shown["partitions"]] == [
        (one["replicas"], []) for one in shown["partitions"]
    ]
    assert "in sync" in run(broker, "topic", "describe", name)

    run(broker, "topic", "add-partitions", name, "--total", "2", code=5)
    run(broker, "topic", "alter", name, "--config", "cleanup.policy=never", code=5)
    run(broker, "topic", "alter", name, "--config", "no.such.setting=1", code=5)
    run(broker, "topic", "delete", name)
    run(broker, "topic", "delete", name, code=4)


def test_names_that_are_refused(broker: Broker) -> None:
    for name in ("no spaces", "..", "a/b", "x" * 250):
        run(broker, "topic", "create", name, code=5)


def test_not_found(broker: Broker, topic: str) -> None:
    absent = f"absent-{uuid4().hex[:8]}"
    for arguments in (
        ("sub", "--topic", absent),
        ("pub", "--topic", absent, "--message", "x"),
        ("topic", "describe", absent),
        ("topic", "alter", absent, "--config", "retention.ms=1d"),
        ("sub", "--topic", topic, "--partition", "9"),
        ("pub", "--topic", topic, "--partition", "9", "--message", "x"),
    ):
        run(broker, *arguments, code=4)
    assert absent not in run(broker, "topic", "list", "-o", "json")


def start(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "start", *arguments],
        capture_output=True,
        text=True,
        env=environment(""),
        timeout=SECONDS_MAX,
        check=False,
    )


def test_a_taken_port_is_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = str(holder.getsockname()[1])
        ran = start("--port", port, "--data-dir", str(tmp_path / "data"))
    assert ran.returncode == 1
    assert ran.stderr.startswith("Error: ") and port in ran.stderr and "Traceback" not in ran.stderr


def test_a_locked_directory_is_one_sentence(broker: Broker) -> None:
    ran = start("--port", "0", "--data-dir", str(broker.data_dir))
    assert ran.returncode == 1
    assert ran.stderr.startswith("Error: ") and str(broker.data_dir) in ran.stderr
    assert "Traceback" not in ran.stderr


def test_ready_as_json_and_gone_after_stop(tmp_path: Path) -> None:
    with running_broker(tmp_path, log_format="json") as running:
        lines = [json.loads(line) for line in running.output().splitlines()]
        (ready,) = [line for line in lines if line["message"] == "ready"]
        assert (ready["port"], ready["pid"], ready["durability"]) == (running.port, running.pid, "fsync")
        assert running.ready_path.exists()
        assert running.stop() == 0
        assert not running.ready_path.exists()


def test_banner(broker: Broker) -> None:
    output = broker.output()
    for part in ("is ready", broker.bootstrap, str(broker.data_dir), "fsync", f"pid {broker.pid}"):
        assert part in output


def lines(text: str) -> list[int]:
    return sorted(int(line) for line in text.split())


def test_a_group_goes_on_where_it_stopped_and_can_be_moved(broker: Broker, topic: str) -> None:
    group = f"group-{topic}"
    reading = ("sub", "--topic", topic, "--group", group, "--until", "end")
    run(broker, "pub", "--topic", topic, stdin=b"1\n2\n3\n")
    assert lines(run(broker, *reading)) == [1, 2, 3]
    run(broker, "pub", "--topic", topic, stdin=b"4\n5\n")
    behind = json.loads(run(broker, "group", "lag", group, "-o", "json"))
    assert sum(row["lag"] for row in behind) == 2
    assert all((row["seconds"] > 0) == (row["lag"] > 0) for row in behind)
    assert lines(run(broker, *reading)) == [4, 5]
    planned = json.loads(run(broker, "group", "seek", group, "--to", "earliest", "--dry-run", "-o", "json"))
    assert [move["done"] for move in planned] == [False] * 3
    assert lines(run(broker, *reading)) == []
    run(broker, "group", "seek", group, "--to", "earliest")
    assert lines(run(broker, *reading)) == [1, 2, 3, 4, 5]
    assert group in run(broker, "group", "list")
    assert json.loads(run(broker, "group", "describe", group, "-o", "json"))["state"] == "empty"
    run(broker, "group", "delete", group)
    assert "There is no group" in run(broker, "group", "describe", group, code=4)


def test_what_a_group_cannot_be_asked(broker: Broker, topic: str) -> None:
    run(broker, "sub", "--topic", topic, "--group", "g", "--partition", "0", code=2)
    run(broker, "sub", "--topic", topic, "--group", "g", "--from", "@-1h", code=2)
    assert "has no committed offsets" in run(broker, "group", "seek", "nobody", "--to", "latest", code=4)
    run(broker, "group", "seek", "nobody", "--to", "yesterday", code=2)
