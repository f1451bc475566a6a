"""The machine that figures were measured on: CPUs, disk, versions, and CPU time taken by others."""

from __future__ import annotations

import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from penstock.apps.bench.harness.samples import percentile
from penstock.core.version import __version__

PROBE_BYTES = 1100
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_IDLE_FIELDS = (3, 4)
"""Fields of `/proc/stat` for idle time and time waiting for I/O."""
_STOLEN_FIELD = 7
"""Field of `/proc/stat` for steal time: the host ran other machines while this one had work."""


@dataclass(frozen=True, slots=True)
class Cpus:
    """The CPU of the server and that of the load generator; equal if there is only one."""

    server: int
    loader: int


def find_cpus() -> Cpus:
    allowed = sorted(os.sched_getaffinity(0))
    return Cpus(allowed[0], allowed[-1])


@contextmanager
def on_cpu(*cpus: int) -> Iterator[None]:
    """Pin this process to the CPUs within the block; child processes started there inherit them."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Disk:
    """Append and fdatasync on the same file system, as a reference."""

    def __init__(self, directory: Path, record: bytes = b"\xa5" * PROBE_BYTES) -> None:
        self._path = directory / "probe"
        self._record = record
        self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)

    def flush_us(self) -> float:
        """Time of one append and its fdatasync."""
        start = time.perf_counter_ns()
        os.write(self._fd, self._record)
        os.fdatasync(self._fd)
        return (time.perf_counter_ns() - start) / 1000

    def close(self) -> None:
        os.close(self._fd)
        self._path.unlink()


def probe_disk(directory: Path, count: int = 200) -> str:
    disk = Disk(directory)
    try:
        times_us = sorted(disk.flush_us() for _ in range(count))
    finally:
        disk.close()
    return f"p50 {percentile(times_us, 0.5):.0f} µs, p99 {percentile(times_us, 0.99):.0f} µs"


class OthersCpu:
    """CPU time taken by other processes and by the host during a measurement."""

    def __init__(self) -> None:
        self._start_s = time.monotonic()
        self._busy_s = _busy_s()
        self._own_s = _own_s()

    def share(self) -> float:
        """Number of CPUs that other work kept busy since the start; exact once all children were waited for."""
        elapsed_s = time.monotonic() - self._start_s
        others_s = (_busy_s() - self._busy_s) - (_own_s() - self._own_s)
        return max(0.0, others_s / elapsed_s)


class StolenCpu:
    """Share of the requested CPU time that the host gave to other machines."""

    def __init__(self) -> None:
        self._busy_s, self._stolen_s = _busy_s(), _stolen_s()

    def share(self) -> float:
        wanted_s = _busy_s() - self._busy_s
        return (_stolen_s() - self._stolen_s) / wanted_s if wanted_s else 0.0


def _cpu_ticks() -> list[int]:
    return [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]


def _busy_s() -> float:
    return sum(ticks for at, ticks in enumerate(_cpu_ticks()) if at not in _IDLE_FIELDS) / TICKS_PER_S


def _stolen_s() -> float:
    return _cpu_ticks()[_STOLEN_FIELD] / TICKS_PER_S


def _own_s() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def describe_machine(directory: Path, cpus: Cpus) -> dict[str, str]:
    """The facts for the header of a report."""
    pinning = f"server on CPU {cpus.server}, load on CPU {cpus.loader}"
    if cpus.server == cpus.loader:
        pinning = "server and load share one CPU: every figure is worse than with two"
    facts: dict[str, Callable[[], str]] = {
        "penstock": lambda: __version__,
        "python": lambda: f"{platform.python_implementation()} {sys.version.split()[0]}",
        "libraries": lambda: ", ".join(f"{name} {version(name)}" for name in ("uvloop", "google-crc32c")),
        "client": _librdkafka,
        "kernel": platform.release,
        "processor": lambda: f"{_processor()}, {os.cpu_count()} CPUs; {pinning}",
        "disk": lambda: _file_system(directory),
        "append + fdatasync": lambda: probe_disk(directory),
        "load before": lambda: f"{os.getloadavg()[0]:.2f} (1 min)",
    }
    return {name: fact() for name, fact in facts.items()}


def _librdkafka() -> str:
    import confluent_kafka

    return f"confluent-kafka {version('confluent-kafka')} on librdkafka {confluent_kafka.libversion()[0]}"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _file_system(directory: Path) -> str:
    """The mount of the directory: the longest mount point that is a prefix of it."""
    target = directory.resolve()
    best, found = Path("/"), "unknown"
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        point = Path(left.split()[4])
        if target.is_relative_to(point) and len(point.parts) >= len(best.parts):
            best, found = point, "{} on {}".format(*right.split()[:2])
    return f"{found} ({target})"
