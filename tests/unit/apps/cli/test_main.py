"""The command line without a broker: exit codes, sentences, laziness."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from penstock.apps.cli.main import cli
from penstock.apps.cli.topic import read_configs
from penstock.node.settings import DEFINITIONS


def run(*arguments: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(cli, list(arguments), env=env)


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that is taken but answers nobody: bound, not listening."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def test_help_names_commands_and_exit_codes() -> None:
    result = run("--help")
    assert result.exit_code == 0
    for word in (
        "start",
        "pub",
        "sub",
        "topic",
        "config",
        "completion",
        "Exit codes:",
        "3  no broker answers",
    ):
        assert word in result.output


@pytest.mark.parametrize(
    "arguments",
    [
        ["pub", "--topic", "t", "--message", "x"],
        ["sub", "--topic", "t"],
        ["topic", "list"],
        ["topic", "create", "t"],
    ],
)
def test_nobody_answers(arguments: list[str], silent_port: int) -> None:
    result = run(*arguments, "--bootstrap", f"127.0.0.1:{silent_port}")
    assert result.exit_code == 3
    assert f"No broker answers at 127.0.0.1:{silent_port}: connection refused." in result.output
    assert "penstock start" in result.output and "Traceback" not in result.output


def test_bootstrap_from_the_environment(silent_port: int) -> None:
    result = run("topic", "list", env={"PENSTOCK_BOOTSTRAP": f"127.0.0.1:{silent_port}"})
    assert result.exit_code == 3 and str(silent_port) in result.output


def test_wrong_settings_stop_the_start_before_anything_is_opened(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    result = run("start", "--data-dir", str(data_dir), "--port", "x", "--durability", "never")
    assert result.exit_code == 2
    assert "flag: --port: found 'x'" in result.output and "flag: --durability: found 'never'" in result.output
    assert not data_dir.exists()


def test_wrong_file_stops_the_start(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("prt: 1\n")
    for arguments in (["start", "--config", str(file)], ["config", "explain", "--config", str(file)]):
        result = run(*arguments)
        assert result.exit_code == 2
        assert f"{file}: prt: unknown setting; did you mean 'port'?" in result.output


def test_unknown_words() -> None:
    assert run("strat").exit_code == 2
    result = run("start", "--prt", "1")
    assert result.exit_code == 2 and "--port" in result.output


def test_explain(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("logDir: /data\n")
    result = run("config", "explain", "--config", str(file), "-o", "json", env={"PENSTOCK_PORT": "1"})
    rows = {row["name"]: row for row in json.loads(result.output)}
    assert set(rows) == {definition.name for definition in DEFINITIONS}
    assert (rows["data_dir"]["value"], rows["data_dir"]["source"]) == ("/data", f"file {file}: logDir")
    assert (rows["port"]["value"], rows["port"]["source"]) == (1, "environment PENSTOCK_PORT")
    assert (rows["segment_bytes"]["value"], rows["segment_bytes"]["unit"]) == (2**30, "bytes")
    assert (rows["segment_bytes"]["scope"], rows["port"]["scope"]) == ("topic default", "node")
    table = run("config", "explain")
    assert table.exit_code == 0
    assert all(definition.name in table.output for definition in DEFINITIONS)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    result = run("completion", shell)
    assert result.exit_code == 0 and "_PENSTOCK_COMPLETE" in result.output


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["sub", "--topic", "t", "--from", "begin"], "is not a valid start position"),
        (["sub", "--topic", "t", "--format", "%q"], "unknown token"),
        (["sub", "--topic", "t", "--format", "%v", "--json"], "mutually exclusive"),
        (["sub", "--topic", "t", "--count", "0"], "--count"),
        (["topic", "alter", "t"], "Nothing to change"),
        (["topic", "alter", "t", "--config", "a=1", "--delete-config", "a"], "both set and deleted"),
        (["topic", "create", "t", "--config", "a"], "not of the form name=value"),
        (["topic", "create", "t", "--config", "a=1", "--config", "a=2"], "set twice"),
        (["topic", "create", "t", "--config", "retention.ms=soon"], "retention.ms"),
        (["topic", "create"], "NAME"),
    ],
)
def test_wrong_usage(arguments: list[str], part: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert part in result.output


def test_topic_settings_with_units() -> None:
    pairs = ("retention.ms=7d", "segment.bytes=64m", "retention.bytes=-1", "cleanup.policy=compact,delete")
    assert read_configs(pairs) == {
        "retention.ms": "604800000",
        "segment.bytes": "67108864",
        "retention.bytes": "-1",
        "cleanup.policy": "compact,delete",
    }


def test_a_start_does_not_pay_for_what_it_does_not_use() -> None:
    program = (
        "import sys, penstock.apps.cli.main, penstock.apps.cli.start, penstock.apps.cli.banner, penstock.node.logs;"
        "print(sorted({'rich', 'confluent_kafka', 'yaml', 'structlog', 'pydantic'} & set(sys.modules)))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    )
    assert ran.stdout.strip() == "[]"
