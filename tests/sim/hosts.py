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
        self.held: list[tuple[Host, asyncio.Handle, Callable[..., object]]] | None = None
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


HOST: ContextVar[Host] = ContextVar("HOST")
"""The host on which the current code runs; tasks, callbacks and timers inherit it with their context."""
