"""An asyncio event loop on virtual time and seeded order. Never waits, never reads a real clock."""

from __future__ import annotations

import asyncio
import functools
import gc
import hashlib
import heapq
import random
import sys
from asyncio import events as asyncio_events
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context
from enum import StrEnum
from typing import Any, NoReturn, TypeVar

from sim.autopsy import bury, describe
from sim.hosts import HOST, Host, PowerLost, SimHandle
from sim.net import NetKnobs, SimNet
from sim.server import SimServer

T = TypeVar("T")

RUN_S_MAX = 3_600.0
"""Virtual seconds after which a run counts as stuck: periodic timers would keep a dead end going for ever."""

RUN_STEPS_MAX = 20_000_000
"""Callbacks after which a run counts as spinning without letting time pass."""

COLLECT_STEPS = 100_000
"""The garbage collector runs at these steps only, so that finalizers run at the same place in every run."""

WORLDS_KEPT_MAX = 20
"""After about so many runs the worlds of the past are collected, before the next begins."""


class Order(StrEnum):
    """Which of the callbacks that are ready runs next."""

    FIFO = "fifo"
    """The order of asyncio, over all hosts."""
    HOSTS = "hosts"
    """A random host, and on it the order of asyncio: all that separate machines can do to each other."""
    ANY = "any"
    """Any callback: more disorder than asyncio allows itself, to find code that leans on its order."""


class Stuck(AssertionError):
    """The run can make no progress: nothing is left to happen, or it goes on for longer than it may."""


