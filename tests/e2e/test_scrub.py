"""Bytes that flip on the disk of one replica: found by a comparison or at the next start, repaired from the others."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from random import Random
from typing import Any
from urllib.request import urlopen

from conditions import until
from e2e.cluster_up import COMMAND, LocalUp, cluster_up
from penstock import Admin, Consumer, Producer

RECORDS = 3_000
SEGMENT_BYTES = 65_536


def get(up: LocalUp, path: str) -> Any:
    broker = next(one for one in up.ready["brokers"] if up.child(f"broker-{one['node_id']}"))
    with urlopen(f"http://127.0.0.1:{broker['http_port']}/api/v1/cluster{path}") as answer:
        return json.load(answer)


def placed(up: LocalUp) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in get(up, "/topics")["partitions"] if one["topic"] == "orders")
    return found


def segments(up: LocalUp, broker_id: int) -> list[Path]:
    """The data files of the partition on one broker."""
    by_directory: dict[Path, list[Path]] = {}
    for path in sorted((up.root / f"broker-{broker_id}" / "topics").glob("*/0/*.log")):
        by_directory.setdefault(path.parent, []).append(path)
    return max(by_directory.values(), key=lambda paths: sum(path.stat().st_size for path in paths))


def stored(up: LocalUp, broker_id: int) -> bytes:
    return b"".join(path.read_bytes() for path in segments(up, broker_id))


def flip(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 4]))


def scrub(up: LocalUp) -> dict[str, Any]:
    words = [
        *COMMAND,
        "cluster",
        "scrub",
        "orders",
        "--wait",
        "-o",
        "json",
        "--bootstrap",
        up.ready["bootstrap"],
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def until_equal(up: LocalUp, healthy: int) -> None:
    until(lambda: len(placed(up)["isr"]) == 3, "the replica was not repaired")
    until(
        lambda: all(stored(up, one) == stored(up, healthy) for one in (1, 2, 3)),
        "the replicas differ",
    )


def set_aside(up: LocalUp, broker_id: int) -> int:
    return len(list((up.root / f"broker-{broker_id}" / "topics").glob("*/0.stray-*")))


def test_a_flipped_byte_is_found_and_repaired(tmp_path: Path) -> None:
    words = ("--segment-bytes", str(SEGMENT_BYTES), "--text-port", "off", "--json-port", "off")
    with cluster_up(tmp_path, *words, brokers=3) as up:
        with Admin(bootstrap=up.ready["bootstrap"]) as admin:
            admin.create_topic("orders", 1)
        with Producer(bootstrap=up.ready["bootstrap"]) as producer:
            noise = Random(1)
            for number in range(RECORDS):
                producer.send("orders", f"{number:08d}" + noise.randbytes(60).hex())
                if number % 50 == 0:
                    producer.flush()
        until(lambda: len(placed(up)["isr"]) == 3, "the replicas are not in sync")
        assert scrub(up)["differences"] == 0

        # A closed segment of a follower, and then of the leader, which both run.
        for is_leader in (False, True):
            leader = placed(up)["leader"]
            victim = leader if is_leader else next(one for one in placed(up)["isr"] if one != leader)
            healthy = next(one for one in (1, 2, 3) if one != victim)
            flip(segments(up, victim)[1], SEGMENT_BYTES // 2)
            assert scrub(up)["differences"] == 1 + is_leader
            until(lambda victim=victim: set_aside(up, victim) == 1, "it was not set aside")  # type: ignore[misc]
            until_equal(up, healthy)
            assert placed(up)["leader"] != victim or not is_leader

        # The last segment of a broker that was killed: complete batches follow the damage.
        victim = placed(up)["leader"]
        pid = up.child(f"broker-{victim}")["pid"]
        last, before = segments(up, victim)[-1], set_aside(up, victim)
        os.kill(pid, signal.SIGKILL)
        flip(last, last.stat().st_size // 3)
        up.await_restart(f"broker-{victim}", pid)
        until(lambda: set_aside(up, victim) == before + 1, "it was not set aside")
        until_equal(up, next(one for one in (1, 2, 3) if one != victim))

        # Killed again, with damage in a segment that a start does not read.
        victim = placed(up)["leader"]
        pid, before = up.child(f"broker-{victim}")["pid"], set_aside(up, victim)
        os.kill(pid, signal.SIGKILL)
        up.await_restart(f"broker-{victim}", pid)
        until(lambda: len(placed(up)["isr"]) == 3, "the broker has not caught up")
        flip(segments(up, victim)[0], 200)
        assert scrub(up)["differences"] > 0
        until(lambda: set_aside(up, victim) == before + 1, "it was not set aside")
        until_equal(up, next(one for one in (1, 2, 3) if one != victim))

        status = [*COMMAND, "cluster", "status", "--bootstrap", up.ready["bootstrap"]]
        assert "found" in subprocess.run(status, capture_output=True, text=True, check=True).stdout
        with Consumer("orders", bootstrap=up.ready["bootstrap"], until_end=True) as consumer:
            read = [int((message.value or b"")[:8]) for message in consumer]
        assert read == list(range(RECORDS))
        assert up.end() == 0
