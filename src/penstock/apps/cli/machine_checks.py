"""Checks of this machine for `penstock doctor`: software, data directory, disk, flushes, clock, limits, ports.

A check measures or looks, and says what it found and what to do. It writes one small file next to the data, and
removes it.
"""

from __future__ import annotations

import ctypes
import logging
import os
import resource
import shutil
import socket
import statistics
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from penstock.apps.cli.terminal import shown_bytes
from penstock.client.extras import EXTRAS
from penstock.core.model import Storage
from penstock.core.records.loops import compiled_loops
from penstock.node.connections.addresses import is_wildcard
from penstock.node.settings import Settings

OK, WARNING, FAILED = "ok", "warning", "failed"

DISK_FREE_BYTES_MIN = 1 << 30
DISK_FREE_PERCENT_MIN = 10
MEMORY_FREE_BYTES_MIN = 256 << 20
FSYNC_COUNT = 32
FSYNC_BYTES = 4096
FSYNC_MS_MAX = 10.0
"""Slower than this, a disk limits a producer that waits for each record to 100 records per second."""
FSYNC_MS_MIN = 0.02
"""Faster than this, a flush cannot have reached a disk."""

_PORTS = {
    "Kafka": "port",
    "text": "text_port",
    "JSON": "json_port",
    "queue": "queue_port",
    "HTTP": "http_port",
}
_LOOPS = ("batch_builder", "columns", "walk")
_NETWORK_FILES = ("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "fuse.s3fs", "glusterfs")
_MOUNTS, _MEMORY = Path("/proc/mounts"), Path("/proc/meminfo")
_TIMEX_BYTES = 512
_CLOCK_UNSYNCHRONISED = 5


class CheckResult(NamedTuple):
    """What a check has found, and what to do about it."""

    check: str
    status: str
    found: str
    remedy: str = ""


def check_software() -> list[CheckResult]:
    """Python, compiled loops, the event loop, and the extras."""
    version = ".".join(map(str, sys.version_info[:3]))
    plain = [name for name in _LOOPS if compiled_loops(name) is None]
    missing = [*(["compiled loops"] if plain else []), *([] if find_spec("uvloop") else ["uvloop"])]
    results = [
        CheckResult(
            "software",
            WARNING if missing else OK,
            f"Python {version}"
            + (f", without {' and '.join(missing)}" if missing else ", compiled loops, uvloop"),
            "the broker works but is several times slower: install the wheel of this platform, or a C compiler and"
            " then `pip install --force-reinstall .`"
            if missing
            else "",
        )
    ]
    extras = dict.fromkeys(sorted(set(EXTRAS.values())), True)
    for package, extra in EXTRAS.items():
        extras[extra] &= package == "google" or find_spec(package) is not None
    have = ", ".join(name for name, is_there in extras.items() if is_there) or "none"
    lack = ", ".join(name for name, is_there in extras.items() if not is_there)
    found = f"installed: {have}" + (f"; not installed: {lack}" if lack else "")
    return [*results, CheckResult("extras", OK, found)]


def check_data_directory(settings: Settings) -> list[CheckResult]:
    """Whether the directory can be written, its file system, its free space and the speed of its flushes."""
    if settings.storage is Storage.MEMORY:
        found = "storage is memory: records are lost when the broker stops"
        return [CheckResult("data directory", WARNING, found, "set storage=disk to keep them")]
    root = Path(settings.data_dir).absolute()
    place = next(one for one in (root, *root.parents) if one.exists())
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        what = f"cannot write to {place}" if place.is_dir() else f"{place} is not a directory"
        remedy = f"run as its owner, `chown` it, or choose another one: --data-dir (data_dir is {root})"
        return [CheckResult("data directory", FAILED, what, remedy)]
    found = f"{root}" if root.exists() else f"{root}, which will be created"
    return [
        CheckResult("data directory", OK, found),
        _check_file_system(place),
        _check_space(place),
        _check_fsync(place),
    ]


def _check_file_system(place: Path) -> CheckResult:
    kind = file_system_of(place, _MOUNTS.read_text() if _MOUNTS.exists() else "")
    if kind in _NETWORK_FILES:
        remedy = "use a local disk: locks and flushes over a network may be lost or lie"
        return CheckResult("file system", WARNING, f"{kind}, a network file system", remedy)
    if kind in ("tmpfs", "ramfs"):
        remedy = "choose a data directory on a disk"
        return CheckResult("file system", WARNING, f"{kind}: its content is lost with the machine", remedy)
    if kind == "overlay":
        remedy = "mount a volume at the data directory"
        return CheckResult("file system", WARNING, "overlay: its content is lost with the container", remedy)
    return CheckResult("file system", OK, kind or "unknown")


def file_system_of(place: Path, mounts: str) -> str:
    """The type of the file system that holds a path, from the text of /proc/mounts; empty if unknown."""
    best, kind = -1, ""
    for line in mounts.splitlines():
        parts = line.split()
        if len(parts) < 3:
            continue
        point = Path(parts[1].encode().decode("unicode_escape"))
        if place.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), parts[2]
    return kind


