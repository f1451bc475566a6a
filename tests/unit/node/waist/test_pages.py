"""Long answers are made in portions: others have their turn in between, and the limits hold over all of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from manual_ports import turns
from memory_broker import make_topic, until, with_broker
from penstock.core.errors import BrokerError, OffsetOutOfRange, UnknownTopic
from penstock.core.model import NewRecord, Record
from penstock.core.records.build import build_batch
from penstock.core.session import Session
from penstock.node.broker import Broker
from penstock.node.replicas.sources import PartitionSource
from penstock.node.waist.pages import PORTION_BYTES_MAX, PORTION_RECORDS_MAX, Page, Pages
from penstock.node.waist.reader import Wanted
from penstock.node.waist.waist import Waist

SESSION = Session("test")


class Client:
    def __init__(self) -> None:
        self.on_closing: list[Any] = []

    def on_close(self, callback: Any) -> None:
        self.on_closing.append(callback)

    def not_on_close(self, callback: Any) -> None:
        self.on_closing.remove(callback)


def encode(records: list[Record]) -> bytes:
    return b" ".join(b"%d" % record.offset for record in records)


async def stage(broker: Broker, *sizes: int) -> Pages:
    """A topic of one batch with a record of each size."""
    await make_topic(broker, "orders")
    records = [NewRecord(None, b"v" * size) for size in sizes]
    appended = broker.partition("orders", 0).append(memoryview(build_batch(records, 1_000)))
    await until(lambda: broker.partition("orders", 0).high_watermark >= appended.end_offset)
    return Pages(Waist(broker).reader())


async def page(pages: Pages, **wanted: int) -> tuple[Page, int]:
    """A page, and how often others had their turn before it was there."""
    answers: list[Page | BrokerError] = []
    fields = {"topic": "orders", "partition": 0, "offset": 0, **wanted}
    pages.read(SESSION, Client(), Wanted(**fields), encode, answers.append)  # type: ignore[arg-type]
    others = 0
    while not answers:
        others += 1
        await asyncio.sleep(0)
    (found,) = answers
    assert isinstance(found, Page)
    return found, others


def offsets(found: Page) -> list[int]:
    return [int(one) for one in b" ".join(found.pieces).split()]


@pytest.mark.parametrize("count", [1, PORTION_RECORDS_MAX, PORTION_RECORDS_MAX + 1, 3 * PORTION_RECORDS_MAX])
def test_a_page_has_what_one_read_would_have(count: int) -> None:
    async def test(broker: Broker) -> None:
        pages = await stage(broker, *[10] * 2_000)
        found, others = await page(pages, offset=100, records_max=count)
        assert offsets(found) == list(range(100, 100 + count))
        assert (found.next_offset, found.start_offset, found.end_offset) == (100 + count, 0, 2_000)
        assert max(len(one.split()) for one in found.pieces) <= PORTION_RECORDS_MAX
        assert others >= len(found.pieces) - 1

    with_broker(test)


def test_bytes_limit_the_portion_and_the_page() -> None:
    async def test(broker: Broker) -> None:
        size = PORTION_BYTES_MAX // 4
        pages = await stage(broker, *[size] * 10, 3 * PORTION_BYTES_MAX, size)
        everything, _ = await page(pages, records_max=100, bytes_max=1 << 30)
        assert offsets(everything) == list(range(12))
        assert [len(one.split()) for one in everything.pieces] == [4, 4, 2, 1, 1]
        some, _ = await page(pages, records_max=100, bytes_max=6 * size)
        assert offsets(some) == list(range(6)) and some.next_offset == 6
        before_large, _ = await page(pages, records_max=100, bytes_max=12 * size)
        assert offsets(before_large) == list(range(10)) and before_large.next_offset == 10
        large, _ = await page(pages, offset=10, records_max=100, bytes_max=1)
        assert offsets(large) == [10]
        end, _ = await page(pages, offset=12, records_max=100)
        assert offsets(end) == [] and end.next_offset == 12

    with_broker(test)


def test_errors_are_answered_and_a_client_that_goes_is_not() -> None:
    async def test(broker: Broker) -> None:
        pages = await stage(broker, *[10] * 2_000)
        answers: list[Page | BrokerError] = []
        pages.read(SESSION, Client(), Wanted("orders", 0, 2_001), encode, answers.append)
        pages.read(SESSION, Client(), Wanted("absent", 0, 0), encode, answers.append)
        assert [type(one) for one in answers] == [OffsetOutOfRange, UnknownTopic]
        client = Client()
        pages.read(SESSION, client, Wanted("orders", 0, 0, records_max=2_000), encode, answers.append)
        for callback in client.on_closing:
            callback()
        await turns(20)
        assert len(answers) == 2

    with_broker(test)


def test_a_page_ends_where_reading_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(broker: Broker) -> None:
        pages = await stage(broker, *[10] * 2_000)
        answers: list[Page | BrokerError] = []
        pages.read(SESSION, Client(), Wanted("orders", 0, 0, records_max=2_000), encode, answers.append)
        monkeypatch.setattr(PartitionSource, "read", _gone)
        await until(lambda: answers)
        (found,) = answers
        assert isinstance(found, Page) and found.next_offset == PORTION_RECORDS_MAX
        monkeypatch.undo()

    with_broker(test)


def _gone(*_: object) -> None:
    raise UnknownTopic("deleted meanwhile")
