"""README and all pages, one after the other on ONE broker, as a reader goes through them.

The order is that of the documentation site. Each page has topics and groups of its own, so no page breaks another.
Pages that need several brokers are run on a cluster by the tests that are named here.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet
import pytest

from doc_pages import sections
from grpc_services import running_service
from pages import (
    ROOT,
    blocks,
    commands,
    fences,
    is_same,
    parsed,
    play_json,
    play_queue,
    play_text,
    run_blocks,
)
from penstock.testing import Broker, running_broker
from spark.places import HASTE

COMMAND_S_MAX = 600
PAGE_S_MAX = 900
NC = """#!{python}
import socket, sys
with socket.create_connection((sys.argv[-2], int(sys.argv[-1]))) as line:
    line.sendall(sys.stdin.buffer.read())
    line.shutdown(socket.SHUT_WR)
    while piece := line.recv(4096):
        sys.stdout.buffer.write(piece)
"""
FOREIGN = re.compile(r"Traceback|^\tat |\bWARN|Warning:|^SLF4J|log4j", re.MULTILINE)
"""What a reader must never see: stack traces and warnings of the libraries underneath."""
JAVA_NOTE = re.compile(r"^NOTE: Picked up JDK_JAVA_OPTIONS.*\n", re.MULTILINE)
"""Java's note about the options of this test."""


class Reader:
    """A person with a shell: `penstock` and `nc` are on the PATH, the broker is where the pages say."""

    def __init__(self, broker: Broker, home: Path) -> None:
        self.broker = broker
        self.home = home
        programs = home / "bin"
        programs.mkdir()
        for name, content in (
            ("penstock", f'#!/bin/sh\nexec {sys.executable} -m penstock "$@"\n'),
            ("nc", NC.format(python=sys.executable)),
        ):
            (programs / name).write_text(content)
            (programs / name).chmod(0o755)
        self._environment = {
            **os.environ,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "PENSTOCK_BOOTSTRAP": broker.bootstrap,
            "PENSTOCK_QUEUE": f"{broker.host}:{broker.queue_port}",
            "PENSTOCK_HTTP": f"{broker.host}:{broker.http_port}",
            "JDK_JAVA_OPTIONS": HASTE,
        }

    def type(self, command: str, **variables: str) -> str:
        """What a command prints, as far as it goes well."""
        here = command.replace("127.0.0.1 9081", f"127.0.0.1 {self.broker.text_port}")
        here = here.replace("localhost:9080", f"{self.broker.host}:{self.broker.http_port}")
        ran = subprocess.run(
            ["bash", "-euc", here],
            capture_output=True,
            text=True,
            timeout=COMMAND_S_MAX,
            env={**self._environment, **variables},
            cwd=self.home,
        )
        assert ran.returncode == 0, f"{command}\n{ran.stdout[-3000:]}{ran.stderr[-3000:]}"
        assert not FOREIGN.search(JAVA_NOTE.sub("", ran.stderr)), f"{command}\n{ran.stderr[-5000:]}"
        return ran.stdout

    def run(self, script: str, **variables: str) -> str:
        """What a Python program prints."""
        file = self.home / "program.py"
        file.write_text(script)
        return self.type(f"{sys.executable} {file}", **variables)


def play_console(reader: Reader, page: str) -> None:
    """Type the commands of a page. Where it shows an answer, that is the answer; lists may hold what others made."""
    typed = commands(page)
    assert typed
    for command, expected in typed:
        printed = reader.type(command)
        if expected:
            assert is_same(parsed(expected), parsed(printed), is_shared=True), f"{command}\n{printed}"


def play_readme(reader: Reader) -> None:
    play_console(reader, "README.md")
    run_blocks(reader.broker, "README.md", reader.home)
    announced = re.search(r"then: (.*)", reader.type("penstock pipeline init announced"))
    assert announced is not None
    (last,) = [command for command, _ in commands("README.md") if command.startswith("cd ")]
    assert announced[1] == last.replace("first-shop", "announced"), "`pipeline init` says what README says"


