"""Reads and encodes the records of one long reply in portions, one per loop iteration. Speaks no protocol.

A page ends early where a batch must be decompressed in a worker or fetched from another broker first, or where reading
fails. The reader continues at `next_offset`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from penstock.core.errors import BrokerError
from penstock.core.model import Record
from penstock.core.records.portion import payload_bytes
from penstock.core.session import Session
from penstock.node.waist.reader import Reader, Run, Source, Wanted
from penstock.node.waist.waits import Client

PORTION_RECORDS_MAX = 500
PORTION_BYTES_MAX = 64 << 10
"""Limits of one portion, which takes a few milliseconds; a single larger record is a portion of its own."""


class Page(NamedTuple):
    """Encoded records, one piece per portion. The next read starts at `next_offset`."""

    pieces: list[bytes]
    next_offset: int
    start_offset: int
    end_offset: int


Encode = Callable[[list[Record]], bytes]
Answered = Callable[[Page | BrokerError], None]


class Pages:
    """Reads pages for the clients of one door."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def read(
        self, session: Session, client: Client, wanted: Wanted, encode: Encode, answered: Answered
    ) -> None:
        """Answer like `Reader.read`, with encoded records. A client that disconnects is not answered."""
        _PageRead(self._reader, session, client, wanted, encode, answered).start()


class _PageRead:
    """One page that is being read."""

    def __init__(
        self,
        reader: Reader,
        session: Session,
        client: Client,
        wanted: Wanted,
        encode: Encode,
        answered: Answered,
    ) -> None:
        self._reader = reader
        self._session = session
        self._source: Source | None = None
        self._client = client
        self._left = wanted
        """The rest of the request."""
        self._encode = encode
        self._answered = answered
        self._pieces: list[bytes] = []
        self._is_over = False

    def start(self) -> None:
        left = self._left
        try:
            self._source = self._reader.source(self._session, left.topic, left.partition, left.bytes_max)
        except BrokerError as error:
            self._answered(error)
            return
        self._reader.read(self._session, self._client, self._portion(), self._begin, self._source)

    def _portion(self) -> Wanted:
        left = self._left
        return left._replace(
            records_max=min(left.records_max, PORTION_RECORDS_MAX),
            bytes_max=min(left.bytes_max, PORTION_BYTES_MAX),
        )

    def _begin(self, outcome: Run | BrokerError) -> None:
        """Take the first portion, which may have been waited for."""
        if isinstance(outcome, BrokerError):
            self._answered(outcome)
            return
        self._client.on_close(self._leave)
        self._take(outcome)

    def _take(self, run: Run) -> None:
        left = self._left
        content_bytes = sum(map(payload_bytes, run.records))
        if self._pieces and content_bytes > left.bytes_max:
            self._end(run._replace(next_offset=left.offset))  # one record that exceeds the remaining bytes
            return
        if run.records:
            self._pieces.append(self._encode(run.records))
        self._left = left = left._replace(
            offset=run.next_offset,
            records_max=left.records_max - len(run.records),
            bytes_max=left.bytes_max - content_bytes,
        )
        is_enough = left.records_max <= 0 or left.bytes_max <= 0 or run.next_offset >= run.end_offset
        if is_enough or run.is_opening or not run.records:
            self._end(run)
        else:
            asyncio.get_running_loop().call_soon(self._go_on, run)

    def _go_on(self, last: Run) -> None:
        if self._is_over:
            return
        assert self._source is not None
        try:
            run = self._source.read(self._portion(), lambda: None)
        except BrokerError:  # the next read fails with it again and reports it
            self._end(last)
        else:
            self._take(run)

    def _end(self, last: Run) -> None:
        self._leave()
        self._client.not_on_close(self._leave)
        self._answered(Page(self._pieces, last.next_offset, last.start_offset, last.end_offset))

    def _leave(self) -> None:
        self._is_over = True
