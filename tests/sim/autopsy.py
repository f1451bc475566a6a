"""What frozen tasks look like, and how they are taken apart after a run. Never runs while the world moves."""

from __future__ import annotations

import asyncio
from pathlib import PurePath
from types import CoroutineType, FrameType
from typing import Any

from sim.hosts import Host

CLOSE_TRIES_MAX = 100
"""How often a frozen coroutine may await in its `finally` blocks before it is left to the interpreter."""


def describe(task: asyncio.Task[Any]) -> str:
    """One line: the task's name and the innermost line of code at which it waits."""
    inner: Any = task.get_coro()
    while isinstance(following := getattr(inner, "cr_await", None), CoroutineType):
        inner = following
    frame: FrameType | None = getattr(inner, "cr_frame", None)
    if frame is None:
        return task.get_name()
    where = f"{PurePath(frame.f_code.co_filename).name}:{frame.f_lineno}"
    return f"{task.get_name()} at {where} in {frame.f_code.co_qualname}"


def bury(host: Host) -> None:
    """Close what a dead host left behind, so that the garbage collector finds nothing to complain about."""
    context = host.context()
    for task in list(host.tasks):
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        if not task.done():
            context.run(_close, task.get_coro())
        elif not task.cancelled():
            task.exception()
    host.tasks.clear()


def _close(coroutine: Any) -> None:
    """The host is dead, its disk gone, its callbacks refused: whatever its `finally` blocks do is void."""
    for _ in range(CLOSE_TRIES_MAX):
        try:
            coroutine.close()
            return
        except BaseException as voice_of_the_dead:  # noqa: BLE001
            voice_of_the_dead.__traceback__ = None
