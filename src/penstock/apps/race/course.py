"""How a row is run: a cold lap each, every server warmed until it is steady, then laps in turns. Never prints."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any, NamedTuple, TypeVar

from penstock.apps.measuring.loader import UnexpectedAnswer
from penstock.apps.measuring.machine import Cpus, StolenCpu
from penstock.apps.race.entrants import Entrant
from penstock.apps.race.fleet import Fleet
from penstock.apps.race.lanes.lane import Lane, WorkLane, WriteLane
from penstock.apps.race.servers.runner import Promise, Running

BREAKS_MAX = 2
"""A server that breaks so many laps of a row is left out of the rest of it."""
LAPS_MIN, LAPS, QUICK_LAPS = 3, 5, 2
WORDS_MAX = 300
STOLEN_MAX = 0.1
"""A lap is repeated when the host gave more than this share of its CPU time to other machines."""
STEADY_LAPS, STEADY_SPREAD = 3, 0.15
"""A server is steady when its last laps lie no further apart than this share of their median."""

AnyLane = TypeVar("AnyLane", bound=WriteLane)
Shared = TypeVar("Shared")


class Lap(NamedTuple):
    """What one lap measured: a value for each line of the row, and what it cost the server."""

    values: tuple[float, ...]
    messages: int
    cpu_s: float


class WarmUp(NamedTuple):
    """How long a server is loaded before its laps count."""

    seconds_min: float
    seconds_max: float


WARM_UPS = {"Kafka": WarmUp(20.0, 40.0)}
"""A Java virtual machine compiles what is used often, and needs load and time for it."""
WARM_UP = WarmUp(3.0, 10.0)
QUICK_WARM_UP = WarmUp(1.0, 4.0)


@dataclass(slots=True)
class Spent:
    cpu_s: float = 0.0


@dataclass(slots=True)
class Heat:
    """One server during one row."""

    course: Course
    entrant: Entrant
    server: Running
    kept: ExitStack = field(default_factory=ExitStack)
    """What laps of the row share; closed with the row."""
    _shared: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.entrant.runner.name

    def once(self, key: str, make: Callable[[], AbstractContextManager[Shared]]) -> Shared:
        """Enter a context in the first lap; later laps get the same value."""
        if key not in self._shared:
            self._shared[key] = self.kept.enter_context(make())
        value: Shared = self._shared[key]
        return value

    @contextmanager
    def stream(self, size: int) -> Iterator[Lane]:
        """An empty stream, deleted at the end of the block."""
        with made(self.entrant.lane(self.server, size, self.course.new_name())) as lane:
            yield lane

    @contextmanager
    def flushed_stream(self, size: int) -> Iterator[WriteLane]:
        """The same, over the lane whose acknowledgement means flushed."""
        with made(self.entrant.flushed_lane(self.server, size, self.course.new_name())) as lane:
            yield lane

    @contextmanager
    def queue(self, size: int) -> Iterator[WorkLane]:
        with made(self.entrant.work_lane(self.server, size, self.course.new_name())) as lane:
            yield lane

    @contextmanager
    def spent(self) -> Iterator[Spent]:
        """CPU time of the server inside the block; there once the block has ended."""
        found, before_s = Spent(), self.server.process.cpu_s()
        yield found
        found.cpu_s = self.server.process.cpu_s() - before_s


@contextmanager
def made(lane: AnyLane) -> Iterator[AnyLane]:
    lane.make_stream()
    yield lane
    lane.drop_stream()


RunLap = Callable[[Heat], Lap]


@dataclass(slots=True)
class Found:
    """All laps of a row."""

    steady_at: int = 0
    values: dict[str, list[tuple[float, ...]]] = field(default_factory=dict)
    cold: dict[str, tuple[float, ...]] = field(default_factory=dict)
    cpu_us: dict[str, list[float]] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)

    def add(self, name: str, lap: Lap) -> None:
        self.values.setdefault(name, []).append(lap.values)
        self.cpu_us.setdefault(name, []).append(lap.cpu_s * 1e6 / lap.messages)

    def note(self, name: str, text: str) -> None:
        self.notes.setdefault(name, []).append(text)

    def breaks(self, name: str) -> int:
        return sum(" broke: " in text for text in self.notes.get(name, ()))


@dataclass(slots=True)
class Course:
    """One run of the comparison."""

    fleet: Fleet
    cpus: Cpus
    is_quick: bool
    entrants: Sequence[Entrant]
    on_step: Callable[[str], None]
    over_at_s: float = math.inf
    """When the current row should be over, by the monotonic clock: laps beyond the fewest are then left out."""
    _streams: int = field(default=0)

    @property
    def laps(self) -> int:
        """How often each server runs, in turns with the others."""
        return QUICK_LAPS if self.is_quick else LAPS

    @property
    def lap_s(self) -> float:
        """How long a lap is measured where only a rate counts."""
        return 0.5 if self.is_quick else 1.5

    @property
    def tries(self) -> int:
        """How often a lap may run until the host leaves it alone; the least disturbed one counts."""
        return 1 if self.is_quick else 2

    def pick(self, full: int, quick: int) -> int:
        return quick if self.is_quick else full

    def new_name(self) -> str:
        """Of a stream that was never there before."""
        self._streams += 1
        return f"race-{self._streams:05d}"

    def warm_up_of(self, name: str) -> WarmUp:
        return QUICK_WARM_UP if self.is_quick else WARM_UPS.get(name, WARM_UP)

    @contextmanager
    def started(self, entrant: Entrant, promise: Promise) -> Iterator[Running]:
        """A server for this block alone."""
        server, home = self.fleet.start(entrant, promise)
        try:
            yield server
        finally:
            server.process.end()
            shutil.rmtree(home, ignore_errors=True)

    def race_warm(
        self, row: str, promise: Promise, run: RunLap, without: Sequence[str] = (), steady_at: int = 0
    ) -> Found:
        """A cold lap on a new server each, warm-up, then A-B-A-B over servers that stay up.

        A lap that breaks is noted and the others run on. `steady_at` is the line that says whether a server is warm.
        """
        found = Found(steady_at)
        entrants = [one for one in self.entrants if one.runner.name not in without]
        self.fleet.choose(promise)
        for entrant in () if self.is_quick else entrants:
            self.on_step(f"{row}: {entrant.runner.name}, cold")
            self._run_cold(entrant, promise, run, found)
        heats: dict[str, Heat] = {}
        with ExitStack() as stack:
            self._take_turns(row, entrants, found, lambda entrant: self._warm_lap(entrant, run, heats, found))
            for heat in heats.values():
                stack.callback(self._close_heat, heat)
        return found

    def race_fresh(self, row: str, run: Callable[[Entrant], Lap]) -> Found:
        """A-B-A-B where starting is the point: each lap starts its own server."""
        found = Found()
        self.fleet.close()
        self._take_turns(
            row, self.entrants, found, lambda entrant: self._least_disturbed(lambda: run(entrant))
        )
        return found

    def _take_turns(
        self, row: str, entrants: Sequence[Entrant], found: Found, run: Callable[[Entrant], Lap]
    ) -> None:
        began_s = time.monotonic()
        for lap in range(1, self.laps + 1):
            if lap > (1 if self.is_quick else LAPS_MIN) and not self._has_time_for(lap, began_s):
                break
            for entrant in entrants:
                name = entrant.runner.name
                self.on_step(f"{row}: {name}, lap {lap} of {self.laps}")
                if found.breaks(name) >= BREAKS_MAX:
                    continue
                try:
                    found.add(name, run(entrant))
                except Exception as error:  # noqa: BLE001 - shown in the result, and the other laps still run
                    found.note(name, f"lap {lap} broke: {_words(error)}")
                    self.fleet.discard(name)

    def _has_time_for(self, lap: int, began_s: float) -> bool:
        """Whether a lap like those before it would be over in time."""
        now_s = time.monotonic()
        return now_s + (now_s - began_s) / (lap - 1) <= self.over_at_s

    def _run_cold(self, entrant: Entrant, promise: Promise, run: RunLap, found: Found) -> None:
        name = entrant.runner.name
        try:
            with self.started(entrant, promise) as server:
                found.cold[name] = run(Heat(self, entrant, server)).values
        except Exception as error:  # noqa: BLE001 - shown in the result; the warm laps do not need it
            found.note(name, f"cold lap broke: {_words(error)}")

    def _warm_lap(self, entrant: Entrant, run: RunLap, heats: dict[str, Heat], found: Found) -> Lap:
        name = entrant.runner.name
        server, is_new = self.fleet.take(entrant)
        if is_new or name not in heats:
            heats[name] = Heat(self, entrant, server)
            self._warm_up(heats[name], run, found)
        return self._least_disturbed(lambda: run(heats[name]))

    def _warm_up(self, heat: Heat, run: RunLap, found: Found) -> None:
        """Laps that do not count, until the last of them lie close together and the least time is over."""
        bounds = self.warm_up_of(heat.name)
        began_s = time.monotonic()
        values: list[float] = []
        while True:
            values.append(run(heat).values[found.steady_at])
            elapsed_s = time.monotonic() - began_s
            if elapsed_s >= bounds.seconds_min and is_steady(values):
                return
            if elapsed_s >= bounds.seconds_max:
                if not self.is_quick:
                    found.note(heat.name, f"not steady after {elapsed_s:.0f} s of warm-up")
                return

    def _close_heat(self, heat: Heat) -> None:
        """Delete what the laps shared, so that the next row finds an empty server; a broken one is replaced."""
        server, is_new = self.fleet.take(heat.entrant)
        if is_new or server is not heat.server:
            return
        try:
            heat.kept.close()
        except (OSError, UnexpectedAnswer):
            self.fleet.discard(heat.name)

    def _least_disturbed(self, run: Callable[[], Lap]) -> Lap:
        laps: list[tuple[float, Lap]] = []
        while len(laps) < self.tries:
            stolen = StolenCpu()
            lap = run()
            share = stolen.share()
            laps.append((share, lap))
            if share <= STOLEN_MAX:
                break
        return min(laps, key=lambda lap: lap[0])[1]


def is_steady(values: Sequence[float]) -> bool:
    last = values[-STEADY_LAPS:]
    return len(last) == STEADY_LAPS and max(last) - min(last) <= STEADY_SPREAD * median(last)


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:WORDS_MAX]
