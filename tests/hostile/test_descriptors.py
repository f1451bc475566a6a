"""A broker with few file descriptors: clients may use up all they are allowed, and nothing goes offline for ever."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.admin import CreateTopicsRequest
from kafka.protocol.metadata import MetadataRequest

from compat.raw import RawConnection, batch
from conditions import until
from hostile.harness import ProbedBroker

DESCRIPTORS = 130
TOPICS = 40


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ProbedBroker]:
    """A broker under `ulimit -n`: the lowered limits leave room for log files."""
    prefix = ("sh", "-c", f'ulimit -n {DESCRIPTORS}; exec "$@"', "sh")
    running = ProbedBroker(tmp_path, {"auto_create_topics": True}, prefix)
    running.start()
    try:
        yield running
    finally:
        running.close()


def _hoard(broker: ProbedBroker, stack: ExitStack, count: int) -> None:
    """Open connections until the broker takes no more; those that it refuses stay open at this end."""
    for _ in range(count):
        with suppress(OSError):
            stack.enter_context(socket.create_connection((broker.host, broker.port), timeout=5.0))


def _error_of(connection: RawConnection, topic: str) -> int:
    """Produce one acknowledged record; Kafka's error code."""
    return int(connection.produce(topic, batch(b"value")).error_code)


def test_the_limits_are_lowered_to_what_the_system_allows(broker: ProbedBroker) -> None:
    line = next(line for line in broker.output().splitlines() if "connections_max reduced" in line)
    assert f"the system allows {DESCRIPTORS} open files" in line and "ulimit -n" in line


def test_topics_are_written_to_while_clients_hoard_connections(broker: ProbedBroker) -> None:
    with RawConnection(broker.bootstrap) as connection, ExitStack() as stack:
        connection.create_topic("before")
        assert _error_of(connection, "before") == 0
        _hoard(broker, stack, DESCRIPTORS * 2)
        assert "rejecting connection" in broker.output() and "connections_max" in broker.output()
        for number in range(TOPICS):
            connection.create_topic(f"meanwhile-{number}")
            assert _error_of(connection, f"meanwhile-{number}") == 0
        assert _error_of(connection, "before") == 0
    assert "offline" not in broker.output() and "Traceback" not in broker.output()


def test_running_out_altogether_is_over_as_soon_as_there_are_descriptors_again(broker: ProbedBroker) -> None:
    """The limit is taken away under the running broker: even its reserve is of no use then."""
    with RawConnection(broker.bootstrap) as connection:
        connection.create_topic("before")
        allowed = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (3, allowed[1]))
        try:
            for number in range(3):
                connection.call(CreateTopicsRequest, 5, **_creation(f"dry-{number}"))
            wanted = [{"name": f"auto-{number}"} for number in range(3)]
            connection.call(MetadataRequest, 4, topics=wanted, allow_auto_topic_creation=True)
        finally:
            resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, allowed)
        until(partial(_is_taken, connection, "before"), "an old topic does not take records again")
        for name in (f"{kind}-{number}" for kind in ("dry", "auto") for number in range(3)):
            connection.metadata([name], create=True)  # a topic that was refused then is created now
            until(partial(_is_taken, connection, name), f"{name} stays offline")
    assert "Traceback" not in broker.output()


def _is_taken(connection: RawConnection, topic: str) -> bool:
    return _error_of(connection, topic) == 0


def _creation(topic: str) -> dict[str, Any]:
    wanted = {"name": topic, "num_partitions": 1, "replication_factor": 1, "configs": [], "assignments": []}
    return {"topics": [wanted], "timeout_ms": 5_000, "validate_only": False}
