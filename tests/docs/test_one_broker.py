"""README and all pages for users, one after the other on ONE broker, as a reader goes through them.

Each page has topics and groups of its own, so no page breaks another. Spark's pages have tests of their own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pages import ON_SPARK, ROOT, commands, is_same, parsed, play_json, play_queue, play_text, run_blocks
from penstock.testing import Broker, running_broker

SECONDS_MAX = 120
NC = """#!{python}
import socket, sys
with socket.create_connection((sys.argv[-2], int(sys.argv[-1]))) as line:
    line.sendall(sys.stdin.buffer.read())
    line.shutdown(socket.SHUT_WR)
    while piece := line.recv(4096):
        sys.stdout.buffer.write(piece)
"""


class Reader:
    """A person with a shell: `penstock` and `nc` are on the PATH, the broker is where the pages say."""

    def __init__(self, broker: Broker, home: Path) -> None:
        self._broker = broker
        for name, content in (
            ("penstock", f'#!/bin/sh\nexec {sys.executable} -m penstock "$@"\n'),
            ("nc", NC.format(python=sys.executable)),
        ):
            (home / name).write_text(content)
            (home / name).chmod(0o755)
        self._environment = {
            **os.environ,
            "PATH": f"{home}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "PENSTOCK_BOOTSTRAP": broker.bootstrap,
            "PENSTOCK_QUEUE": f"{broker.host}:{broker.queue_port}",
            "PENSTOCK_HTTP": f"{broker.host}:{broker.http_port}",
        }

    def type(self, command: str) -> str:
        """What a command prints, as far as it goes well."""
        here = command.replace("127.0.0.1 9081", f"127.0.0.1 {self._broker.text_port}")
        here = here.replace("localhost:9080", f"{self._broker.host}:{self._broker.http_port}")
        ran = subprocess.run(
            ["bash", "-c", here], capture_output=True, text=True, timeout=SECONDS_MAX, env=self._environment
        )
        assert ran.returncode == 0, f"{command}\n{ran.stdout}{ran.stderr}"
        return ran.stdout


def check_console(reader: Reader, page: str) -> None:
    """Type the commands of a page. Where it shows an answer, that is the answer; lists may hold what others made."""
    for command, expected in commands(page):
        if command.startswith(ON_SPARK):
            continue
        printed = reader.type(command)
        if expected:
            assert is_same(parsed(expected), parsed(printed), is_shared=True), f"{command}\n{printed}"


def test_readme_and_all_pages_in_order(tmp_path: Path) -> None:
    (home := tmp_path / "bin").mkdir()
    with running_broker(storage="memory") as broker:
        reader = Reader(broker, home)
        check_console(reader, "README.md")
        run_blocks(broker, "README.md", tmp_path)
        run_blocks(broker, "docs/clients.md", tmp_path)
        run_blocks(broker, "docs/queue.md", tmp_path)
        run_blocks(broker, "docs/testing.md", tmp_path)
        play_text(broker, is_shared=True)
        play_json(broker, is_shared=True)
        play_queue(broker)
        check_console(reader, "docs/protocols/http.md")
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
        run_blocks(broker, "docs/clients.md", tmp_path)


SHARING = ("README.md", *(f"docs/{name}.md" for name in ("clients", "queue", "spark")))
SHARING += tuple(f"docs/protocols/{name}.md" for name in ("http", "json", "queue", "text"))
"""Pages whose blocks run on the reader's broker. Those of testing.md start one of their own."""
CALLS = r"(?:send|send_and_wait|Consumer|create_topic|Record|publish|publish_text)"
TOPIC = re.compile(
    rf'{CALLS}\(\s*"([\w.-]+)"|--topic (\w[\w.-]*)|^> PUB (\w[\w.-]*) |/topics/(\w[\w.-]*)'
    r'|"topic": ?"([\w.-]+)"|"@topic=([\w.-]+)"|"(?:subscribe|topic)", "([\w.-]+)"',
    re.MULTILINE,
)


def topics(page: str) -> set[str]:
    text = (ROOT / page).read_text("utf-8")
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
    (install,) = re.findall(
        r"^```bash\n(.*?pip install.*?)^```$", text.partition("## Start it")[0], re.M | re.S
    )
    lines = [line.partition("#")[0].strip() for line in install.splitlines()]
    assert lines == [
        "python3 -m venv .venv",
        "source .venv/bin/activate",
        "pip install .",
        "penstock --version",
    ]


def test_no_page_installs_from_an_index_that_does_not_have_it() -> None:
    """Until there is a release, a clone is the only source; extras that pages name exist."""
    known = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        text = page.read_text("utf-8")
        assert not re.search(r"install ['\"]?penstock\b", text), page
        assert set(re.findall(r"install '\.\[(\w+)\]'", text)) <= set(known), page
