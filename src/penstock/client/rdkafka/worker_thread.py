"""Runs blocking client methods as coroutines, one at a time in one thread per client. Never blocks the loop."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

Blocking = TypeVar("Blocking", covariant=True)
Target = TypeVar("Target")
Params = ParamSpec("Params")
Result = TypeVar("Result")


class Threaded(Protocol[Blocking]):
    """An asyncio client with a blocking client and a thread to run it."""

    @property
    def blocking(self) -> Blocking:
        """The blocking client. Raises IllegalState if it is not open."""

    @property
    def thread(self) -> ThreadPoolExecutor: ...


def threaded(
    method: Callable[Concatenate[Target, Params], Result],
) -> Callable[Concatenate[Threaded[Target], Params], Coroutine[Any, Any, Result]]:
    """Wrap a method of the blocking client as a coroutine method with the same arguments."""

    async def call(self: Threaded[Target], /, *args: Params.args, **kwargs: Params.kwargs) -> Result:
        bound = functools.partial(method, self.blocking, *args, **kwargs)
        return await in_thread(self.thread, bound)

    functools.update_wrapper(call, method)
    return call


def in_thread(thread: ThreadPoolExecutor, call: Callable[[], Result]) -> Awaitable[Result]:
    """Run one call in that thread."""
    return asyncio.get_running_loop().run_in_executor(thread, call)


def new_thread(name: str) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix=f"penstock-{name}")
