"""Large requests: decoded, handled and encoded in slices, with a limit on how many are in flight.

Their connection is held until the handler has ended, so that requests of one connection take effect in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from penstock.core.errors import BrokerError
from penstock.core.limits import LARGE_ELEMENTS_IN_FLIGHT_MAX, REQUEST_ELEMENTS_MAX
from penstock.doors.kafka.call import Call
from penstock.node.runtime.slices import Sliced, Slices
from penstock.wire.kafka import API, decode_request_sliced

ELEMENT_BYTES_MIN = 2
"""Minimum encoded size of an array element, for estimating the size of a request."""

ANSWER_ELEMENTS = REQUEST_ELEMENTS_MAX // 4
"""Elements counted for a small request with a large response."""


class LargeRequests:
    """The large requests of one door."""

    def __init__(self, slices: Slices) -> None:
        self._slices = slices
        self._in_flight = 0
        self._waiting: deque[tuple[Call, int, Callable[[], None]]] = deque()

    def decode(
        self, call: Call, frame: memoryview, position: int, start: Callable[[Call, Any], bool]
    ) -> None:
        """Decode a large request, then start it. `start` returns whether its handler is still running."""
        release_hold = call.connection.hold()
        elements = min(len(frame) // ELEMENT_BYTES_MIN, REQUEST_ELEMENTS_MAX)

        def decoded(request: Any) -> None:
            is_at_work = False
            try:
                is_at_work = not self._is_failed(call, request) and start(call, request)
            except BrokerError as error:
                self._is_failed(call, error)
            finally:
                if not is_at_work:
                    self.settle(call)
                release_hold()

        def begin() -> None:
            steps = decode_request_sliced(call.api_key, call.version, frame, position)
            self._slices.queue(steps, decoded)

        self._admit(call, elements, begin)

    def handle(self, call: Call, steps: Sliced[Any]) -> bool:
        """Run a handler that works in slices. The first slice runs now; returns False if it was the only one."""

        def ended(body: Any) -> None:
            if not self._is_failed(call, body) and body is not None and not call.connection.is_closed:
                call.answer(body)

        if self._slices.start(steps, ended):
            return False
        release_hold = call.connection.hold()

        def ended_later(body: Any) -> None:
            ended(body)
            self.settle(call)
            release_hold()

        go_on = partial(self._slices.queue, steps, ended_later)
        if call.is_large:
            go_on()
        else:
            self._admit(call, ANSWER_ELEMENTS, go_on)
        return True

    def settle(self, call: Call) -> None:
        """The handler has ended. Its request counts until it is answered or the connection closes."""
        if call.on_answered is not None:
            call.connection.on_close(call.on_answered)

    def _is_failed(self, call: Call, outcome: Any) -> bool:
        """Whether the request failed; closes its connection then."""
        if isinstance(outcome, BrokerError):
            call.connection.close(f"{API[call.api_key].name}: {outcome}")
        elif isinstance(outcome, Exception):
            call.connection.close(f"defect: {outcome!r}")
        return isinstance(outcome, Exception)

    def _admit(self, call: Call, elements: int, begin: Callable[[], None]) -> None:
        """Start as soon as the limit allows, in order of arrival."""
        call.reserve_slot(self._slices)
        self._waiting.append((call, elements, begin))
        self._begin_next()

    def _begin_next(self) -> None:
        while self._waiting:
            call, elements, begin = self._waiting[0]
            if self._in_flight and self._in_flight + elements > LARGE_ELEMENTS_IN_FLIGHT_MAX:
                return
            self._waiting.popleft()
            self._in_flight += elements
            call.on_answered = partial(self._leave, call, elements)
            begin()

    def _leave(self, call: Call, elements: int) -> None:
        if call.on_answered is not None:
            call.connection.not_on_close(call.on_answered)
            call.on_answered = None
            self._in_flight -= elements
            self._begin_next()
