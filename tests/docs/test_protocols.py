"""The transcripts in docs/protocols are true: each is played against a broker of its own page."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from penstock.testing import Broker, running_broker

PROTOCOLS = Path(__file__).resolve().parents[2] / "docs" / "protocols"
SECONDS_MAX = 30
ANYTHING = "…"


def transcripts(page: str) -> list[list[str]]:
    """The blocks of a page, each as its lines."""
    text = (PROTOCOLS / page).read_text("utf-8")
    return [block.splitlines() for block in re.findall(r"```transcript\n(.*?)```", text, re.DOTALL)]


@contextmanager
def connected(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), SECONDS_MAX) as line:
        line.settimeout(SECONDS_MAX)
        yield line


def play(
    line: socket.socket, block: list[str], send: Callable[[str], bytes], read: Callable[[Any], Any]
) -> None:
    """Send runs of `>` lines at once and compare what comes back with the `<` lines."""
    reader = line.makefile("rb")
    for sign, content in ((one[0], one[2:]) for one in block):
        if sign == ">":
            line.sendall(send(content))
        else:
            assert sign == "<", block
            found = read(reader)
            assert matches(content, found), f"{content!r} is not {found!r}"


def matches(expected: Any, found: Any) -> bool:
    """Equal, where `…` in the page stands for whatever there is."""
    if isinstance(found, dict):
        wanted = json.loads(expected) if isinstance(expected, str) else expected
        return (
            isinstance(wanted, dict)
            and wanted.keys() == found.keys()
            and all(wanted[name] == ANYTHING or matches(wanted[name], found[name]) for name in wanted)
        )
    if isinstance(found, list) and isinstance(expected, list):
        return len(expected) == len(found) and all(map(matches, expected, found))
    return bool(expected in (ANYTHING, found))


def test_text() -> None:
    with running_broker(storage="memory") as broker:
        play_text(broker)


def play_text(broker: Broker) -> None:
    blocks = transcripts("text.md")
    assert len(blocks) >= 5
    for block in blocks:
        with connected(broker.text_port) as line:
            play(
                line,
                block,
                lambda sent: sent.encode() + b"\r\n",
                lambda reader: reader.readline().decode().rstrip("\r\n"),
            )
            if block[-1] == "< BYE":
                assert line.recv(1) == b""


def framed(content: str) -> bytes:
    body = content.encode()
    return len(body).to_bytes(4, "big") + body


def read_frame(reader: Any) -> Any:
    return json.loads(reader.read(int.from_bytes(reader.read(4), "big")))


def test_json() -> None:
    with running_broker(storage="memory") as fresh:
        blocks = transcripts("json.md")
        assert len(blocks) >= 5
        for block in blocks:
            with connected(fresh.json_port) as line:
                play(line, block, framed, read_frame)


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
