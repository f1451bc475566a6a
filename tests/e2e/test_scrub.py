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
WORDS = ("--segment-bytes", str(SEGMENT_BYTES), "--text-port", "off", "--json-port", "off")


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


def fill(up: LocalUp) -> None:
    with Admin(bootstrap=up.ready["bootstrap"]) as admin:
        admin.create_topic("orders", 1)
    noise = Random(1)
    with Producer(bootstrap=up.ready["bootstrap"]) as producer:
        for number in range(RECORDS):
            producer.send("orders", f"{number:08d}" + noise.randbytes(60).hex())
            if number % 50 == 0:
                producer.flush()
    until(lambda: len(placed(up)["isr"]) == 3, "the replicas are not in sync")


def check_records(up: LocalUp) -> None:
    with Consumer("orders", bootstrap=up.ready["bootstrap"], until_end=True) as consumer:
        read = [int((message.value or b"")[:8]) for message in consumer]
    assert read == list(range(RECORDS))


def kill(up: LocalUp, broker_id: int) -> int:
    pid: int = up.child(f"broker-{broker_id}")["pid"]
    os.kill(pid, signal.SIGKILL)
    return pid


def other_than(broker_id: int) -> int:
    return next(one for one in (1, 2, 3) if one != broker_id)


def test_a_flipped_byte_is_found_and_repaired(tmp_path: Path) -> None:
    with cluster_up(tmp_path, *WORDS, brokers=3) as up:
        fill(up)
        assert scrub(up)["differences"] == 0
        for is_leader in (False, True):
            leader = placed(up)["leader"]
            victim = leader if is_leader else other_than(leader)
            before = set_aside(up, victim)
            flip(segments(up, victim)[1], SEGMENT_BYTES // 2)
            assert scrub(up)["differences"] == 1 + is_leader
            until(lambda: set_aside(up, victim) == before + 1, "it was not set aside")  # noqa: B023
            until_equal(up, other_than(victim))
        status = [*COMMAND, "cluster", "status", "--bootstrap", up.ready["bootstrap"]]
        shown = subprocess.run(status, capture_output=True, text=True, check=True).stdout
        assert "scrub        2 differences found" in shown
        check_records(up)
        assert up.end() == 0


def test_damage_of_a_broker_that_is_killed(tmp_path: Path) -> None:
    with cluster_up(tmp_path, *WORDS, brokers=3) as up:
        fill(up)
        # In the last segment: complete batches follow the damage, so the start notices.
        victim = placed(up)["leader"]
        last = segments(up, victim)[-1]
        pid = kill(up, victim)
        flip(last, last.stat().st_size // 3)
        up.await_restart(f"broker-{victim}", pid)
        until(lambda: set_aside(up, victim) == 1, "it was not set aside")
        until_equal(up, other_than(victim))

        # In a segment that the start has already verified.
        victim = placed(up)["leader"]
        before = set_aside(up, victim)
        up.await_restart(f"broker-{victim}", kill(up, victim))
        until(lambda: len(placed(up)["isr"]) == 3, "the broker has not caught up")
        flip(segments(up, victim)[0], 200)
        assert scrub(up)["differences"] > 0
        until(lambda: set_aside(up, victim) == before + 1, "it was not set aside")
        until_equal(up, other_than(victim))
        check_records(up)
        assert up.end() == 0
