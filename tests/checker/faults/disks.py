"""Disks that are full, slow, read-only or broken, and clocks that are wrong."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from checker.faults.scene import Scene

DISK_S = (2.0, 5.0)
SYNC_DELAY_US = 400_000
SKEW_MS = 3_600_000
"""Clocks are moved by up to an hour in either direction."""
TRACE_S_MAX = 10.0
FLUSHES = "fsync,fdatasync"
WRITES = "pwrite64,pwritev,pwritev2"
"""Those to files; sockets are written with other calls."""


def fill_disk(scene: Scene, left_s: float) -> None:
    broker, lasts_s = scene.site.disk_broker, scene.rng.uniform(*DISK_S)
    kills = scene.rng.random() < 0.5 or not scene.site.survives_disks
    scene.site.fill_disk()
    try:
        scene.sleep(lasts_s, left_s)
        if kills:
            broker.kill()
            scene.note_hosts("killed", [broker])
    finally:
        scene.site.free_disk()
        scene.write("freed")
    if kills:
        scene.start([broker])


def slow_disk(scene: Scene, left_s: float) -> None:
    """Every flush of a broker takes long."""
    broker, lasts_s = scene.any(), scene.rng.uniform(*DISK_S)
    with injected(broker.pid, f"{FLUSHES}:delay_enter={SYNC_DELAY_US}"):
        scene.sleep(lasts_s, left_s)
    scene.write("healed")


def fail_disk(scene: Scene, left_s: float) -> None:
    """Every flush of a leader fails, or every write, until somebody has seen to the disk and starts it again."""
    calls, lasts_s = scene.rng.choice([FLUSHES, f"{FLUSHES},{WRITES}"]), scene.rng.uniform(*DISK_S)
    broker = scene.leader()
    scene.note_hosts("failing", [broker])
    with injected(broker.pid, f"{calls}:error=EIO"):
        scene.sleep(lasts_s, left_s)
    broker.kill()
    scene.note_hosts("killed", [broker])
    scene.start([broker])


def make_disk_read_only(scene: Scene, left_s: float) -> None:
    """The kernel meets an error in the file system; it is checked and mounted again while the broker is down."""
    broker, lasts_s = scene.site.disk_broker, scene.rng.uniform(*DISK_S)
    scene.site.disk.turn_read_only()
    scene.sleep(lasts_s, left_s)
    broker.kill()
    scene.note_hosts("killed", [broker])
    scene.site.disk.repair()
    scene.start([broker])


def move_clocks(scene: Scene, left_s: float) -> None:
    """Of one or more brokers, and back; some are restarted while their clock is wrong."""
    brokers = scene.some(len(scene.site.brokers))
    kills = scene.rng.random() < 0.5
    for broker in brokers:
        broker.skew(scene.rng.randint(-SKEW_MS, SKEW_MS))
    scene.sleep(scene.rng.uniform(*DISK_S), left_s)
    if kills:
        scene.kill(brokers[:1], left_s)
    for broker in brokers:
        broker.skew(0)
    scene.write("healed")


@contextmanager
def injected(pid: int, what: str) -> Iterator[None]:
    """Bend system calls of a process by tracing it: `calls:error=…` or `calls:delay_enter=…`."""
    calls = what.partition(":")[0]
    words = [
        "strace",
        "-f",
        "-p",
        str(pid),
        "-o",
        "/dev/null",
        "-e",
        f"trace={calls}",
        "-e",
        f"inject={what}",
    ]
    tracer = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        tracer.terminate()
        tracer.wait(TRACE_S_MAX)