def play_grpc(reader: Reader) -> None:
    """The block of the page and the example, against the two services."""
    (block,) = blocks("docs/grpc.md")
    flags = ("--bootstrap", reader.broker.bootstrap)
    with (
        running_service(reader.home, "producer-service", *flags) as producing,
        running_service(reader.home, "consumer-service", *flags) as consuming,
    ):
        for port, service in (("9193", producing), ("9194", consuming)):
            assert block.count(f"127.0.0.1:{port}") == 1
            block = block.replace(f"127.0.0.1:{port}", service.address)
        assert reader.run(block) == "0 0\n[b'hello']\n"
        addresses = {"PENSTOCK_PRODUCER": producing.address, "PENSTOCK_CONSUMER": consuming.address}
        printed = reader.type(f"{sys.executable} {ROOT}/examples/grpc_orders.py 25", **addresses)
        assert printed.endswith("25 orders written\n25 orders read\n")


def play_spark(reader: Reader) -> None:
    """The project of five minutes, all Python blocks in one program, then the query."""
    (_, five_minutes), *rest = fences("docs/spark.md")
    python = [block for language, block in rest if language == "python"]
    query = [block for language, block in rest if language == "bash"]
    assert len(python) + len(query) == len(rest) and len(query) == 1
    printed = reader.type(five_minutes)
    lines = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    rows = {line["pipeline"]: line["rows_total"] for line in lines if "pipeline" in line}
    assert rows == {"orders-lake": 10, "revenue": 10}
    assert '"pipeline": "orders-lake", "state": "stopped"' in printed
    assert len([line for line in lines if "topic" in line]) == 2, "dead letters"
    assert "no errors" in printed
    reader.run("\n".join(python).replace("127.0.0.1:9092", reader.broker.bootstrap))
    assert pyarrow.parquet.read_table(reader.home / "orders-table").num_rows == 10
    orders, shipped = (
        Counter(reader.type(f"penstock sub --topic {topic} --until end").splitlines())
        for topic in ("cafe_orders", "cafe_shipped")
    )
    capitals = Counter(value.upper() for value in orders.elements())
    assert shipped == capitals + orders + orders, "three jobs wrote every order, the first one in capitals"
    assert re.search(r"2026-01-01T10:01:00\S*.*\b1\b.*1\.5", reader.type(query[0]))


def play_pipelines(reader: Reader) -> None:
    """The topics are there, and every project fits them; tests/spark/test_pipelines_page.py runs the projects."""
    play_console(reader, "docs/pipelines.md")
    projects = [block for language, block in fences("docs/pipelines.md") if language == "yaml"]
    assert len(projects) >= 4
    for number, project in enumerate(projects):
        (home := reader.home / f"project-{number}").mkdir()
        (home / "pipelines.yaml").write_text(project)
        reader.type(f"cd {home} && penstock pipeline validate --no-spark")


def play_blocks(page: str) -> Callable[[Reader], None]:
    return lambda reader: run_blocks(reader.broker, page, reader.home)


PLAYS: dict[str, Callable[[Reader], None]] = {
    "README.md": play_readme,
    "docs/clients.md": play_blocks("docs/clients.md"),
    "docs/queue.md": play_blocks("docs/queue.md"),
    "docs/grpc.md": play_grpc,
    "docs/testing.md": play_blocks("docs/testing.md"),
    "docs/protocols/text.md": lambda reader: play_text(reader.broker, is_shared=True),
    "docs/protocols/json.md": lambda reader: play_json(reader.broker, is_shared=True),
    "docs/protocols/queue.md": lambda reader: play_queue(reader.broker),
    "docs/protocols/http.md": lambda reader: play_console(reader, "docs/protocols/http.md"),
    "docs/spark.md": play_spark,
    "docs/pipelines.md": play_pipelines,
}
ON_A_CLUSTER = {
    "docs/cluster.md": "tests/docs/test_cluster_page.py",
    "docs/operations.md": "tests/docs/test_operations_page.py",
}
"""Pages that need several brokers, with the test that runs them."""
RUNNABLE = {"console", "python", "transcript"}
ORDER = [page for section in sections() for page in section.pages if page in PLAYS]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    with running_broker(storage="memory") as broker:
        yield Reader(broker, tmp_path_factory.mktemp("reader"))


