"""One partition of the transactions' topic, live: its machine, and decisions on their way to the partitions.

A decision that is durable is carried out until all its markers stand; whoever leads next goes on with it. Deciding is
left to `transactions`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from penstock.core.errors import BrokerError, NotCoordinator, Offline
from penstock.core.machines.transactions.records import TRANSACTION_RECORDS
from penstock.core.machines.transactions.transactions import Transactions
from penstock.core.machines.transactions.values import PREPARED, Event
from penstock.node.coordinators.markers import Markers
from penstock.node.coordinators.shard import Shard
from penstock.node.replicas.partition import Partition
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.slices import Sliced
from penstock.node.runtime.tasks import Tasks

logger = logging.getLogger("penstock.transactions")

RETRY_S, RETRY_S_MAX = 0.2, 5.0
"""Markers that could not be written are tried again this much later, and then less and less often."""
FINISH_UNITS = 8
"""What it costs to start to carry out one decision, see SLICE_UNITS."""

Attempt = asyncio.Future[BrokerError | None]
"""The first attempt at the markers of a transaction: done once it has ended, well or not; an error if nobody goes on
with it here."""


class TransactionShard(Shard[Transactions]):
    """Owns every transactional id that hashes to its partition."""

    def __init__(self, partition: Partition, markers: Markers, runtime: Runtime) -> None:
        super().__init__(partition, Transactions, TRANSACTION_RECORDS, runtime)
        self._markers = markers
        self._tasks = Tasks()
        self._attempts: dict[str, Attempt] = {}
        """Transactional id → its attempt."""
        self._later: list[Event] = []
        """Applied, and written with what comes next: nobody waits for it, and a restart would decide the same again."""

    # -- leading

    def _resume(self) -> Sliced[None]:
        for one in self.machine.prepared:
            self.finish(one.transactional_id)
            yield FINISH_UNITS

    def _on_resign(self, error: NotCoordinator) -> None:
        self._tasks.cancel()
        self._later.clear()
        attempts, self._attempts = self._attempts, {}
        for attempt in attempts.values():
            if not attempt.done():
                attempt.set_result(error)

    async def stop(self, why: str) -> None:
        """Write what was put off, then resign."""
        await self._tasks.stop()
        try:
            self.persist_rest()
        except BrokerError as error:
            logger.warning("ended transactions are completed once more at the next start: %s", error)
        self.resign(why)

    # -- changing

    def persist(self, events: Sequence[Event], *keys: str) -> int:
        """What was put off goes first, in the same batch."""
        end_offset = self._append([*self._later, *events], keys)
        self._later.clear()
        self._apply(events)
        return end_offset

    def persist_later(self, events: Sequence[Event]) -> None:
        """Apply now, append with the next batch or when `persist_rest` is called: a flush less for every commit."""
        self._check_whole()
        self._apply(events)
        self._later += events

    def persist_rest(self) -> None:
        if self._later:
            self.persist(())

    # -- carrying out decisions

    def finish(self, transactional_id: str) -> Attempt:
        """Have the markers of a decided transaction written, however long it takes; done after the first attempt."""
        attempt = self._attempts.get(transactional_id)
        if attempt is None:
            attempt = self._attempts[transactional_id] = asyncio.get_running_loop().create_future()
            self._tasks.spawn(self._finish(transactional_id, attempt, self._attempts), self._crashed)
        return attempt

    def _crashed(self, bug: BaseException) -> None:
        """Work on this shard crashed: nothing that it holds can be trusted any more."""
        self.partition.fail(Offline(f"defect: {bug!r}"))

    async def _finish(self, transactional_id: str, attempt: Attempt, attempts: dict[str, Attempt]) -> None:
        """Until it is done: a disk may have room again, and an offline partition's topic may be deleted."""
        pause_s = RETRY_S
        try:
            while (error := await self._try(transactional_id)) is not None:
                logger.warning(
                    "cannot write transaction markers; retrying: %s",
                    error,
                    extra={"transactional_id": transactional_id},
                )
                _mark_done(attempt)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, RETRY_S_MAX)
        finally:
            attempts.pop(transactional_id, None)
            _mark_done(attempt)

    async def _try(self, transactional_id: str) -> BrokerError | None:
        """One attempt; returns what stood in its way."""
        one = self.machine.get(transactional_id)
        assert one.state in PREPARED, one
        try:
            await self.persisted(transactional_id)
            await self._markers.write(one, self.epoch)
            self.persist_later(self.machine.decide_complete(transactional_id, self._runtime.clock.now_ms()))
        except BrokerError as error:
            return error
        return None


def _mark_done(attempt: Attempt) -> None:
    if not attempt.done():
        attempt.set_result(None)
