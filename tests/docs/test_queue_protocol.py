"""The page of the queue door is true: its transcripts are played byte by byte, its tables are those of the code."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from pages import PROTOCOLS, play_queue
from penstock.doors.queue.errors import CODES
from penstock.testing import Broker, running_broker
from penstock.wire.queue.frames import MessageType
from penstock.wire.queue.request_properties import KNOWN

PAGE = (PROTOCOLS / "queue.md").read_text("utf-8")
ALWAYS = {"@client", "@request"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker(storage="memory") as running:
        yield running


def test_transcripts(broker: Broker) -> None:
    play_queue(broker)


def test_the_table_of_requests_is_the_code_s() -> None:
    rows = dict(re.findall(r"^\| (\d+) \| ([A-Z_]+) \|", PAGE, re.MULTILINE))
    assert rows == {str(one.value): one.name for one in MessageType}
    for kind, known in KNOWN.items():
        (row,) = re.findall(rf"^\| {kind.value} \| {kind.name} \| (.*?) \|", PAGE, re.MULTILINE)
        assert set(re.findall(r"@\w+", row)) == known - ALWAYS


def test_the_codes_are_the_code_s() -> None:
    section = PAGE.partition("## Errors")[2].partition("With `@retriable")[0]
    assert set(re.findall(r"`([A-Z_]+)`", section)) == set(CODES.values())
