"""Time to reopen a large log after a clean stop and after kill -9. A quick run has no targets."""

from __future__ import annotations

import os
from statistics import median

from bench.figures import Figure, at_most, figure
from bench.session import TOPIC, Session, data_file, fill
from penstock.apps.bench.harness.broker import BrokerProcess
from penstock.apps.bench.harness.frames import VALUE_BYTES, make_batch, produce_frame

CLEAN_S_MAX = 1.0
KILLED_S_MAX = 5.0
ORDINARY_RECORDS = 100
SEGMENT_BYTES_MAX = 2**31 - 1
"""A single segment: the largest amount of log that recovery may have to verify."""


def measure(session: Session) -> list[Figure]:
    repeats = session.pick(5, 1)
    empty_ms = _empty_start_ms(session)
    log_bytes = session.pick(1_000_000_000, 250_000_000)
    figures = _reopen(
        session, log_bytes, ORDINARY_RECORDS, repeats, empty_ms, has_targets=not session.is_quick
    )
    small_bytes = session.pick(1_000_000_000, 25_000_000)
    return figures + _reopen(session, small_bytes, 1, max(1, repeats // 2), empty_ms, has_targets=False)


def _empty_start_ms(session: Session) -> float:
    times_ms: list[float] = []
    for _ in range(session.pick(5, 3)):
        session.step("start of an empty broker")
        with session.stopped_broker() as server:
            times_ms.append(server.start())
    return median(times_ms)


def _reopen(
    session: Session, log_bytes: int, records: int, repeats: int, empty_ms: float, *, has_targets: bool
) -> list[Figure]:
    """Fill once; kill and start, with the whole log to verify; then with a cold cache; then stop and start."""
    count = log_bytes // (records * VALUE_BYTES)
    name = f"{log_bytes / 1e9:g} GB log, {records} {'records' if records > 1 else 'record'} a batch"
    killed: list[float] = []
    clean: list[float] = []
    cold: list[float] = []
    session.step(f"fill: {name}")
    with session.broker(checkpoint_interval_ms="1h", segment_bytes=SEGMENT_BYTES_MAX) as server:
        fill(
            server,
            produce_frame(TOPIC, make_batch(records)),
            count,
            records,
            1_000 if records == 1 else 64,
        )
        for _ in range(repeats):
            session.step(f"kill -9 and start: {name}")
            server.kill()
            killed.append((server.start() - empty_ms) / 1000)
        server.kill()
        _forget_pages(server)
        cold.append((server.start() - empty_ms) / 1000)
        for _ in range(repeats):
            session.step(f"stop and start: {name}")
            server.stop()
            clean.append((server.start() - empty_ms) / 1000)
    reference = f"beyond an empty start of {empty_ms:.0f} ms"
    bounds = (at_most(CLEAN_S_MAX), at_most(KILLED_S_MAX)) if has_targets else (None, None)
    return [
        figure(f"{name}: reopen, clean", "s", clean, reference, bounds[0]),
        figure(f"{name}: reopen, kill -9", "s", killed, f"{reference}; the whole log is verified", bounds[1]),
        figure(f"{name}: the same from a cold page cache", "s", cold, reference),
    ]


def _forget_pages(server: BrokerProcess) -> None:
    """Drop the log from the page cache, so that it is read from disk."""
    fd = os.open(data_file(server), os.O_RDONLY)
    os.fdatasync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
