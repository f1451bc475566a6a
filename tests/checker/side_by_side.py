"""Runs side by side: each in a process of its own, by whose number its network and its directories are named."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess

from checker.plan import Outcome

Run = Callable[[int], Outcome]

_OWN = (signal.SIGTERM, signal.SIGINT)
"""Signals that a run handles in its own way."""


def run_side_by_side(run: Run, seeds: Sequence[int], jobs: int) -> Generator[Outcome, None, None]:
    """The outcomes as they come. Whoever stops listening ends the runs that are under way."""
    if jobs == 1:
        yield from map(run, seeds)
        return
    waiting = list(seeds)
    under_way: dict[Connection, ForkProcess] = {}
    try:
        while waiting or under_way:
            while waiting and len(under_way) < jobs:
                pipe, process = _begin(run, waiting.pop(0))
                under_way[pipe] = process
            for ready in wait(list(under_way)):
                assert isinstance(ready, Connection)
                yield _end(ready, under_way.pop(ready))
    finally:
        for process in under_way.values():
            process.terminate()
        for process in under_way.values():
            process.join()


def _begin(run: Run, seed: int) -> tuple[Connection, ForkProcess]:
    pipe, far_end = get_context("fork").Pipe(duplex=False)
    process = get_context("fork").Process(target=_tell, args=(run, seed, far_end))
    with _signals_held():
        process.start()
    far_end.close()  # the process has the only one now: if it dies, the pipe ends
    return pipe, process


def _end(pipe: Connection, process: ForkProcess) -> Outcome:
    try:
        outcome: Outcome = pipe.recv()
    except EOFError:
        process.join()
        raise RuntimeError(f"the process of a run left with {process.exitcode} and told nothing") from None
    finally:
        pipe.close()
    process.join()
    return outcome


@contextmanager
def _signals_held() -> Iterator[None]:
    """A child inherits the handlers of this process: a signal must not reach them before it has set its own."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _OWN)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _tell(run: Run, seed: int, pipe: Connection) -> None:
    """SIGTERM ends the run, whatever this process had installed for it. A keyboard interrupts all processes, but only
    the first one tells the others: one interrupt, one clean-up.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _OWN)
    pipe.send(run(seed))
