"""One partition of the transactions' topic: its machine, and decided transactions whose markers are being written.

A durable decision is completed until all its markers are written; the next leader of the shard resumes it.
`transactions` makes the decisions.
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
"""Initial and maximum delay between attempts to write markers."""
FINISH_UNITS = 8
"""Cost of starting to finish one transaction, see SLICE_UNITS."""

Attempt = asyncio.Future[BrokerError | None]
"""The first attempt to write a transaction's markers: resolved when it ends, successfully or not; with an error if the
shard has resigned."""


class TransactionShard(Shard[Transactions]):
    """Owns every transactional id that hashes to its partition."""

    def __init__(self, partition: Partition, markers: Markers, runtime: Runtime) -> None:
        super().__init__(partition, Transactions, TRANSACTION_RECORDS, runtime)
        self._markers = markers
        self._tasks = Tasks()
        self._attempts: dict[str, Attempt] = {}
        """Attempts by transactional id."""
        self._later: list[Event] = []
        """Events that are applied and appended with the next batch: no caller waits for them, and a replay would
        decide them again."""
        self._retry = asyncio.Event()
        """Set for a moment, to end the pauses between attempts."""

    # -- leadership

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
        """Append the deferred events, then resign."""
        await self._tasks.stop()
        try:
            self.persist_rest()
        except BrokerError as error:
            logger.warning(
                "cannot persist completed transactions; the next start completes them again: %s",
                error,
                extra={"partition": str(self.partition)},
            )
        self.resign(why)

    # -- changes

    def persist(self, events: Sequence[Event], *keys: str) -> int:
        """Append the deferred events first, in the same batch."""
        end_offset = self._append([*self._later, *events], keys)
        self._later.clear()
        self._apply(events)
        return end_offset

    def persist_later(self, events: Sequence[Event]) -> None:
        """Apply now, append with the next batch or in `persist_rest`: saves one flush per transaction."""
        self._check_whole()
        self._apply(events)
        self._later += events

    def persist_rest(self) -> None:
        if self._later:
            self.persist(())

    # -- completion

    def finish(self, transactional_id: str) -> Attempt:
        """Write the markers of a decided transaction, retrying until they are durable; resolves after the first
        attempt."""
        attempt = self._attempts.get(transactional_id)
        if attempt is None:
            attempt = self._attempts[transactional_id] = asyncio.get_running_loop().create_future()
            self._tasks.spawn(self._finish(transactional_id, attempt, self._attempts), self._crashed)
        return attempt

    def _crashed(self, bug: BaseException) -> None:
        """A task of this shard crashed: take the partition offline, because its state can no longer be trusted."""
        self.partition.fail(Offline(f"defect: {bug!r}"))

    async def _finish(self, transactional_id: str, attempt: Attempt, attempts: dict[str, Attempt]) -> None:
        """Retries until it succeeds: disk space may be freed, and the topic of an offline partition may be deleted."""
        pause_s = RETRY_S
        try:
            while (error := await self._try(transactional_id)) is not None:
                logger.warning(
                    "cannot write transaction markers, retrying in %.1f s: %s",
                    pause_s,
                    error,
                    extra={"transactional_id": transactional_id},
                )
                _mark_done(attempt)
                pause_s = RETRY_S if await self._is_woken(pause_s) else min(2 * pause_s, RETRY_S_MAX)
        finally:
            attempts.pop(transactional_id, None)
            _mark_done(attempt)

    async def _is_woken(self, pause_s: float) -> bool:
        """Wait for a pause; True if it is ended by `retry_markers`."""
        try:
            async with asyncio.timeout(pause_s):
                return await self._retry.wait()
        except TimeoutError:
            return False

    def retry_markers(self) -> None:
        """A broker that could not be reached may be back: until its markers are written, the transaction holds up
        readers, and its producer cannot begin another one."""
        self._retry.set()
        self._retry.clear()

    async def _try(self, transactional_id: str) -> BrokerError | None:
        """One attempt; returns the error, if any."""
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
