"""The transcripts in docs/protocols are true: each is played against a broker of its own page."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pages import PROTOCOLS, SECONDS_MAX, connected, framed, play_json, play_text, read_frame
from penstock.testing import running_broker


def test_text() -> None:
    with running_broker(storage="memory") as broker:
        play_text(broker)


def test_json() -> None:
    with running_broker(storage="memory") as broker:
        play_json(broker)


def test_the_member_of_the_page_reads_everything_and_shares_its_group(tmp_path: Path) -> None:
    """Two of them: the second joins while the first works, and together they print every message once or more."""
    (program,) = re.findall(r"```python\n(.*?)```", (PROTOCOLS / "json.md").read_text("utf-8"), re.DOTALL)
    script = tmp_path / "member.py"
    script.write_text(program)
    with (
        running_broker(storage="memory", consumer_group_heartbeat_ms=100) as fresh,
        connected(fresh.json_port) as line,
        ExitStack() as stack,
    ):
        reader = line.makefile("rb")

        def ask(**fields: Any) -> Any:
            line.sendall(framed(json.dumps(fields)))
            return read_frame(reader)

        assert ask(command="CREATE_TOPIC", topic="lines", partitions=2)["ok"]
        outputs = [tmp_path / "first", tmp_path / "second"]

        def printed(at: int) -> set[str]:
            return set(outputs[at].read_text().splitlines())

        def produce(count: int) -> set[str]:
            """So many messages to each partition; as they will be printed."""
            made = set()
            for partition in (0, 1):
                for number in range(count):
                    word = f"message-{number}"
                    placed = ask(command="PRODUCE", topic="lines", partition=partition, message=word)
                    made.add(f"{partition} {placed['offset']} {word}")
            return made

        def start(at: int) -> None:
            command = [sys.executable, str(script), str(fresh.json_port), "readers", "lines"]
            output = stack.enter_context(outputs[at].open("w"))
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
            stack.callback(process.wait)
            stack.callback(process.kill)

        start(0)
        first = produce(5)
        wait_until(lambda: printed(0) >= first)
        start(1)
        wait_until(lambda: bool(produce(1)) and bool(printed(1)))
        last = produce(3)
        wait_until(lambda: printed(0) | printed(1) >= last)
        assert {line.split()[0] for line in printed(0)} == {"0", "1"}
        assert {line.split()[0] for line in printed(1)} in ({"0"}, {"1"}), "they share"


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)
