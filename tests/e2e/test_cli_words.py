"""One family of words against one broker: arguments, patterns, fields, formats, overviews, completion, stop."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from conditions import until
from output_schema import Schema
from penstock.apps.cli.main import cli
from penstock.apps.cli.output_schemas import SCHEMAS
from penstock.testing import Broker, running_broker
from pty_terminal import on_terminal

ORDERS = (
    '{"user": {"name": "alice"}, "items": [{"id": 1}, {"id": 2}]}\n{"user": {"name": "bob"}}\nplain text\n'
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(tmp_path_factory.mktemp("broker")) as running:
        given = pytest.MonkeyPatch()
        given.setenv("PENSTOCK_BOOTSTRAP", running.bootstrap)
        given.setenv("PENSTOCK_QUEUE", f"{running.host}:{running.queue_port}")
        given.chdir(tmp_path_factory.mktemp("elsewhere"))
        run("topic", "create", "orders", "--partitions", "2")
        run("pub", "orders", "--partition", "1", stdin=ORDERS)
        run("sub", "orders", "--group", "billing", "--count", "1")
        yield running
        given.undo()


def run(*words: str, code: int = 0, stdin: str = "") -> str:
    result = CliRunner().invoke(cli, list(words), input=stdin)
    assert result.exit_code == code, (words, result.output, result.exception)
    return result.stdout if code == 0 else result.stderr


def content(path: str, *words: str, stdin: str = "") -> Any:
    """What a command prints as JSON, which has its schema, and as YAML is the same in kind."""
    text = run(*path.split(), *words, "-o", "json", stdin=stdin)
    schema = Schema(SCHEMAS[path][0])
    found = [json.loads(line) for line in text.splitlines()] if schema.is_lines else [json.loads(text)]
    assert [problem for one in found if (problem := schema.problem(one))] == []
    return found if schema.is_lines else found[0]


def test_positional_words_and_aliases(broker: Broker) -> None:
    assert content("pub", "hello", "a message", "--key", "k") == {
        "topic": "hello",
        "partition": 0,
        "offset": 0,
    }
    assert "offset 1" in run("produce", "--topic", "hello", "again")
    assert "offset 2" in run("pub", "hello", "--message", "and again")
    assert run("sub", "hello", "--until", "end") == run("consume", "--topic", "hello", "--until", "end")
    assert content("pub", "hello", stdin="x\ny\n")["offsets"] == {"0": [3, 4]}


def test_patterns(broker: Broker) -> None:
    for name in ("fruit-apple", "fruit-pear", "fruits"):
        run("pub", name, name)
    both = {"fruit-apple", "fruit-pear"}
    assert set(run("sub", "fruit-*", "--until", "end").split()) == both
    assert set(run("sub", "fruit-*", "fruits", "--count", "3", "--group", "eaters").split()) == {
        *both,
        "fruits",
    }
    assert "No topic matches 'nothing-*'" in run("sub", "nothing-*", code=4)
    assert "Did you mean orders?" in run("sub", "ordrs", code=4)


def test_where_to_start(broker: Broker) -> None:
    run("pub", "numbers", stdin="".join(f"{number}\n" for number in range(10)))
    assert run("sub", "numbers", "--last", "3", "--until", "end").split() == ["7", "8", "9"]
    assert run("sub", "numbers", "--last", "30", "--count", "2").split() == ["0", "1"]
    assert run("sub", "numbers", "--offset", "8", "--until", "end").split() == ["8", "9"]
    assert run("sub", "numbers", "--offset", "-1", "--until", "end").split() == ["9"]
    assert "has no offset 99" in run("sub", "numbers", "--offset", "99", code=5)


def test_fields_and_filters(broker: Broker) -> None:
    end = ("--until", "end")
    assert run("sub", "orders", *end, "--jq", ".items[].id").split() == ["1", "2"]
    assert [one["value"] for one in content("sub", "orders", *end, "--jq", ".user.name")] == ["alice", "bob"]
    assert run("sub", "orders", *end, "--grep", "^plain") == "plain text\n"
    assert '  "user": {\n' in run("sub", "orders", *end, "--grep", "bob", "--pretty")
    documents = list(yaml.safe_load_all(run("-o", "yaml", "sub", "orders", *end)))
    assert documents == content("sub", "orders", *end)


def test_avro_there_and_back(broker: Broker, tmp_path: Path) -> None:
    schema = tmp_path / "point.avsc"
    schema.write_text('{"type": "record", "name": "P", "fields": [{"name": "x", "type": "int"}]}')
    run("pub", "points", '{"x": 5}', "--avro", str(schema))
    (read,) = content("sub", "points", "--until", "end", "--avro", str(schema))
    assert read["value"] == {"x": 5}
    assert "does not fit the Avro schema" in run("pub", "points", '{"x": "a"}', "--avro", str(schema), code=2)


@pytest.mark.parametrize(
    "command",
    [
        *("status", "topic list", "topic describe orders", "group list", "group describe billing"),
        *("group lag", "group lag billing", "cluster status", "cluster brokers", "cluster topics"),
        *("cluster ring", "cluster gossip", "cluster controller", "txn list", "config explain port"),
        *(
            "topic create extra",
            "topic alter extra --config retention.ms=1d",
            "topic add-partitions extra --total 2",
        ),
        *("topic delete extra --yes", "top --count 1 --interval 0.1", "group seek billing --to 0 --dry-run"),
        *("create-topic parcels", "create-subscription workers parcels", "publish parcels one"),
        *("subscription list", "subscription describe workers", "subscription redrive workers"),
        *("join-subscription workers --count 1", "subscription delete workers"),
        *("subscribe parcels --offset -2 --count 1", "sql select_1"),
    ],
)
def test_output_has_its_schema(broker: Broker, command: str) -> None:
    words = command.replace("select_1", "select|1").split()
    path = " ".join(words[:2]) if " ".join(words[:2]) in SCHEMAS else words[0]
    rest = [word.replace("|", " ") for word in words[len(path.split()) :]]
    assert content(path, *rest) is not None


def test_lists_count_records_and_bytes(broker: Broker) -> None:
    run("topic", "create", "counted", "--partitions", "2")
    run("pub", "counted", stdin="a\nb\nc\n")
    (row,) = (one for one in content("topic list") if one["topic"] == "counted")
    assert (row["partitions"], row["records"]) == (2, 3) and row["bytes"] > 0
    found = content("status")
    assert found["records"] >= 3 and found["groups"] >= 1 and found["problems"] == []
    assert "1 active" in run("status") and "counted" in run("topic", "list")


def test_trim(broker: Broker) -> None:
    run("pub", "trimmed", stdin="a\nb\nc\n")
    (planned,) = content("topic trim", "trimmed", "--before", "2", "--dry-run")
    assert (planned["records"], planned["done"]) == (2, False)
    assert "2 records were deleted" in run("topic", "trim", "trimmed", "--before", "2", "--yes")
    assert run("sub", "trimmed", "--until", "end") == "c\n"
    assert "no partition 7" in run("topic", "trim", "trimmed", "--before", "0", "--partition", "7", code=4)
    assert "no topic nowhere" in run("topic", "trim", "nowhere", "--before", "0", code=4)


def test_lag_of_all_groups_and_a_seek_of_one_partition(broker: Broker) -> None:
    run("topic", "create", "sought", "--partitions", "2")
    run("pub", "sought", "--partition", "0", stdin="a\nb\n")
    run("pub", "sought", "--partition", "1", stdin="a\nb\n")
    run("sub", "sought", "--group", "seekers", "--count", "4")
    (found,) = (one for one in content("group lag") if one["group"] == "seekers")
    assert (found["topics"], found["partitions"], found["lag"]) == (["sought"], 2, 0)
    (moved,) = content("group seek", "seekers", "--to", "0", "--topic", "sought", "--partition", "1")
    assert (moved["partition"], moved["before"], moved["after"]) == (1, 2, 0)
    assert {row["partition"]: row["lag"] for row in content("group lag", "seekers")} == {0: 0, 1: 2}
    assert {one["group"] for one in content("group lag", "seekers", "billing")} == {"seekers", "billing"}
    assert "no group nobody" in run("group", "lag", "nobody", "billing", code=4)


def test_the_wrong_port_is_recognised(broker: Broker) -> None:
    http = f"{broker.host}:{broker.http_port}"
    told = run("--bootstrap", http, "topic", "list", code=3)
    assert f"{http} is Penstock's HTTP door; Kafka is on {broker.bootstrap}" in told
    assert "this is the Kafka door" in run("health", "--http", broker.bootstrap, code=3)
    assert content("health", "--http", http)["status"] == "ready"


def test_names_are_completed(broker: Broker) -> None:
    completion = ShellComplete(cli, {}, "penstock", "_PENSTOCK_COMPLETE")

    def complete(line: str, word: str) -> list[str]:
        return [one.value for one in completion.get_completions(line.split(), word)]

    assert "orders" in complete("sub", "ord") and "__consumer_offsets" in complete("topic describe", "__c")
    assert complete("group lag", "bill") == ["billing"]
    assert complete("topic alter orders --config", "retention.m") == ["retention.ms="]
    assert complete("config explain", "data_d") == ["data_dir"]
    assert complete("sub --bootstrap 127.0.0.1:1", "ord") == []


def test_logs_by_the_name_of_their_topic(broker: Broker) -> None:
    data = ("--data-dir", str(broker.data_dir))
    batches = content("log dump", "orders:1", "--records", *data)
    assert {(one["topic"], one["partition"]) for one in batches} == {("orders", 1)}
    assert batches[0]["records"][2]["value"] == "plain text"
    assert run("log", "verify", "orders", *data) == "1 log checked, no damage found\n", (
        "an empty partition has no file"
    )
    assert "Did you mean orders?" in run("log", "dump", "order", *data, code=4)
    assert "no partition 9 of orders" in run("log", "dump", "orders:9", *data, code=4)


def test_the_doctor_finds_a_running_broker(broker: Broker) -> None:
    found = {one["check"]: one for one in content("doctor", "--data-dir", str(broker.data_dir))}
    for check in ("settings", "data directory", "process", "broker", "advertised", "partitions"):
        assert found[check]["status"] == "ok", found[check]
    assert broker.bootstrap in found["broker"]["found"]


def test_live_views_are_drawn_in_place(broker: Broker, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "penstock"]
    with on_terminal([*command, "group", "lag", "--watch"], tmp_path) as terminal:
        terminal.expect("billing")
        terminal.type("\x03")
        until(lambda: terminal.process.poll() is not None, "the command does not end")
        assert terminal.process.returncode == 0
    with on_terminal([*command, "top", "--interval", "0.2"], tmp_path) as terminal:
        terminal.expect("records/s", "topics", "billing")
        terminal.type("\x03")
        until(lambda: terminal.process.poll() is not None, "the command does not end")
        assert terminal.process.returncode == 0


def test_stop(tmp_path: Path) -> None:
    data, ready = tmp_path / "data", tmp_path / "ready.json"
    ports = [f"--{name}=0" for name in ("port", "text-port", "json-port", "queue-port", "http-port")]
    command = [sys.executable, "-m", "penstock", "start", "--data-dir", str(data), "--ready-file", str(ready)]
    with subprocess.Popen(
        [*command, *ports], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        until(ready.exists, "the broker is not ready")
        assert content("stop", "--data-dir", str(data)) == {"pid": process.pid, "stopped": True}
        assert process.wait() == 0
    assert run("stop", "--data-dir", str(data)) == f"Nothing is running in {data}.\n"
    assert "There is no data directory" in run("stop", "--data-dir", str(tmp_path / "no"), code=2)
