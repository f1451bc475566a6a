"""The transcripts in docs/protocols are true: each is played against a broker of its own page."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

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


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker(storage="memory") as running:
        yield running


def test_text(broker: Broker) -> None:
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
