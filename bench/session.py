"""What a row works with: a place on disk, processors, how much to do, a way to say where it is. Never prints."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from bench.server import Server, running
from penstock.apps.measuring.figures import Figure
from penstock.apps.measuring.loader import Loader, UnexpectedAnswer
from penstock.apps.measuring.machine import Cpus

T = TypeVar("T")
TOPIC = "bench"

Row = Callable[["Session"], list[Figure]]


@dataclass(slots=True)
class Session:
    """One run of the benchmarks."""

    root: Path
    cpus: Cpus
    is_quick: bool
    on_step: Callable[[str], None]
    _homes: int = field(default=0)

    def pick(self, full: T, quick: T) -> T:
        """How much to do."""
        return quick if self.is_quick else full

    def step(self, doing: str) -> None:
        """Say what comes next; called off the clock only."""
        self.on_step(doing)

    @contextmanager
    def home(self) -> Iterator[Path]:
        """A fresh directory that goes away afterwards."""
        self._homes += 1
        path = self.root / f"{self._homes:03d}"
        path.mkdir()
        try:
            yield path
        finally:
            shutil.rmtree(path)

    @contextmanager
    def broker(self, **flags: str | int) -> Iterator[Server]:
        """A fresh broker on a fresh directory."""
        with self.home() as home, running(home, self.cpus.server, **flags) as server:
            yield server


def fill(server: Server, frame: bytes, count: int, records: int, in_flight: int = 64) -> None:
    """Append the same batch many times and check that the log holds it all."""
    with Loader(server.address) as loader:
        loader.create_topics([TOPIC])
        answer_bytes = loader.produce(frame)
        loader.pipeline_s(frame, answer_bytes, count - 1, in_flight)
        check_end(loader, count * records)


def check_end(loader: Loader, expected: int) -> None:
    """Everything that was acknowledged is in the log."""
    (end,) = loader.end_offsets(TOPIC)
    if end != expected:
        raise UnexpectedAnswer(f"the log ends at {end}, {expected} records were acknowledged")


def data_file(server: Server) -> Path:
    """The one segment file of the one topic."""
    (path,) = server.data_dir.glob("topics/*/0/*.log")
    return path
