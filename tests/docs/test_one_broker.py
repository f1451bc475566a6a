"""README and all pages for users, one after the other on ONE broker, as a reader goes through them.

Each page has topics and groups of its own, so no page breaks another. Spark's pages have tests of their own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pages import ROOT, commands, is_same, parsed, play_json, play_queue, play_text, run_blocks
from penstock.testing import Broker, running_broker

HEAVY = ("penstock sql", "penstock pipeline", "cd shop")
"""Commands of README's section on Spark."""
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
        if command.startswith(HEAVY):
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


@pytest.mark.parametrize("page", ["README.md", "docs/clients.md", "docs/queue.md", "docs/protocols/http.md"])
def test_pages_share_no_topic(page: str) -> None:
    """A name that two pages use is a name that one of them breaks."""

    def topics(path: Path) -> set[str]:
        text = path.read_text("utf-8")
        found = re.findall(r'(?:send|send_and_wait|Consumer|create_topic|Record)\(\s*"([\w-]+)"', text)
        found += re.findall(r"--topic (\w[\w-]*)|PUB (\w[\w-]*) |/topics/(\w[\w-]*)", text)
        return {name for one in found for name in ([one] if isinstance(one, str) else one) if name}

    pages = [
        "README.md",
        "docs/clients.md",
        "docs/queue.md",
        "docs/protocols/http.md",
        "docs/protocols/text.md",
    ]
    mine = topics(ROOT / page)
    assert mine
    for other in pages:
        if other != page:
            assert not mine & topics(ROOT / other), f"{page} and {other}"