def _check_space(place: Path) -> CheckResult:
    usage, files = shutil.disk_usage(place), os.statvfs(place)
    percent = 100 * usage.free / usage.total if usage.total else 0.0
    found = f"{shown_bytes(usage.free)} free of {shown_bytes(usage.total)} ({percent:.0f} %)"
    remedy = "free some space, or let topics keep less: settings retention_ms and retention_bytes"
    if usage.free < DISK_FREE_BYTES_MIN:
        return CheckResult("disk space", FAILED, found, remedy)
    if percent < DISK_FREE_PERCENT_MIN:
        return CheckResult("disk space", WARNING, found, remedy)
    if files.f_files and files.f_favail * 100 < files.f_files:
        return CheckResult(
            "disk space", WARNING, f"{files.f_favail} files can be created", "free some inodes"
        )
    return CheckResult("disk space", OK, found)


def _check_fsync(place: Path) -> CheckResult:
    try:
        times_ms = measure_fsync_ms(place)
    except OSError as error:
        return CheckResult(
            "fsync", FAILED, f"cannot flush a file in {place}: {error.strerror}", "check the disk"
        )
    return judge_fsync(statistics.median(times_ms), max(times_ms))


def measure_fsync_ms(place: Path) -> list[float]:
    """How long the flushes of small writes take. Raises OSError."""
    found = []
    with tempfile.NamedTemporaryFile(dir=place, prefix=".penstock-doctor-") as file:
        for _ in range(FSYNC_COUNT):
            os.write(file.fileno(), bytes(FSYNC_BYTES))
            started = time.perf_counter()
            os.fdatasync(file.fileno())
            found.append(1000 * (time.perf_counter() - started))
    return found


def judge_fsync(median_ms: float, longest_ms: float) -> CheckResult:
    """Whether flushes are as slow as a disk, and not slower."""
    found = f"{median_ms:.2f} ms per flush, at most {longest_ms:.1f} ms"
    if median_ms > FSYNC_MS_MAX:
        remedy = (
            "with durability=fsync every acknowledgement waits that long: use a faster disk, or accept losing the last"
            " records in a power failure with durability=interval"
        )
        return CheckResult("fsync", WARNING, found, remedy)
    if median_ms < FSYNC_MS_MIN:
        remedy = (
            "this is faster than any disk: a power failure may lose acknowledged records; check the volume"
        )
        return CheckResult("fsync", WARNING, found, remedy)
    return CheckResult("fsync", OK, found)


def check_clock() -> CheckResult:
    """Whether the system's clock is synchronised: retention and time lookups use it."""
    buffer = ctypes.create_string_buffer(_TIMEX_BYTES)
    try:
        state = ctypes.CDLL(None).adjtimex(buffer)
    except (OSError, AttributeError):
        return CheckResult("clock", OK, "the system does not tell whether it is synchronised")
    if state == _CLOCK_UNSYNCHRONISED:
        remedy = "run a time service (chrony, systemd-timesyncd); brokers of a cluster need the same time"
        return CheckResult("clock", WARNING, "not synchronised", remedy)
    if state < 0:
        return CheckResult("clock", OK, "the system does not tell whether it is synchronised")
    return CheckResult("clock", OK, "synchronised")


def check_limits(settings: Settings) -> list[CheckResult]:
    """Open files and memory."""
    from penstock.apps.ready import StartError
    from penstock.apps.serve import fit_to_descriptors

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = sys.maxsize if hard == resource.RLIM_INFINITY else hard
    remedy = "raise the limit: `ulimit -Hn`, LimitNOFILE= of systemd, or --ulimit nofile= of the container"
    logging.disable(logging.WARNING)  # what the broker would log is the result of this check
    try:
        fitted = fit_to_descriptors(settings, allowed)
    except StartError as error:
        return [CheckResult("open files", FAILED, str(error), remedy), _check_memory()]
    finally:
        logging.disable(logging.NOTSET)
    if fitted == settings:
        result = CheckResult(
            "open files", OK, f"{'no limit' if allowed == sys.maxsize else f'{allowed:,} allowed'}"
        )
    else:
        found = (
            f"{allowed:,} allowed: connections_max is reduced from {settings.connections_max} to"
            f" {fitted.connections_max}, open_files_max from {settings.open_files_max} to {fitted.open_files_max}"
        )
        result = CheckResult("open files", WARNING, found, remedy)
    return [result, _check_memory()]


def _check_memory() -> CheckResult:
    free = next(
        (
            int(line.split()[1]) << 10
            for line in (_MEMORY.read_text().splitlines() if _MEMORY.exists() else ())
            if line.startswith("MemAvailable:")
        ),
        None,
    )
    if free is None:
        return CheckResult("memory", OK, "the system does not tell how much is available")
    if free < MEMORY_FREE_BYTES_MIN:
        remedy = "stop other programs, or add memory: the system may kill the broker"
        return CheckResult("memory", WARNING, f"{shown_bytes(free)} available", remedy)
    return CheckResult("memory", OK, f"{shown_bytes(free)} available")


def check_ports(settings: Settings) -> list[CheckResult]:
    """Whether a broker with these settings could listen. For a broker that runs, ask it instead."""
    results = []
    for name, setting in _PORTS.items():
        port = getattr(settings, setting)
        if not port:
            continue  # off, or any free port
        problem = _bind_problem(settings.host, port)
        if problem:
            remedy = f"stop the program that uses it, or choose another {setting}"
            results.append(CheckResult("ports", FAILED, f"{name}: {settings.host}:{port}: {problem}", remedy))
    return results or [CheckResult("ports", OK, "all ports of the settings are free")]


def _bind_problem(host: str, port: int) -> str:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind((host if not is_wildcard(host) else "", port))
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return ""
