"""Blocking methods as coroutines: one thread per client makes its calls one after another. Never blocks the loop."""

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
    """A client that stands on a blocking one and has a thread for it."""

    @property
    def blocking(self) -> Blocking:
        """Raises IllegalState before the start and after the end."""

    @property
    def thread(self) -> ThreadPoolExecutor: ...


def threaded(
    method: Callable[Concatenate[Target, Params], Result],
) -> Callable[Concatenate[Threaded[Target], Params], Coroutine[Any, Any, Result]]:
    """The method of a blocking client as a coroutine of the one that stands on it, with the same arguments."""

    async def call(self: Threaded[Target], /, *args: Params.args, **kwargs: Params.kwargs) -> Result:
        bound = functools.partial(method, self.blocking, *args, **kwargs)
        return await in_thread(self.thread, bound)

    functools.update_wrapper(call, method)
    return call


def in_thread(thread: ThreadPoolExecutor, call: Callable[[], Result]) -> Awaitable[Result]:
    """One call, in that thread."""
    return asyncio.get_running_loop().run_in_executor(thread, call)


def new_thread(name: str) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix=f"penstock-{name}")
