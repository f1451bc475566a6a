"""Completes ListOffsets by timestamp: searches large batches in a worker, one after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from penstock.core.errors import BrokerError
from penstock.doors.kafka.call import Call
from penstock.node.waist.positions import TimedOffset
from penstock.node.waist.waist import Submit
from penstock.wire.kafka import messages

SEARCHES_MAX = 200
"""Maximum batches searched per request. Beyond it the base offset of the batch is returned: readers start early."""

Find = Callable[[], TimedOffset | None]
Fill = Callable[[TimedOffset], None]


class ExactOffsets:
    """The searches of one request. Batches are read one at a time, so that only one is in memory."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Find, Fill]] = deque()

    def add(self, find: Find, fill: Fill) -> None:
        """Add a search; `fill` gets the exact result."""
        if len(self._waiting) < SEARCHES_MAX:
            self._waiting.append((find, fill))

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def answer(self, call: Call, submit: Submit, response: messages.ListOffsetsResponse) -> None:
        """Search, then answer. The connection is held meanwhile, so that later requests take effect later."""
        answer = call.answer_later()
        release_hold = call.connection.hold()

        def go_on() -> None:
            while self._waiting and not call.connection.is_closed:
                find, fill = self._waiting.popleft()
                try:
                    found = find()
                except BrokerError:
                    continue  # the earlier, approximate result stands
                if found is not None and found.search is not None:
                    submit(found.search, partial(searched, fill))
                    return
            release_hold()
            if not call.connection.is_closed:
                answer(response)

        def searched(fill: Fill, outcome: TimedOffset | BaseException) -> None:
            if isinstance(outcome, BaseException):
                release_hold()
                call.connection.close(f"defect: {outcome!r}")
                raise outcome
            fill(outcome)
            go_on()

        go_on()
