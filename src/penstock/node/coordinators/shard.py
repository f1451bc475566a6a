"""One partition of an internal topic and the machine that lives on it. Never decides: it keeps, replays, tells when.

The order is always: the machine decides, the shard appends the events, the machine applies them, and the answer goes
out once they are durable. Recovery is replay. If the partition fails, the machine is thrown away with it: there is no
rollback.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from penstock.core.errors import BrokerError, Loading
from penstock.core.model import NewRecord
from penstock.core.records.whole import build_batch, open_batch
from penstock.node.partition import Partition
from penstock.node.replicas.offset_waits import Settled
from penstock.node.runtime import Runtime

EventT = TypeVar("EventT")
EventIn = TypeVar("EventIn", contravariant=True)


class Machine(Protocol[EventIn]):
    """What a shard hosts."""

    def apply(self, event: EventIn) -> None: ...


class Shard(Generic[EventT]):
    """Made for each partition of the topic when the node starts."""

    def __init__(
        self,
        partition: Partition,
        machine: Machine[EventT],
        encode: Callable[[EventT], tuple[bytes, bytes | None]],
        decode: Callable[[bytes | None, bytes | None], EventT | None],
        runtime: Runtime,
    ) -> None:
        self.partition = partition
        self._machine = machine
        self._encode = encode
        self._decode = decode
        self._runtime = runtime
        self.is_ready = False

    def replay(self) -> None:
        """Bring the machine to where the partition ends. Records that `decode` answers with None are none of ours.

        Bytes that cannot be understood take the partition offline: state half read must not be served.
        """
        if self.partition.failure is not None:
            return
        try:
            self._replay()
        except BrokerError as error:
            self.partition.fail(error)
            return
        self.is_ready = True

    def _replay(self) -> None:
        for segment in self.partition.log.segments:
            for found in segment.walk(0, segment.size, prove=True):
                if found.header.is_control:
                    continue
                for record in open_batch(found.raw, found.header):
                    event = self._decode(record.key, record.value)
                    if event is not None:
                        self._machine.apply(event)

    def check_ready(self) -> None:
        self.partition.check_online()
        if not self.is_ready:
            raise Loading(f"{self.partition} is still being read")

    def append(self, events: Sequence[EventT]) -> int:
        """Write events as one batch, all or nothing; returns the offset that must be durable before they count.

        Raises when it cannot be appended, and then nothing has happened. Applying them is up to the caller.
        """
        self.check_ready()
        batch = build_batch(
            [NewRecord(*self._encode(event)) for event in events], self._runtime.clock.now_ms()
        )
        return self.partition.append_own(batch).end_offset

    def record(self, events: Sequence[EventT], settled: Settled) -> None:
        """Append and apply now; call back once it is durable. Raises, with nothing applied, when it cannot append."""
        self.check_ready()
        if not events:
            settled(None)
            return
        end_offset = self.append(events)
        for event in events:
            self._machine.apply(event)
        self.partition.when_committed(end_offset, settled)
