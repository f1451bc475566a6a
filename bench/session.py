"""What a row gets: a directory, CPUs, full or quick amounts, and progress reports."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from bench.figures import Figure
from penstock.apps.bench.harness.broker import BrokerProcess
from penstock.apps.bench.harness.link import UnexpectedResponse
from penstock.apps.bench.harness.loader import Loader
from penstock.apps.bench.harness.machine import Cpus

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
        """The amount for a full or a quick run."""
        return quick if self.is_quick else full

    def step(self, doing: str) -> None:
        """Report the next step; called only while nothing is timed."""
        self.on_step(doing)

    @contextmanager
    def home(self) -> Iterator[Path]:
        """A new directory, deleted at the end of the block."""
        self._homes += 1
        path = self.root / f"{self._homes:03d}"
        path.mkdir()
        try:
            yield path
        finally:
            shutil.rmtree(path)

    @contextmanager
    def broker(self, **flags: str | int) -> Iterator[BrokerProcess]:
        """A running broker on a new directory."""
        with self.stopped_broker(**flags) as server:
            server.start()
            yield server

    @contextmanager
    def stopped_broker(self, **flags: str | int) -> Iterator[BrokerProcess]:
        """A broker on a new directory that the row starts itself; killed at the end of the block."""
        with self.home() as home, closing(BrokerProcess(home, self.cpus.server, flags)) as server:
            yield server


def fill(server: BrokerProcess, frame: bytes, count: int, records: int, in_flight: int = 64) -> None:
    """Append the same batch many times and check the end offset."""
    with Loader(server.address) as loader:
        loader.create_topics([TOPIC])
        response_bytes = loader.produce(frame)
        loader.pipeline_s(frame, response_bytes, count - 1, in_flight)
        check_end(loader, count * records)


def check_end(loader: Loader, expected: int) -> None:
    """Check that the log contains everything that was acknowledged."""
    (end,) = loader.end_offsets(TOPIC)
    if end != expected:
        raise UnexpectedResponse(f"the log ends at {end}, {expected} records were acknowledged")


def data_file(server: BrokerProcess) -> Path:
    """The one segment file of the one topic."""
    (path,) = server.data_dir.glob("topics/*/0/*.log")
    return path
