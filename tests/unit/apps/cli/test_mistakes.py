"""The likeliest mistakes of every command: each ends with its exit code and a message that says what to do."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.apps.cli.main import cli
from unit.apps.cli.command_leaves import LEAVES

Mistake = tuple[str, int, str]

NOBODY = "--bootstrap 127.0.0.1:{closed}"
NO_BROKER: Mistake = (NOBODY, 3, "Start one with `penstock start`")
NO_QUEUE = "--queue 127.0.0.1:{closed}"
BAD_OUTPUT: Mistake = ("-o xml", 2, "'table', 'json', 'yaml'")
BAD_ADDRESS: Mistake = ("--bootstrap nowhere", 2, "not of the form HOST:PORT")
BAD_API: Mistake = ("--api nowhere", 2, "not of the form HOST:PORT")
NO_API: Mistake = ("--api 127.0.0.1:{closed} --data-dir {tmp}", 3, "Start one with `penstock cluster up`")
BAD_PORT: Mistake = ("--port 70000", 2, "65535")


def with_words(words: str, *mistakes: Mistake) -> list[Mistake]:
    return [(f"{words} {more}", code, part) for more, code, part in mistakes]


def at_broker(words: str = "") -> list[Mistake]:
    """No broker, a wrong address, a wrong format: for commands without a more likely mistake."""
    return with_words(words, NO_BROKER, BAD_ADDRESS, BAD_OUTPUT)


def at_queue(words: str) -> list[Mistake]:
    return with_words(words, (NO_QUEUE, 3, "queue port"), ("--queue nowhere", 2, "HOST:PORT"), BAD_OUTPUT)


def at_coordinator(words: str) -> list[Mistake]:
    return with_words(words, NO_API, BAD_API, BAD_OUTPUT)


MISTAKES: dict[str, list[Mistake]] = {
    "start": [
        ("--prt 1", 2, "--port"),
        ("--durability never", 2, "found 'never'"),
        ("--config {tmp}/missing.yaml", 2, "missing.yaml"),
    ],
    "stop": [
        ("--data-dir {tmp}/missing", 2, "There is no data directory"),
        ("--data-dir {tmp} --ready-file {tmp}/other.json", 2, "mutually exclusive"),
        ("--ready-file {tmp}/other.json", 2, "not a ready file"),
    ],
    "status": at_broker(),
    "top": [NO_BROKER, ("--interval 0", 2, "0.1"), ("--count 0", 2, "--count")],
    "doctor": [
        ("--no-broker --config {tmp}/missing.yaml", 1, "failed"),
        ("--no-broker --data-dir {tmp}/other.json/below", 1, "not a directory"),
        ("-o xml", 2, "'table', 'json', 'yaml'"),
    ],
    "health": [
        ("--http 127.0.0.1:{closed}", 3, "no broker answers over HTTP"),
        ("--http 127.0.0.1:x", 2, "--http"),
        ("--timeout 0", 2, "0.1"),
    ],
    "config explain": [
        ("prt", 2, "Did you mean 'port'?"),
        ("--config {tmp}/missing.yaml", 2, "missing.yaml"),
        BAD_OUTPUT,
    ],
    "cluster status": at_broker(),
    "cluster brokers": at_broker(),
    "cluster topics": [NO_BROKER, BAD_ADDRESS, ("--offlin", 2, "--offline")],
    "cluster ring": at_broker(),
    "cluster gossip": [NO_BROKER, ("--broker one", 2, "not a valid integer"), BAD_OUTPUT],
    "cluster controller": at_broker(),
    "cluster rebalance": [NO_BROKER, ("--dry-run --yes", 2, "cannot be combined"), BAD_ADDRESS],
    "cluster drain": [
        ("", 2, "Missing argument 'BROKER'"),
        ("broker-1", 2, "not a valid integer"),
        ("1 --undo --wait", 2, "cannot be combined"),
    ],
    "cluster decommission": [
        ("", 2, "Missing argument 'BROKER'"),
        ("broker-1", 2, "not a valid integer"),
        ("1 " + NOBODY, 3, "No broker answers"),
    ],
    "cluster moves": [NO_BROKER, BAD_ADDRESS, ("--cancell", 2, "--cancel")],
    "cluster elect": [
        ("", 2, "Name topics or partitions, or use --all"),
        ("orders --all", 2, "Name topics or partitions, or use --all"),
        ("--all " + NOBODY, 3, "No broker answers"),
    ],
    "cluster reassign": [
        ("orders --dry-run --yes", 2, "cannot be combined"),
        ("--file {tmp}/missing.json", 2, "does not exist"),
        ("orders --factor 0", 2, "--factor"),
    ],
    "cluster scrub": at_broker(),
    "cluster up": [
        ("--any-port --base-port 9092", 2, "exclude each other"),
        ("--brokers 0", 2, "--brokers"),
        ("--api-port x", 2, "not a valid integer"),
    ],
    "coordinator": [
        ("--any-port --base-port 9092", 2, "exclude each other"),
        ("--brokers none", 2, "not a valid integer"),
        ("--console-port x", 2, "not a valid integer"),
    ],
    "cluster down": [
        ("--data-dir {tmp}", 1, "is not the directory of a local cluster"),
        ("--config {tmp}/missing.yaml", 2, "missing.yaml"),
        BAD_OUTPUT,
    ],
    "cluster console": [NO_API, BAD_API, ("--token-file", 2, "requires an argument")],
    "cluster services": at_coordinator(""),
    "cluster broker": at_coordinator("list"),
    "cluster producer": at_coordinator("restart"),
    "cluster consumer": at_coordinator("restart"),
    "cluster metadata": at_coordinator("restart"),
    "cluster kill": at_coordinator("broker-1"),
    "cluster restart": at_coordinator("all"),
    "cluster leaders": at_coordinator(""),
    "cluster lag": at_coordinator(""),
    "cluster logs": at_coordinator("broker-1"),
    "pub": [
        ("", 2, "Missing argument 'TOPIC'"),
        ("orders two words", 2, "needs quotes"),
        ("orders x " + NOBODY, 3, "No broker answers"),
    ],
    "sub": [
        ("", 2, "Missing argument 'TOPIC'"),
        ("orders --from yesterday", 2, "not a valid start position"),
        ("orders --last 5 --offset 3", 2, "mutually exclusive"),
        ("orders --jq user.name", 2, "is not a path; allowed"),
        ("orders --grep [", 2, "not a regular expression"),
        ("orders --group g --partition 0", 2, "mutually exclusive"),
        ("orders --avro {tmp}/missing.avsc", 2, "does not exist"),
        ("orders --json -o yaml", 2, "mutually exclusive"),
    ],
    "sql": [
        ("", 2, "Missing argument 'QUERY'"),
        ("selct", 5, "The query cannot be run"),
        ("select --values csv", 2, "'auto', 'bytes', 'text', 'json'"),
    ],
    "topic create": [
        ("", 2, "NAME"),
        ("t --config retention.ms=soon", 2, "retention.ms"),
        ("t --partitions 0", 2, "--partitions"),
    ],
    "topic list": at_broker(),
    "topic describe": [("", 2, "NAME"), *with_words("t", NO_BROKER, BAD_OUTPUT)],
    "topic trim": [
        ("", 2, "Missing argument 'NAME'"),
        ("t", 2, "Missing option '--before'"),
        ("t --before yesterday", 2, "not a valid start position"),
    ],
    "topic alter": [
        ("t", 2, "Nothing to change"),
        ("t --config a", 2, "not of the form name=value"),
        ("t --config a=1 --delete-config a", 2, "both set and deleted"),
    ],
    "topic delete": [("", 2, "NAME"), *with_words("t --yes", NO_BROKER, BAD_ADDRESS)],
    "topic add-partitions": [
        ("t", 2, "Missing option '--total'"),
        ("t --total 0", 2, "--total"),
        ("t --total 2 " + NOBODY, 3, "No broker answers"),
    ],
    "group list": at_broker(),
    "group describe": [("", 2, "GROUP"), *with_words("g", NO_BROKER, BAD_OUTPUT)],
    "group lag": [NO_BROKER, ("g " + NOBODY, 3, "No broker answers"), ("--wach", 2, "--watch")],
    "group seek": [
        ("g", 2, "Missing option '--to'"),
        ("g --to yesterday", 2, "not a valid start position"),
        ("g --to 0 --partition 1", 2, "--partition needs exactly one --topic"),
    ],
    "group delete": [("", 2, "GROUP"), *with_words("g", NO_BROKER, BAD_ADDRESS)],
    "txn list": [NO_BROKER, ("--longer-than soon", 2, "not a number with a unit"), BAD_OUTPUT],
    "txn describe": [("", 2, "ID"), *with_words("id", NO_BROKER, BAD_OUTPUT)],
    "txn abort": [
        ("", 2, "Set either a transactional ID, or --topic and --partition"),
        ("--topic t", 2, "Set either a transactional ID, or --topic and --partition"),
        ("id " + NOBODY, 3, "No broker answers"),
    ],
    "log verify": [
        ("orders --data-dir {tmp}/missing", 4, "Name it with --data-dir"),
        ("./missing", 4, "There is no directory ./missing"),
        ("--data-dir {tmp}", 2, "No log found"),
    ],
    "log dump": [
        ("orders --data-dir {tmp}", 4, "There is no topic orders"),
        ("./missing", 4, "There is no directory ./missing"),
        ("{tmp} --from -1", 2, "--from"),
    ],
    "create-topic": at_queue("t"),
    "create-subscription": [
        ("s", 2, "Missing argument 'TOPIC'"),
        ("s t --hold-ms 0", 2, "--hold-ms"),
        ("s t " + NO_QUEUE, 3, "queue port"),
    ],
    "publish": [
        ("t", 2, "Missing argument 'TEXT'"),
        ("t x --property odd", 2, "not of the form name=value"),
        ("t x " + NO_QUEUE, 3, "queue port"),
    ],
    "join-subscription": [
        ("", 2, "Missing argument 'NAME'"),
        ("s --format %q", 2, "unknown token"),
        ("s " + NO_QUEUE, 3, "queue port"),
    ],
    "subscribe": [
        ("", 2, "Missing argument 'TOPIC'"),
        ("t --offset latest", 2, "not a valid integer"),
        ("t " + NO_QUEUE, 3, "queue port"),
    ],
    "subscription list": at_queue(""),
    "subscription describe": at_queue("s"),
    "subscription redrive": [("s --count 0", 2, "--count"), *at_queue("s")[:2]],
    "subscription delete": at_queue("s"),
    "producer-service": [
        BAD_PORT,
        ("--bootstrap nowhere", 2, "nowhere"),
        ("--coordinator 127.0.0.1:1 --bootstrap 127.0.0.1:2", 2, "exclude each other"),
    ],
    "consumer-service": [
        BAD_PORT,
        ("--bootstrap nowhere", 2, "nowhere"),
        ("--coordinator 127.0.0.1:1 --bootstrap 127.0.0.1:2", 2, "exclude each other"),
    ],
    "pipeline init": [
        ("{tmp}/other.json", 1, "other.json"),
        ("{tmp}/a {tmp}/b", 2, "unexpected extra argument"),
        BAD_OUTPUT,
    ],
    "pipeline validate": [
        ("-f {tmp}/missing.yaml --no-spark", 2, "missing.yaml"),
        ("-f {tmp}/other.json --offline --no-spark", 2, "other.json"),
        BAD_OUTPUT,
    ],
    "pipeline list": [
        ("-f {tmp}/missing.yaml", 2, "missing.yaml"),
        ("-f {tmp}/other.json", 2, "other.json"),
        BAD_OUTPUT,
    ],
    "pipeline status": [
        ("-f {tmp}/missing.yaml", 2, "missing.yaml"),
        ("-f {tmp}/other.json", 2, "other.json"),
        BAD_OUTPUT,
    ],
    "pipeline run": [
        ("-f {tmp}/missing.yaml", 2, "missing.yaml"),
        ("-f {tmp}/other.json", 2, "other.json"),
        ("--metrics-port 70000", 2, "65535"),
    ],
    "pipeline compact": [
        ("", 2, "PIPELINE"),
        ("p -f {tmp}/missing.yaml", 2, "missing.yaml"),
        ("p --keep-days 0", 2, "--keep-days"),
    ],
    "pipeline replay": [
        ("p", 2, "Missing option '--to'"),
        ("p --to t -f {tmp}/missing.yaml", 2, "missing.yaml"),
        ("p --to t --rate 0", 2, "--rate"),
    ],
    "pipeline redrive": [
        ("", 2, "PIPELINE"),
        ("p -f {tmp}/missing.yaml", 2, "missing.yaml"),
        ("p -o xml", 2, "yaml"),
    ],
    "bench produce": [NO_BROKER, ("--size big", 2, "--size"), ("--client-config odd", 2, "name=value")],
    "bench consume": [NO_BROKER, ("--count 0", 2, "--count"), BAD_ADDRESS],
    "bench e2e": [NO_BROKER, ("--rate 0", 2, "--rate"), BAD_ADDRESS],
    "bench queue": [NO_BROKER, ("--workers 0", 2, "--workers"), BAD_ADDRESS],
    "bench compare": [
        ("nothing", 2, "choose from"),
        ("--page {tmp}/other.json", 2, "--page"),
        ("--baseline {tmp}/missing", 2, "does not exist"),
    ],
    "completion": [
        ("", 2, "Missing argument"),
        ("powershell", 2, "'bash', 'zsh', 'fish'"),
        ("bash zsh", 2, "unexpected extra argument"),
    ],
    "profile add": [
        ("", 2, "Missing argument 'NAME'"),
        ("prod", 2, "needs --bootstrap HOST:PORT"),
        ("prod --bootstrap nowhere", 2, "HOST:PORT"),
    ],
    "profile list": [("prod", 2, "unexpected extra argument"), ("--jsn", 2, "--json"), BAD_OUTPUT],
    "profile show": [
        ("prod", 4, "prod"),
        ("", 4, "There is no default profile"),
        BAD_OUTPUT,
    ],
    "profile use": [
        ("", 2, "or --none"),
        ("prod", 4, "prod"),
        ("prod --none", 2, "or --none"),
    ],
    "profile remove": [("", 2, "Missing argument 'NAME'"), ("prod", 4, "prod"), ("prod -o xml", 2, "'yaml'")],
    "security init": [
        ("--days 0", 2, "1<=x<=3650"),
        ("--dir {tmp}/other.json", 2, "other.json"),
        BAD_OUTPUT,
    ],
    "security check": [
        ("", 2, "Missing option '--tls-cert'"),
        ("--tls-cert {tmp}/a.crt --tls-key {tmp}/a.key", 2, "a.crt"),
        ("--tls-cert {tmp}/other.json --tls-key {tmp}/other.json", 2, "other.json"),
    ],
}


@pytest.fixture(scope="module")
def closed() -> Iterator[int]:
    """A port that is taken but answers nobody: bound, not listening."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def test_every_command_has_three() -> None:
    assert {path for path in LEAVES if len(MISTAKES.get(path, ())) < 3} == set()
    assert set(MISTAKES) == set(LEAVES)


@pytest.mark.parametrize("path", MISTAKES)
def test_a_mistake_is_told(path: str, closed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "other.json").write_text("[]\n")
    for words, code, part in MISTAKES[path]:
        arguments = [*path.split(), *words.format(closed=closed, tmp=tmp_path).split()]
        result = CliRunner().invoke(cli, arguments)
        assert (result.exit_code, "Traceback" in result.output) == (code, False), (arguments, result.output)
        assert part in " ".join(result.output.split()), (arguments, result.output)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("sbu orders", "Did you mean 'sub'?"),
        ("-o json start", "`penstock start` has no option --output"),
        ("--bootstrap 127.0.0.1:1 config explain", "has no option --bootstrap"),
        ("topic lits", "list"),
    ],
)
def test_mistakes_before_the_command(words: str, part: str) -> None:
    result = CliRunner().invoke(cli, words.split())
    assert result.exit_code == 2 and part in result.output, result.output
