"""Measures one row: a cold run per server, warm-up until steady, then interleaved runs. Prints nothing."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any, NamedTuple, TypeVar

from penstock.apps.bench.compare.drivers.driver import StreamDriver, WorkDriver, WriteDriver
from penstock.apps.bench.compare.runs.contenders import Contender
from penstock.apps.bench.compare.runs.server_pool import ServerPool
from penstock.apps.bench.compare.servers.launcher import RunningCluster, RunningServer
from penstock.apps.bench.harness.cluster import Cluster
from penstock.apps.bench.harness.link import UnexpectedResponse
from penstock.apps.bench.harness.machine import Cpus, StolenCpu
from penstock.apps.bench.harness.process import CpuTime
from penstock.core.model import Durability

FAILURES_MAX = 2
"""A server with this many failed runs in a row is skipped for the rest of that row."""
RUNS_MIN, RUNS, QUICK_RUNS = 3, 5, 2
ERROR_CHARS_MAX = 300
STOLEN_MAX = 0.1
"""A run is repeated if the host gave more than this share of its CPU time to other machines."""
STEADY_RUNS, STEADY_SPREAD = 3, 0.15
"""A server is steady when its last runs lie within this share of their median."""

AnyDriver = TypeVar("AnyDriver", bound=WriteDriver)
Shared = TypeVar("Shared")


class RunResult(NamedTuple):
    """One measured run: a value per line of the row, and the CPU time that its messages cost the server."""

    values: tuple[float, ...]
    messages: int
    cpu_s: float


class WarmUp(NamedTuple):
    """How long a server is loaded before its runs count."""

    seconds_min: float
    seconds_max: float


WARM_UPS = {"Kafka": WarmUp(20.0, 40.0)}
"""The JVM compiles hot code while it runs, which takes load and time."""
WARM_UP = WarmUp(3.0, 10.0)
QUICK_WARM_UP = WarmUp(1.0, 4.0)


@dataclass(slots=True)
class RunContext:
    """One server during one row: what a run gets."""

    runner: RowRunner
    contender: Contender
    server: RunningServer
    resources: ExitStack = field(default_factory=ExitStack)
    """What the runs of the row share; closed after the row."""
    _shared: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.contender.launcher.name

    @property
    def cluster(self) -> Cluster:
        """The brokers, in rows over several."""
        assert isinstance(self.server, RunningCluster)
        return self.server.cluster

    def once(self, key: str, make: Callable[[], AbstractContextManager[Shared]]) -> Shared:
        """Enter a context in the first run; later runs get the same value."""
        if key not in self._shared:
            self._shared[key] = self.resources.enter_context(make())
        value: Shared = self._shared[key]
        return value

    @contextmanager
    def stream(self, size: int) -> Iterator[StreamDriver]:
        """An empty stream, deleted at the end of the block."""
        with created(self.contender.stream_driver(self.server, size, self.runner.new_name())) as driver:
            yield driver

    @contextmanager
    def flushed_stream(self, size: int) -> Iterator[WriteDriver]:
        """An empty stream whose acknowledgements mean flushed, deleted at the end of the block."""
        with created(self.contender.flushed_driver(self.server, size, self.runner.new_name())) as driver:
            yield driver

    @contextmanager
    def queue(self, size: int) -> Iterator[WorkDriver]:
        """An empty work queue, deleted at the end of the block."""
        with created(self.contender.work_driver(self.server, size, self.runner.new_name())) as driver:
            yield driver

    def cpu_time(self) -> AbstractContextManager[CpuTime]:
        """CPU time of the server within a block."""
        return self.server.process.cpu_time()


@contextmanager
def created(driver: AnyDriver) -> Iterator[AnyDriver]:
    """The driver with its stream created; a stream whose run failed is left to the discarded server."""
    driver.create_stream()
    yield driver
    driver.delete_stream()


MeasureRun = Callable[[RunContext], RunResult]


@dataclass(slots=True)
class RowSamples:
    """All runs of one row, by server."""

    steady_at: int = 0
    values: dict[str, list[tuple[float, ...]]] = field(default_factory=dict)
    cold: dict[str, tuple[float, ...]] = field(default_factory=dict)
    cpu_us: dict[str, list[float]] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, run: RunResult) -> None:
        self.values.setdefault(name, []).append(run.values)
        self.cpu_us.setdefault(name, []).append(run.cpu_s * 1e6 / run.messages)

    def note(self, name: str, text: str) -> None:
        self.notes.setdefault(name, []).append(text)

    def add_failure(self, name: str, what: str, error: Exception) -> None:
        self.failures[name] = self.failures.get(name, 0) + 1
        self.note(name, f"{what} failed: {_describe_error(error)}")


@dataclass(slots=True)
class RowRunner:
    """Runs the rows of one comparison."""

    pool: ServerPool
    cpus: Cpus
    is_quick: bool
    contenders: Sequence[Contender]
    on_step: Callable[[str], None]
    over_at_s: float = math.inf
    """When the current row should be over, by the monotonic clock: later, only the minimum number of runs is made."""
    _streams: int = field(default=0)

    @property
    def runs(self) -> int:
        """How many runs each server gets, interleaved with the others."""
        return QUICK_RUNS if self.is_quick else RUNS

    @property
    def run_s(self) -> float:
        """How long a run is measured where only a rate counts."""
        return 0.5 if self.is_quick else 1.5

    @property
    def tries(self) -> int:
        """How often a run that the host disturbed is measured; the least disturbed one counts."""
        return 1 if self.is_quick else 2

    def pick(self, full: int, quick: int) -> int:
        return quick if self.is_quick else full

    def new_name(self) -> str:
        """A stream name that was not used before."""
        self._streams += 1
        return f"bench-{self._streams:05d}"

    def warm_up_of(self, name: str) -> WarmUp:
        return QUICK_WARM_UP if self.is_quick else WARM_UPS.get(name, WARM_UP)

    @contextmanager
    def started(self, contender: Contender, durability: Durability) -> Iterator[RunningServer]:
        """A new server that is killed at the end of the block."""
        server, home = self.pool.start(contender, durability)
        try:
            yield server
        finally:
            server.process.kill()
            shutil.rmtree(home, ignore_errors=True)

    def run_warm(
        self,
        row: str,
        durability: Durability,
        measure: MeasureRun,
        without: Sequence[str] = (),
        steady_at: int = 0,
        warm_with: MeasureRun | None = None,
    ) -> RowSamples:
        """A cold run on a new server each, warm-up, then interleaved runs (A B A B) on servers that stay up.

        A failed run is noted, and the others go on. `steady_at` is the line that decides whether a server is warm.
        With another load for the warm-up there is no cold run.
        """
        samples = RowSamples(steady_at)
        contenders = [one for one in self.contenders if one.launcher.name not in without]
        self.pool.choose(durability)
        for contender in () if self.is_quick or warm_with is not None else contenders:
            self.on_step(f"{row}: {contender.launcher.name}, cold")
            self._run_cold(contender, durability, measure, samples)
        contexts: dict[str, RunContext] = {}
        with ExitStack() as stack:
            self._interleave(
                row,
                contenders,
                samples,
                lambda contender: self._run_warm(contender, measure, warm_with or measure, contexts, samples),
            )
            for context in contexts.values():
                stack.callback(self._close_context, context)
        return samples

    def run_fresh(self, row: str, measure: Callable[[Contender], RunResult]) -> RowSamples:
        """Interleaved runs that each start their own server, for rows that measure the start."""
        samples = RowSamples()
        self.pool.close()
        self._interleave(
            row, self.contenders, samples, lambda contender: self._least_disturbed(lambda: measure(contender))
        )
        return samples

    def _interleave(
        self,
        row: str,
        contenders: Sequence[Contender],
        samples: RowSamples,
        measure: Callable[[Contender], RunResult],
    ) -> None:
        began_s = time.monotonic()
        for number in range(1, self.runs + 1):
            if number > (1 if self.is_quick else RUNS_MIN) and not self._has_time_for(number, began_s):
                break
            for contender in contenders:
                name = contender.launcher.name
                self.on_step(f"{row}: {name}, run {number} of {self.runs}")
                if samples.failures.get(name, 0) >= FAILURES_MAX:
                    continue
                try:
                    samples.add(name, measure(contender))
                except Exception as error:  # noqa: BLE001 - part of the result, and the other runs go on
                    samples.add_failure(name, f"run {number}", error)
                    self.pool.discard(name)

    def _has_time_for(self, number: int, began_s: float) -> bool:
        """Whether a round like those before it would be over in time."""
        now_s = time.monotonic()
        return now_s + (now_s - began_s) / (number - 1) <= self.over_at_s

    def _run_cold(
        self, contender: Contender, durability: Durability, measure: MeasureRun, samples: RowSamples
    ) -> None:
        name = contender.launcher.name
        try:
            with self.started(contender, durability) as server:
                samples.cold[name] = measure(RunContext(self, contender, server)).values
        except Exception as error:  # noqa: BLE001 - part of the result; the warm runs do not need it
            samples.add_failure(name, "cold run", error)

    def _run_warm(
        self,
        contender: Contender,
        measure: MeasureRun,
        warm_up: MeasureRun,
        contexts: dict[str, RunContext],
        samples: RowSamples,
    ) -> RunResult:
        name = contender.launcher.name
        server, is_new = self.pool.take(contender)
        if is_new or name not in contexts:
            contexts[name] = RunContext(self, contender, server)
            self._warm_up(contexts[name], warm_up, samples)
        return self._least_disturbed(lambda: measure(contexts[name]))

    def _warm_up(self, context: RunContext, measure: MeasureRun, samples: RowSamples) -> None:
        """Runs that do not count, until the last ones are steady and the minimum time is over."""
        bounds = self.warm_up_of(context.name)
        began_s = time.monotonic()
        values: list[float] = []
        while True:
            values.append(measure(context).values[samples.steady_at])
            elapsed_s = time.monotonic() - began_s
            if elapsed_s >= bounds.seconds_min and is_steady(values):
                return
            if elapsed_s >= bounds.seconds_max:
                if not self.is_quick:
                    samples.note(context.name, f"not steady after {elapsed_s:.0f} s of warm-up")
                return

    def _close_context(self, context: RunContext) -> None:
        """Delete what the runs shared, so that the next row gets an empty server; a broken server is discarded."""
        server, is_new = self.pool.take(context.contender)
        if is_new or server is not context.server:
            return
        try:
            context.resources.close()
        except (OSError, UnexpectedResponse):
            self.pool.discard(context.name)

    def _least_disturbed(self, measure: Callable[[], RunResult]) -> RunResult:
        runs: list[tuple[float, RunResult]] = []
        while len(runs) < self.tries:
            stolen = StolenCpu()
            run = measure()
            share = stolen.share()
            runs.append((share, run))
            if share <= STOLEN_MAX:
                break
        return min(runs, key=lambda measured: measured[0])[1]


def is_steady(values: Sequence[float]) -> bool:
    last = values[-STEADY_RUNS:]
    return len(last) == STEADY_RUNS and max(last) - min(last) <= STEADY_SPREAD * median(last)


def _describe_error(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:ERROR_CHARS_MAX]