class SimLoop(asyncio.AbstractEventLoop):
    """Runs one simulation and is then used up. Its world has hosts, a network and streams of chance."""

    def __init__(
        self,
        seed: int,
        *,
        order: Order = Order.HOSTS,
        net: NetKnobs | None = None,
        log: Callable[[str], None] | None = None,
        is_traced: bool = True,
        run_s_max: float = RUN_S_MAX,
        run_steps_max: int = RUN_STEPS_MAX,
    ) -> None:
        self.seed = seed
        self.steps = 0
        self._order = order
        self._log = log
        self._is_traced = is_traced or log is not None
        self._run_s_max = run_s_max
        self._run_steps_max = run_steps_max
        self._now = 0.0
        self._chance = self.random_for("order")
        self._digest = hashlib.blake2b(digest_size=16)
        self._ready: list[SimHandle] = []
        self._timers: list[tuple[float, int, SimHandle]] = []
        """A heap. Both lists stay the same objects for the whole run, so that the steps can hold on to them."""
        self._timers_made = 0
        self._tasks_made = 0
        self._failure: BaseException | None = None
        self._running = False
        self._closed = False
        self.root = Host("root", 0)
        """Where the test itself runs; it cannot crash."""
        self._hosts = {"root": self.root}
        self._lives = [self.root]
        self.net = SimNet(self, net or NetKnobs())

    # ---- the world

    def random_for(self, name: str) -> random.Random:
        """A stream of chance of its own: drawing from one never shifts another."""
        return random.Random(f"{self.seed}/{name}")

    def here(self) -> Host:
        """The host on which the caller runs."""
        return HOST.get(self.root)

    def knows(self, name: str) -> bool:
        """Whether a host of that name was ever booted."""
        return name in self._hosts

    def latest(self, name: str) -> Host:
        """The newest life of a host, dead or alive."""
        return self._hosts[name]

    def host(self, name: str) -> Host:
        """The living host of that name; boots it when it never ran or has crashed."""
        known = self._hosts.get(name)
        if known is not None and known.alive:
            return known
        booted = Host(name, known.life + 1 if known else 0)
        self._hosts[name] = booted
        self._lives.append(booted)
        self.note(f"boot {name} life {booted.life}")
        if known is not None:
            known.silent = False
            self.net.retry_stalled()
        return booted

    def spawn(self, host: str, main: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
        """Run a coroutine as a task on a host."""
        return self.create_task(main, name=name, context=self.host(host).context())

    def freeze(self, host: Host) -> None:
        """End a host's life: none of its tasks, callbacks and timers runs again, and no `finally` either.
        `SimNet.crash` is the whole crash: it also tells the peers."""
        assert host is not self.root, "the root runs the test and cannot crash"
        host.alive = False
        self._ready[:] = [handle for handle in self._ready if handle.host.alive]
        self._timers[:] = [entry for entry in self._timers if entry[2].host.alive]
        heapq.heapify(self._timers)

    def pause(self, name: str) -> None:
        """Stop a process where it stands, as SIGSTOP does: its machine and the network go on."""
        host = self._hosts[name]
        assert host.alive and host.held is None, f"{name} does not run"
        self.note(f"pause {name}")
        host.held = [handle for handle in self._ready if handle.host is host]
        self._ready[:] = [handle for handle in self._ready if handle.host is not host]

    def resume(self, name: str) -> None:
        """Let a process go on that was paused: all that became due meanwhile is due at once."""
        host = self._hosts[name]
        assert host.alive and host.held is not None, f"{name} is not paused"
        self.note(f"resume {name}")
        self._ready += host.held
        host.held, host.resumed_s = None, self._now

    def note(self, text: str) -> None:
        """Add a line to the trace, if there is one."""
        if not self._is_traced:
            return
        line = f"{self.steps} {self._now:.9f} {text}"
        self._digest.update(line.encode() + b"\n")
        if self._log is not None:
            self._log(line)

    def digest(self) -> str:
        """A hash of the trace so far: equal for equal seeds."""
        return self._digest.hexdigest()

    # ---- running

    def run(self, main: Callable[[SimLoop], Coroutine[Any, Any, T]]) -> T:
        """Run `main(loop)` on the root host to its end; then the world stops where it stands."""
        assert asyncio_events._get_running_loop() is None, "a simulation cannot run inside a running loop"
        assert not self._closed, "a SimLoop runs once"
        if gc.get_count()[2] > WORLDS_KEPT_MAX:
            gc.collect()
        collecting, hooks = gc.isenabled(), sys.get_asyncgen_hooks()
        gc.disable()
        sys.set_asyncgen_hooks(firstiter=None, finalizer=self._close_generator)
        asyncio_events._set_running_loop(self)
        self._running = True
        try:
            task = self.create_task(main(self), name="main", context=self.root.context())
            self._run_until(task)
            for host in self._lives:
                host.release()
            gc.collect(1)
            if self._failure is not None:
                raise self._failure
            return task.result()
        except BaseException as error:
            error.add_note(f"in the simulation of seed {self.seed}, step {self.steps}, at {self._now:.6f} s")
            raise
        finally:
            self._running = False
            self.close()
            asyncio_events._set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)
            if collecting:
                gc.enable()

    def _run_until(self, task: asyncio.Task[Any]) -> None:
        ready, timers = self._ready, self._timers
        while not task.done():
            while timers and (timers[0][0] <= self._now or timers[0][2].is_cancelled):
                handle = heapq.heappop(timers)[2]
                if not handle.is_cancelled:
                    (ready if handle.host.held is None else handle.host.held).append(handle)
            if not ready:
                self._advance()
                continue
            handle = ready.pop(self._choose(ready) if len(ready) > 1 else 0)
            if not handle.is_cancelled:
                self._step(handle)

    def _choose(self, ready: list[SimHandle]) -> int:
        if self._order is Order.FIFO:
            return 0
        chosen = int(self._chance.random() * len(ready))
        if self._order is Order.ANY:
            return chosen
        host = ready[chosen].host
        for index in range(chosen):
            if ready[index].host is host:
                return index
        return chosen

    def _step(self, handle: SimHandle) -> None:
        self.steps += 1
        if self.steps > self._run_steps_max:
            self._give_up(f"still busy after {self._run_steps_max} steps")
        if self.steps % COLLECT_STEPS == 0:
            gc.collect(0)
        if self._is_traced:
            self.note(f"{handle.host.name} {_label(handle.callback)}")
        try:
            handle.context.run(handle.callback, *handle.args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001
            self.call_exception_handler(
                {"message": f"Exception in callback {_label(handle.callback)}", "exception": error}
            )
        if self._failure is not None:
            raise self._failure

    def _advance(self) -> None:
        if not self._timers:
            self._give_up("deadlock: nothing is left to happen")
        self._now = self._timers[0][0]
        if self._now > self._run_s_max:
            self._give_up(f"still running after {self._run_s_max} s")

    def _give_up(self, why: str) -> NoReturn:
        living = [host for host in self._lives if host.alive]
        waiting = [(host, task) for host in living for task in host.tasks if not task.done()]
        lines = [f"  {host.name}: {describe(task)}" for host, task in waiting]
        raise Stuck("\n".join([f"{why}; these tasks wait:", *lines]))

    def _close_generator(self, generator: Any) -> None:
        if not self._closed:
            self.create_task(generator.aclose())

    def close(self) -> None:
        """Freeze the whole world. Frozen tasks are taken apart only now, when nothing they do can matter."""
        self._closed = True
        for host in self._lives:
            host.alive = False
        self._ready.clear()
        self._timers.clear()
        for host in self._lives:
            bury(host)

    # ---- what asyncio asks of a loop

    def time(self) -> float:
        return self._now

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def get_debug(self) -> bool:
        return False

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[T]:
        host = self.here() if context is None else context.get(HOST, self.root)
        self._tasks_made += 1
        name = name or f"task-{self._tasks_made}"
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        host.hold(task)
        return task

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        host = self.here() if context is None else context.get(HOST, self.root)
        handle = SimHandle(host, self._now, callback, args, context)
        if host.alive:
            (self._ready if host.held is None else host.held).append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        host = self.here() if context is None else context.get(HOST, self.root)
        timer = SimHandle(host, when, callback, args, context)
        if host.alive:
            self._timers_made += 1
            heapq.heappush(self._timers, (when, self._timers_made, timer))
        return timer

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """An exception that nobody caught ends the run, unless it only told dead code that it is dead."""
        error = context.get("exception")
        if self._closed or isinstance(error, PowerLost) or self._failure is not None:
            return
        self._failure = error if isinstance(error, BaseException) else RuntimeError(context["message"])
        self._failure.add_note(str(context["message"]))

    async def create_server(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int = 0,
        *,
        backlog: int = 100,
        start_serving: bool = True,
    ) -> SimServer:
        """Listen on the caller's host. Nobody waits to be accepted, so `backlog` only has to make sense."""
        assert backlog > 0
        server = self.net.listen(protocol_factory, host, port)
        if start_serving:
            await server.start_serving()
        return server

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Connect the caller's host to a named one; loopback names mean the caller's own."""
        return await self.net.connect(protocol_factory, host, port)


def run(
    seed: int,
    main: Callable[[SimLoop], Coroutine[Any, Any, T]],
    *,
    order: Order = Order.HOSTS,
    net: NetKnobs | None = None,
    log: Callable[[str], None] | None = None,
    is_traced: bool = True,
) -> T:
    """One simulation from its seed: the result of `main(loop)`, or the exception that ended it. Without a trace it is
    faster, and runs the same."""
    loop = SimLoop(seed, order=order, net=net, log=log, is_traced=is_traced)  # type: ignore[abstract]
    return loop.run(main)


def _label(callback: Callable[..., object] | Awaitable[object]) -> str:
    """A name for the trace that is the same in every run: never an address."""
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return owner.get_name()
    if isinstance(callback, functools.partial):
        callback = callback.func
    return getattr(callback, "__qualname__", type(callback).__qualname__)
