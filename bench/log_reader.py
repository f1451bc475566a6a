"""Reads a partition from start to end with Fetch requests on a bare socket, for the replay row."""

from __future__ import annotations

import time
from struct import Struct
from typing import Any

from penstock.apps.bench.harness.frames import FETCH_VERSION, FetchFrame
from penstock.apps.bench.harness.link import Address, Link, UnexpectedResponse, gc_disabled, received
from penstock.apps.bench.harness.loader import RECEIVE_BYTES, RESPONSE_S_MAX, next_offset
from penstock.wire.kafka import ApiKey, decode_response

_SIZE = Struct(">i")


class LogReader:
    """One connection that fetches a partition in order."""

    def __init__(self, address: Address, topic: str, bytes_max: int) -> None:
        self._link = Link(address, receive_bytes=bytes_max * 2 + RECEIVE_BYTES, stall_s_max=RESPONSE_S_MAX)
        self._request = FetchFrame(topic, bytes_max)

    def close(self) -> None:
        self._link.close()

    def __enter__(self) -> LogReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def request_bytes(self) -> int:
        return len(self._request.at(0))

    def fetch(self, offset: int) -> memoryview:
        """One whole response, including its size field; the view is valid until the next call."""
        self._link.send(self._request.at(offset))
        end, wanted = 0, _SIZE.size
        while end < wanted:
            end += received(self._link.socket.recv_into(self._link.view[end:]))
            if wanted == _SIZE.size and end >= wanted:
                wanted += _SIZE.unpack_from(self._link.buffer)[0]
        return self._link.view[:wanted]

    def records(self, response: memoryview) -> Any:
        """The record bytes of a response. Raises UnexpectedResponse."""
        _, body = decode_response(ApiKey.FETCH, FETCH_VERSION, response[_SIZE.size :])
        part = body.responses[0].partitions[0]
        if body.error_code or part.error_code:
            raise UnexpectedResponse(
                f"fetch was rejected, error codes {body.error_code} and {part.error_code}"
            )
        return part.records

    def replay(self, end_offset: int) -> tuple[int, float]:
        """Read from the start until `end_offset`; returns bytes of records and seconds."""
        offset = total_bytes = 0
        with gc_disabled():
            start_ns = time.perf_counter_ns()
            while offset < end_offset:
                records = self.records(self.fetch(offset))
                total_bytes += len(records)
                offset = next_offset(records)
            return total_bytes, (time.perf_counter_ns() - start_ns) / 1e9

    def replay_same(self, count: int) -> tuple[int, float]:
        """The same work over one repeated response, to find the ceiling of this reader."""
        total_bytes = 0
        with gc_disabled():
            start_ns = time.perf_counter_ns()
            for _ in range(count):
                records = self.records(self.fetch(0))
                total_bytes += len(records)
                next_offset(records)
            return total_bytes, (time.perf_counter_ns() - start_ns) / 1e9
