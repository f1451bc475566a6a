"""Schedules the syncs of a log: group commit, or by time and count. The owner decides what to acknowledge.

The first append after a sync requests the next one; everything appended while a sync is running shares the one after
it. At most one sync runs at a time, and none after a failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from penstock.core.log.log import Log, SyncPlan
from penstock.node.replicas.sync import run_sync
from penstock.node.runtime.runtime import Runtime


class Flusher:
    """The syncs of one log."""

    __slots__ = (
        "_failed", "_is_due", "_is_running", "_is_stopped", "_log", "_loop", "_runtime", "_synced", "_timer",
        "_unsynced_records", "_waiters", "is_pending",
    )  # fmt: skip

    def __init__(
        self,
        log: Log,
        runtime: Runtime,
        synced: Callable[[], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._log = log
        self._runtime = runtime
        self._synced = synced
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self.is_pending = False
        """Whether a sync is requested or running: the owner checks for dirty data when it ends."""
        self._is_running = False
        self._is_due = False
        """Whether another sync was requested while one is running."""
        self._is_stopped = False
        self._unsynced_records = 0
        self._timer: asyncio.TimerHandle | None = None
        self._waiters: list[asyncio.Future[None]] = []

    def request(self) -> None:
        """Sync at the end of this loop iteration, together with everything appended in it."""
        if not self.is_pending:
            self.is_pending = True
            self._loop.call_soon(self.start)

    def schedule(self, count: int, after_ms: int, count_max: int) -> None:
        """Sync within `after_ms`; immediately if `count` more records reach `count_max` unsynced ones."""
        self._unsynced_records += count
        if 0 < count_max <= self._unsynced_records:
            self.start()
        elif self._timer is None:
            self._timer = self._loop.call_later(after_ms / 1000, self.start)

    def unschedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def start(self) -> None:
        """Sync what is dirty; if a sync is running, another one follows it."""
        if self._timer is not None:
            self.unschedule()
        if self._is_running:
            self._is_due = True
            return
        # Producers that append while fdatasync runs are covered by the next plan, not by this one: take_dirty() fixes
        # what this sync covers before the worker starts, so nothing is acknowledged that the sync may have missed.
        self._is_due = False
        self._is_running = self.is_pending = self._log.is_dirty and not self._is_stopped
        if self._is_running:
            self._unsynced_records = 0
            plan = self._log.take_dirty()
            self._runtime.workers.submit(
                partial(run_sync, self._runtime.files, plan), partial(self._done, plan)
            )

    async def sync_dirty(self) -> None:
        """Wait until everything that is dirty now is synced, or syncs have failed for good.

        Two waits suffice, for the running sync and for the rest, however much is written meanwhile.
        """
        for _ in range(2):
            if self._is_stopped or not (self._is_running or self._log.is_dirty):
                return
            await self.sync_once()

    async def sync_once(self) -> None:
        """Wait for the running sync, or for one that is started now because something is dirty."""
        self.start()
        assert self._is_running, "nothing is dirty: this wait would never end"
        done = self._loop.create_future()
        self._waiters.append(done)
        await done

    def _done(self, plan: SyncPlan, outcome: float | BaseException) -> None:
        self._is_running = self.is_pending = False
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()
        if isinstance(outcome, BaseException):
            # Never retried: after a failed fdatasync the kernel may drop the dirty pages and then report success.
            self._failed(outcome)
            return
        self._runtime.meters.fsyncs.observe(outcome)
        self._log.mark_synced(plan)
        # The owner may start the next sync from its callback, which also serves the request noted in `_is_due`;
        # taking the flag first keeps that request from being lost or served twice.
        is_due, self._is_due = self._is_due, False
        self._synced()
        if is_due and not self._is_running:
            self.start()

    def stop(self) -> None:
        """Start no more syncs; does not wait for the running one."""
        self._is_stopped = True
        self.unschedule()
