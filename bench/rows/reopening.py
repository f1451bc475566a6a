"""How long a large log takes to open again, after a clean stop and after kill -9. Never judges a quick run."""

from __future__ import annotations

import os
from statistics import median

from bench.server import Server
from bench.session import TOPIC, Session, data_file, fill
from penstock.apps.measuring.figures import Figure, at_most, figure
from penstock.apps.measuring.frames import VALUE_BYTES, make_batch, produce_frame

CLEAN_S_MAX = 1.0
KILLED_S_MAX = 5.0
ORDINARY_RECORDS = 100
SEGMENT_BYTES_MAX = 2**31 - 1
"""One segment holds it all: a crash leaves as much to prove as there can be."""


def measure(session: Session) -> list[Figure]:
    repeats = session.pick(5, 1)
    empty_ms = _empty_start_ms(session)
    log_bytes = session.pick(1_000_000_000, 250_000_000)
    figures = _reopen(session, log_bytes, ORDINARY_RECORDS, repeats, empty_ms, judged=not session.is_quick)
    small_bytes = session.pick(1_000_000_000, 25_000_000)
    return figures + _reopen(session, small_bytes, 1, max(1, repeats // 2), empty_ms, judged=False)


def _empty_start_ms(session: Session) -> float:
    times_ms: list[float] = []
    for _ in range(session.pick(5, 3)):
        session.step("start of an empty broker")
        with session.home() as home:
            server = Server(home, session.cpus.server)
            times_ms.append(server.start())
            server.close()
    return median(times_ms)


def _reopen(
    session: Session, log_bytes: int, records: int, repeats: int, empty_ms: float, *, judged: bool
) -> list[Figure]:
    """Fill once; kill and start, each time with all of it unproven; stop clean and start; then from a cold cache."""
    count = log_bytes // (records * VALUE_BYTES)
    words = f"{log_bytes / 1e9:g} GB log, {records} {'records' if records > 1 else 'record'} a batch"
    killed: list[float] = []
    clean: list[float] = []
    cold: list[float] = []
    session.step(f"fill: {words}")
    with session.home() as home:
        server = Server(
            home, session.cpus.server, checkpoint_interval_ms="1h", segment_bytes=SEGMENT_BYTES_MAX
        )
        server.start()
        try:
            fill(
                server,
                produce_frame(TOPIC, make_batch(records)),
                count,
                records,
                1_000 if records == 1 else 64,
            )
            for _ in range(repeats):
                session.step(f"kill -9 and start: {words}")
                server.kill()
                killed.append((server.start() - empty_ms) / 1000)
            server.kill()
            _forget_pages(server)
            cold.append((server.start() - empty_ms) / 1000)
            for _ in range(repeats):
                session.step(f"stop and start: {words}")
                server.stop()
                clean.append((server.start() - empty_ms) / 1000)
        finally:
            server.close()
    beside = f"over an empty start of {empty_ms:.0f} ms"
    bounds = (at_most(CLEAN_S_MAX), at_most(KILLED_S_MAX)) if judged else (None, None)
    return [
        figure(f"{words}: reopen, clean", "s", clean, beside, bounds[0]),
        figure(f"{words}: reopen, kill -9", "s", killed, f"{beside}; all of it unproven", bounds[1]),
        figure(f"{words}: the same from a cold page cache", "s", cold, beside),
    ]


def _forget_pages(server: Server) -> None:
    """Drop the log from the page cache, so that the disk has to be read."""
    fd = os.open(data_file(server), os.O_RDONLY)
    os.fdatasync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
