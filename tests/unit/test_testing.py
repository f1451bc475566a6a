"""The broker for other people's tests: it starts, dies and comes back as it is told, and says what went wrong."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from penstock.testing import Broker, BrokerDied, running_broker


def test_a_broker_keeps_its_port_over_a_kill_and_a_restart(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        port, pid = broker.port, broker.pid
        with socket.create_connection((broker.host, port)):
            pass
        broker.kill()
        broker.start()
        assert broker.port == port and broker.pid != pid
        broker.restart()
        assert broker.bootstrap == f"127.0.0.1:{port}"
        assert broker.stop() == 0
        broker.start()


def test_a_broker_that_cannot_start_says_why(tmp_path: Path) -> None:
    with (
        pytest.raises(BrokerDied, match=r"(?s)exit code 2.*segment"),
        running_broker(tmp_path, segment_bytes=1),
    ):
        pytest.fail("it started")


def test_a_broker_that_leaves_by_itself_is_reported(tmp_path: Path) -> None:
    broker = Broker(tmp_path, {"storage": "memory"})
    broker.start()
    process = broker._running()
    process.kill()
    process.wait()
    with pytest.raises(BrokerDied, match="exited unexpectedly"):
        broker.close()