@pytest.mark.timeout(PAGE_S_MAX)
@pytest.mark.parametrize("page", ORDER)
def test_a_page_after_those_before_it(reader: Reader, page: str) -> None:
    PLAYS[page](reader)


def test_examples_after_all_pages(reader: Reader) -> None:
    for example, words in (
        ("produce.py", ""),
        ("consume.py", "example-orders 5"),
        ("group.py", ""),
        ("exactly_once.py", ""),
        ("async_clients.py", ""),
        ("avro_orders.py", ""),
        ("queue_workers.py", ""),
        ("http_tail.py", "example-orders offset=earliest 5"),
    ):
        assert reader.type(f"{sys.executable} {ROOT}/examples/{example} {words}"), example
    assert reader.type(f"bash {ROOT}/examples/http_publish.sh")


def test_a_page_once_more(reader: Reader) -> None:
    run_blocks(reader.broker, "docs/clients.md", reader.home)


def test_every_page_with_something_to_run_is_run() -> None:
    listed = [page for section in sections() for page in section.pages]
    runnable = {page for page in listed if any(language in RUNNABLE for language, _ in fences(page))}
    assert runnable <= {*PLAYS, *ON_A_CLUSTER}, "add the page to PLAYS, or to ON_A_CLUSTER with its test"
    assert {*PLAYS, *ON_A_CLUSTER} <= set(listed)
    for page, test in ON_A_CLUSTER.items():
        assert page in (ROOT / test).read_text("utf-8"), test


CALLS = r"(?:send|send_and_wait|Consumer|create_topic|Record|publish|publish_text)"
TOPIC = re.compile(
    rf'{CALLS}\(\s*"([\w.-]+)"|--topic (\w[\w.-]*)|^> PUB (\w[\w.-]*) |/topics/(\w[\w.-]*)'
    r'|"topic": ?"([\w.-]+)"|"@topic=([\w.-]+)"|"(?:subscribe|topic)", "([\w.-]+)"|topic="([\w.-]+)"'
    r"|topics?: \[?([a-z][\w.-]*)|topic create ([a-z][\w.-]*)|cluster (?:reassign|scrub) ([a-z][\w.-]*)",
    re.MULTILINE,
)
SHARING = sorted({*PLAYS, *ON_A_CLUSTER} - {"docs/testing.md"})
"""Pages whose blocks run on the reader's broker or cluster. Those of testing.md start one of their own."""


def topics(page: str) -> set[str]:
    """Topics in the code of a page."""
    text = "\n".join(block for _, block in fences(page))
    return {name for found in TOPIC.findall(text) for name in found if name}


@pytest.mark.parametrize("page", SHARING)
def test_pages_share_no_topic(page: str) -> None:
    """A name that two pages use is a name that one of them breaks."""
    mine = topics(page)
    assert mine
    for other in SHARING:
        if other != page:
            assert not mine & topics(other), f"{page} and {other}"


def test_readme_says_how_to_install_before_the_first_command() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    before, _, _ = text.partition("## Start in 60 seconds")
    (install,) = re.findall(r"^```bash\n(.*?pip install.*?)^```$", before, re.M | re.S)
    lines = [line.partition("#")[0].strip() for line in install.splitlines()]
    assert lines == [
        "python3 -m venv .venv",
        "source .venv/bin/activate",
        "pip install .",
        "penstock --version",
    ]
    for way in ("git clone", "pipx install .", "dist/penstock-*.whl", "~/.local/bin"):
        assert way in before, way


def test_no_page_installs_from_an_index_that_does_not_have_it() -> None:
    """Until there is a release, a clone is the only source; extras that pages name exist."""
    known = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        text = page.read_text("utf-8")
        assert not re.search(r"install ['\"]?penstock\b", text), page
        assert set(re.findall(r"install '\.\[(\w+)\]'", text)) <= set(known), page
