"""A cluster for tests: brokers and coordinator go down and come back as they are told, on their ports."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest

from penstock.testing import BrokerDied, running_cluster


def test_processes_go_down_and_come_back_where_they_were(tmp_path: Path) -> None:
    with running_cluster(2, tmp_path, storage="memory", session_ms=2_000) as cluster:
        assert cluster.bootstrap == f"{cluster.broker(1).bootstrap},{cluster.broker(2).bootstrap}"
        before, url = cluster.bootstrap, cluster.coordinator.url
        cluster.broker(2).kill()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((cluster.broker(2).host, cluster.broker(2).port))
        assert cluster.broker(1).is_running and not cluster.broker(2).is_running
        cluster.broker(2).start()
        assert cluster.broker(1).stop() == 0
        cluster.broker(1).start()
        cluster.coordinator.kill()
        cluster.coordinator.start()
        cluster.coordinator.restart()
        assert (cluster.bootstrap, cluster.coordinator.url) == (before, url)
        third = cluster.add_broker()
        assert cluster.broker(3) is third and cluster.bootstrap.endswith(third.bootstrap)
    assert "stopped cleanly" in cluster.broker(2).output()
    assert "stopped cleanly" in cluster.coordinator.output()


def test_a_process_that_leaves_by_itself_is_reported_and_the_others_stop(tmp_path: Path) -> None:
    with (
        pytest.raises(BrokerDied, match="the broker exited unexpectedly, exit code -9"),
        running_cluster(2, tmp_path, storage="memory") as cluster,
    ):
        pid = cluster.broker(1).pid
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert not cluster.broker(2).is_running and not cluster.coordinator.is_running


def test_a_cluster_that_cannot_start_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    with (
        pytest.raises(BrokerDied, match=r"(?s)exit code 2.*segment"),
        running_cluster(2, tmp_path, segment_bytes=1),
    ):
        pytest.fail("it started")
