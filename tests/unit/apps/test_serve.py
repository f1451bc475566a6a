"""The broker's main: what it says when it cannot start, and how it stops."""

from __future__ import annotations

import logging
import os
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from penstock.apps.ready import ReadyInfo, StartError
from penstock.apps.serve import fit_to_descriptors, serve
from penstock.core.model import Storage
from penstock.node.checkpoint import CLEAN_FILE, IDENTITY_FILE
from penstock.node.runtime.disk import DirectoryLock
from penstock.node.settings import Settings


def settings(**given: Any) -> Settings:
    """Settings with a free port for every door, unless the test says otherwise."""
    return Settings(**{"port": 0, "text_port": 0, "json_port": 0, "queue_port": 0, "http_port": 0, **given})


def stop_at_once(info: ReadyInfo) -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def test_it_serves_until_it_is_told_to_stop_and_stops_clean(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ready: list[ReadyInfo] = []

    def on_ready(info: ReadyInfo) -> None:
        with socket.create_connection((info.host, info.port)):
            ready.append(info)
        stop_at_once(info)

    caplog.set_level(logging.INFO)
    assert serve(settings(data_dir=str(tmp_path / "data")), on_ready) == 0
    assert ready[0].port > 0 and ready[0].pid == os.getpid()
    assert (tmp_path / "data" / CLEAN_FILE).exists()
    assert "stopped cleanly" in caplog.text


def test_in_memory_it_leaves_no_trace(tmp_path: Path) -> None:
    in_memory = settings(storage=Storage.MEMORY, data_dir=str(tmp_path / "data"))
    assert serve(in_memory, stop_at_once) == 0
    assert not (tmp_path / "data").exists()


def test_a_directory_in_use_is_named_with_its_holder(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    assert lock.acquire()
    try:
        with pytest.raises(StartError, match=f"pid {os.getpid()}"):
            serve(settings(data_dir=str(tmp_path)), stop_at_once)
    finally:
        lock.release()
    assert serve(settings(data_dir=str(tmp_path)), stop_at_once) == 0, "free again"


def test_a_port_in_use_is_named_and_the_data_stay_clean(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StartError, match=f"127.0.0.1:{port}"):
            serve(settings(port=port, data_dir=str(tmp_path)), stop_at_once)
    assert (tmp_path / CLEAN_FILE).exists()


def test_a_directory_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StartError, match="Cannot use the data directory"):
        serve(settings(data_dir=str(tmp_path / "file")), stop_at_once)


def test_a_damaged_identity_is_named(tmp_path: Path) -> None:
    assert serve(settings(data_dir=str(tmp_path)), stop_at_once) == 0
    (tmp_path / IDENTITY_FILE).write_bytes(b"nonsense")
    with pytest.raises(StartError, match=f"{IDENTITY_FILE} is damaged"):
        serve(settings(data_dir=str(tmp_path)), stop_at_once)


def test_limits_are_lowered_to_the_descriptors_there_are(caplog: pytest.LogCaptureFixture) -> None:
    few = fit_to_descriptors(settings(connections_max=10_000, open_files_max=1_000), 256)
    assert (few.connections_max, few.open_files_max) == (64, 64)
    assert "connections_max reduced from 10000 to 64" in caplog.text and "ulimit -n" in caplog.text


def test_limits_that_fit_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    enough = settings(connections_max=100, open_files_max=100)
    assert fit_to_descriptors(enough, 364) is enough and not caplog.text


def test_too_few_descriptors_for_one_connection_are_refused() -> None:
    with pytest.raises(StartError, match="ulimit -n"):
        fit_to_descriptors(settings(), 80)
