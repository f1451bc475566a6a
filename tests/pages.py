"""The pages for users as tests read them: Python blocks, commands and what they print, transcripts."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from penstock.testing import Broker

ROOT = Path(__file__).resolve().parents[1]
PROTOCOLS = ROOT / "docs" / "protocols"
SECONDS_MAX = 30
RUN_S_MAX = 120
TESTS = "def test_"
ANYTHING = "…"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TOKEN = re.compile(r'"([^"]*)"|(\.+)|([0-9a-f]+)')

# -- Python blocks


def blocks(page: str) -> list[str]:
    return _BLOCK.findall((ROOT / page).read_text("utf-8"))


def fences(page: str) -> list[tuple[str, str]]:
    """Every block of a page, with its language."""
    return _FENCE.findall((ROOT / page).read_text("utf-8"))


def run_python(broker: Broker, *words: str) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "PENSTOCK_BOOTSTRAP": broker.bootstrap,
        "PENSTOCK_QUEUE": f"{broker.host}:{broker.queue_port}",
    }
    ran = subprocess.run(
        [sys.executable, *words], env=environment, capture_output=True, text=True, timeout=RUN_S_MAX
    )
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout


def run_blocks(broker: Broker, page: str, scratch: Path) -> None:
    """One process for a page, one namespace for each block. Blocks that are tests are left out."""
    plain = [block for block in blocks(page) if TESTS not in block]
    assert plain
    script = scratch / "page.py"
    script.write_text(
        "".join(f"exec(compile({block!r}, 'block {n}', 'exec'), {{}})\n" for n, block in enumerate(plain))
    )
    run_python(broker, str(script))


# -- commands


def commands(page: str, section: str = "") -> list[tuple[str, str]]:
    """Every command of a page, or of the section with this title, and what it prints."""
    text = (ROOT / page).read_text("utf-8")
    if section:
        text = re.split(r"^## ", text.partition(f"\n## {section}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    found: list[tuple[str, str]] = []
    for block in _CONSOLE.findall(text):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], ""))
            else:
                command, printed = found[-1]
                found[-1] = command, f"{printed}{line}\n"
    return found


def run_commands(typed: list[tuple[str, str]], bootstrap: str, home: Path) -> None:
    """Run what a page shows, in this directory, against these brokers."""
    assert typed
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PENSTOCK_BOOTSTRAP": bootstrap}
    for command, expected in typed:
        ran = subprocess.run(
            ["bash", "-c", command],
            capture_output=True,
            text=True,
            timeout=RUN_S_MAX,
            env=environment,
            cwd=home,
        )
        assert ran.returncode == 0, f"{command}\n{ran.stdout}{ran.stderr}"
        assert not expected or is_same(parsed(expected), parsed(ran.stdout)), f"{command}\n{ran.stdout}"


def parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text.strip()


def is_same(expected: Any, found: Any, *, is_shared: bool = False) -> bool:
    """Equal, where `…` in the page stands for whatever there is. On a shared broker lists may be longer."""
    if expected == ANYTHING:
        return True
    if isinstance(expected, dict) and isinstance(found, dict):
        return expected.keys() == found.keys() and all(
            is_same(expected[name], found[name], is_shared=is_shared) for name in expected
        )
    if isinstance(expected, list) and isinstance(found, list):
        if is_shared and len(found) > len(expected):
            return all(any(is_same(one, other, is_shared=True) for other in found) for one in expected)
        return len(expected) == len(found) and all(
            is_same(one, other, is_shared=is_shared) for one, other in zip(expected, found, strict=True)
        )
    return bool(expected == found)


# -- transcripts


def transcripts(page: str) -> list[list[str]]:
    """The transcripts of a page, each as its lines."""
    text = (PROTOCOLS / page).read_text("utf-8")
    return [block.splitlines() for block in re.findall(r"```transcript\n(.*?)```", text, re.DOTALL)]


@contextmanager
def connected(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), SECONDS_MAX) as line:
        line.settimeout(SECONDS_MAX)
        yield line


def play_text(broker: Broker, *, is_shared: bool = False) -> None:
    """On a shared broker TOPICS lists those of the page and others."""
    played = transcripts("text.md")
    assert len(played) >= 5
    for block in played:
        with connected(broker.text_port) as line:
            reader = line.makefile("rb")
            listed: list[str] = []
            for sign, content in ((one[0], one[2:]) for one in block):
                if sign == ">":
                    line.sendall(content.encode() + b"\r\n")
                elif listed and is_shared:
                    assert content in listed or content == _line(reader)
                else:
                    found = _line(reader)
                    if is_shared and content.startswith("TOPICS "):
                        listed = [_line(reader) for _ in range(int(found.split()[1]))]
                    else:
                        assert content == found
            if block[-1] == "< BYE":
                assert line.recv(1) == b""


def _line(reader: Any) -> str:
    content: bytes = reader.readline()
    return content.decode().rstrip("\r\n")


def framed(content: str) -> bytes:
    body = content.encode()
    return len(body).to_bytes(4, "big") + body


def read_frame(reader: Any) -> Any:
    return json.loads(reader.read(int.from_bytes(reader.read(4), "big")))


def play_json(broker: Broker, *, is_shared: bool = False) -> None:
    played = transcripts("json.md")
    assert len(played) >= 5
    for block in played:
        with connected(broker.json_port) as line:
            reader = line.makefile("rb")
            for sign, content in ((one[0], one[2:]) for one in block):
                if sign == ">":
                    line.sendall(framed(content))
                    continue
                found = read_frame(reader)
                assert is_same(json.loads(content), found, is_shared=is_shared), f"{content}\n{found}"


def play_queue(broker: Broker) -> None:
    """Byte by byte."""
    played = transcripts("queue.md")
    assert len(played) == 5
    for block in played:
        with closing(socket.create_connection(("127.0.0.1", broker.queue_port), SECONDS_MAX)) as connection:
            for line in block:
                wanted = _pattern(line[2:])
                if line[0] == ">":
                    connection.sendall(b"".join(one or b"" for one in wanted))
                    continue
                found = _exactly(connection, len(wanted))
                seen = [
                    None if one is None else bytes([byte]) for one, byte in zip(wanted, found, strict=True)
                ]
                assert seen == wanted, f"{line}\n{found!r}"


def _pattern(line: str) -> list[bytes | None]:
    """Bytes one by one; None where any will do."""
    found: list[bytes | None] = []
    for text, dots, digits in _TOKEN.findall(line):
        content = text.encode() if text else bytes.fromhex(digits)
        found += [None] * (len(dots) // 2) if dots else [bytes([one]) for one in content]
    return found


def _exactly(connection: socket.socket, count: int) -> bytes:
    content = b""
    while len(content) < count:
        piece = connection.recv(count - len(content))
        assert piece, f"the broker closed the connection after {content!r}"
        content += piece
    return content
