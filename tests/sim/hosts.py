"""Machines of the simulated world: who runs a piece of code. Never schedules anything; the loop does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from typing import Any

TASKS_KEPT = 30
"""Tasks of a host that may be done and still held: to forget each at once would cost a callback."""


class PowerLost(BaseException):
    """Raised into code whose machine is gone. No Exception, so that no ordinary handler keeps it running."""


class Host:
    """One life of one machine: it ends with a crash, and the next life is another Host of the same name."""

    def __init__(self, name: str, life: int) -> None:
        self.name = name
        self.life = life
        self.alive = True
        self.silent = False
        """Dead without a farewell: packets to it go nowhere until the machine boots again."""
        self.held: list[SimHandle] | None = None
        """What is ready to run while the process stands still; None while it runs."""
        self.resumed_s = -1.0
        """When the process last went on after standing still."""
        self.tasks: dict[asyncio.Task[Any], None] = {}
        """Held strongly and in order: the garbage collector must not close a frozen task."""
        self._tasks_max = TASKS_KEPT

    def context(self) -> Context:
        """A fresh context in which code runs on this host."""
        context = copy_context()
        context.run(HOST.set, self)
        return context

    def hold(self, task: asyncio.Task[Any]) -> None:
        self.tasks[task] = None
        if len(self.tasks) > self._tasks_max:
            self.release()
            self._tasks_max = TASKS_KEPT + 2 * len(self.tasks)

    def release(self) -> None:
        """Forget the tasks that are done. An exception that nobody has looked at is reported then."""
        for task in [task for task in self.tasks if task.done()]:
            del self.tasks[task]

    def __repr__(self) -> str:
        return f"<{self.name} life {self.life}{'' if self.alive else ', dead'}>"


class SimHandle(asyncio.TimerHandle):
    """A callback that is to run on a host, now or at a time. Slimmer than asyncio's: a run makes and asks millions."""

    __slots__ = ("args", "callback", "context", "host", "is_cancelled")

    def __init__(
        self,
        host: Host,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
    ) -> None:
        self.host = host
        self._when = when
        self.callback = callback
        self.args = args
        self.context = copy_context() if context is None else context
        self.is_cancelled = False

    def cancel(self) -> None:
        """Timers that are cancelled are skipped when their time comes, and hold on to nothing until then."""
        if not self.is_cancelled:
            self.is_cancelled = True
            self.callback, self.args = _nothing, ()

    def cancelled(self) -> bool:
        return self.is_cancelled


def _nothing() -> None:
    """What a cancelled callback would do."""


HOST: ContextVar[Host] = ContextVar("HOST")
"""The host on which the current code runs; tasks, callbacks and timers inherit it with their context."""
