"""The page of the queue door is true: its transcripts are played byte by byte, its tables are those of the code."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from penstock.doors.queue.errors import CODES
from penstock.testing import Broker, running_broker
from penstock.wire.queue.frames import MessageType
from penstock.wire.queue.words import KNOWN

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "protocols" / "queue.md").read_text("utf-8")
SECONDS_MAX = 30
ALWAYS = {"@client", "@request"}
_TOKEN = re.compile(r'"([^"]*)"|(\.+)|([0-9a-f]+)')


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker(storage="memory") as running:
        yield running


def pattern(line: str) -> list[bytes | None]:
    """Bytes one by one; None where any will do."""
    found: list[bytes | None] = []
    for text, dots, digits in _TOKEN.findall(line):
        content = text.encode() if text else bytes.fromhex(digits)
        found += [None] * (len(dots) // 2) if dots else [bytes([one]) for one in content]
    return found


def read(connection: socket.socket, count: int) -> bytes:
    content = b""
    while len(content) < count:
        piece = connection.recv(count - len(content))
        assert piece, f"the broker closed the connection after {content!r}"
        content += piece
    return content


def test_transcripts(broker: Broker) -> None:
    blocks = re.findall(r"```transcript\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 5
    for block in blocks:
        with closing(socket.create_connection(("127.0.0.1", broker.queue_port), SECONDS_MAX)) as connection:
            for line in block.splitlines():
                wanted = pattern(line[2:])
                if line[0] == ">":
                    connection.sendall(b"".join(one or b"" for one in wanted))
                    continue
                found = read(connection, len(wanted))
                seen = [
                    None if one is None else bytes([byte]) for one, byte in zip(wanted, found, strict=True)
                ]
                assert seen == wanted, f"{line}\n{found!r}"


def test_the_table_of_requests_is_the_code_s() -> None:
    rows = dict(re.findall(r"^\| (\d+) \| ([A-Z_]+) \|", PAGE, re.MULTILINE))
    assert rows == {str(one.value): one.name for one in MessageType}
    for kind, known in KNOWN.items():
        (row,) = re.findall(rf"^\| {kind.value} \| {kind.name} \| (.*?) \|", PAGE, re.MULTILINE)
        assert set(re.findall(r"@\w+", row)) == known - ALWAYS


def test_the_codes_are_the_code_s() -> None:
    section = PAGE.partition("## Errors")[2].partition("With `@retriable")[0]
    assert set(re.findall(r"`([A-Z_]+)`", section)) == set(CODES.values())
