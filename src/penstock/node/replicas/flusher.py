"""When a log is synced: group commit, or by time and count. Never decides what is acknowledged: its owner is told.

The first append after a sync requests the next one; everything appended while a sync is under way shares the one after
it. There is one sync at a time, and none after one has failed.
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
        """Whether a sync is requested or under way: the owner looks at what is dirty when it is done."""
        self._is_running = False
        self._is_due = False
        """Whether another sync was asked for while one is under way."""
        self._is_stopped = False
        self._unsynced_records = 0
        self._timer: asyncio.TimerHandle | None = None
        self._waiters: list[asyncio.Future[None]] = []

    def request(self) -> None:
        """Sync at the end of this turn of the loop, together with all else that is appended in it."""
        if not self.is_pending:
            self.is_pending = True
            self._loop.call_soon(self.start)

    def schedule(self, count: int, after_ms: int, count_max: int) -> None:
        """Sync within `after_ms`; at once when `count` more records make it `count_max` that were not synced."""
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
        """Sync what is dirty, unless a sync is under way: that one is followed by another."""
        if self._timer is not None:
            self.unschedule()
        if self._is_running:
            self._is_due = True
            return
        self._is_due = False
        self._is_running = self.is_pending = self._log.is_dirty and not self._is_stopped
        if self._is_running:
            self._unsynced_records = 0
            plan = self._log.take_dirty()
            self._runtime.workers.submit(
                partial(run_sync, self._runtime.files, plan), partial(self._done, plan)
            )

    async def sync_dirty(self) -> None:
        """Wait until everything that is dirty now is synced, or no sync can succeed any more.

        What is being synced already, then the rest: two waits are enough, however much is written meanwhile.
        """
        for _ in range(2):
            if self._is_stopped or not (self._is_running or self._log.is_dirty):
                return
            await self.sync_once()

    async def sync_once(self) -> None:
        """Wait for the end of the sync under way, or of one that is started now because something is dirty."""
        self.start()
        assert self._is_running, "nothing is dirty, so nothing would end this wait"
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
            self._failed(outcome)
            return
        self._runtime.meters.fsyncs.observe(outcome)
        self._log.mark_synced(plan)
        is_due, self._is_due = self._is_due, False
        self._synced()
        if is_due and not self._is_running:
            self.start()

    def stop(self) -> None:
        """No more syncs; the one under way is not waited for."""
        self._is_stopped = True
        self.unschedule()
