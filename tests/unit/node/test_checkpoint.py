"""What a node knows about itself across restarts."""

from __future__ import annotations

import random

import pytest

from penstock.core.errors import TornSegment
from penstock.core.machines.cluster.values import NO_BROKER_EPOCH
from penstock.node import checkpoint
from penstock.node.checkpoint import CLEAN_FILE, IDENTITY_FILE, RECOVERY_FILE
from penstock.node.runtime.memory import MemoryFiles
from sim.chance import SimRng
from sim.disk import SimDisk

RNG = SimRng(random.Random(1))


def test_the_epoch_goes_up_after_an_unclean_stop_only() -> None:
    files = MemoryFiles()
    first = checkpoint.load_identity(files, RNG, 3, was_clean=False)
    assert first.run_epoch == 0 and len(first.cluster_id) == 22
    clean = checkpoint.load_identity(files, RNG, 3, was_clean=True)
    unclean = checkpoint.load_identity(files, RNG, 3, was_clean=False)
    later = checkpoint.load_identity(files, RNG, 3, was_clean=True)
    assert [clean.run_epoch, unclean.run_epoch, later.run_epoch] == [0, 1, 1]
    assert {one.cluster_id for one in (clean, unclean, later)} == {first.cluster_id}


def test_a_directory_of_another_node_or_another_time_is_refused() -> None:
    files = MemoryFiles()
    checkpoint.load_identity(files, RNG, 3, was_clean=False)
    with pytest.raises(TornSegment, match="belongs to node 3"):
        checkpoint.load_identity(files, RNG, 4, was_clean=True)
    files.write_whole(IDENTITY_FILE, b"0000\n{}\n")
    with pytest.raises(TornSegment, match="damaged"):
        checkpoint.load_identity(files, RNG, 3, was_clean=True)


@pytest.mark.parametrize("name", ["topics", "metadata"])
def test_data_without_an_identity_is_refused_with_what_to_do(name: str) -> None:
    files = MemoryFiles()
    checkpoint.require_identity(files, ("topics", "metadata"))
    files.make_dir(f"{name}/0")
    with pytest.raises(TornSegment, match=rf"node\.json is missing.*{name}.*Restore.*--data-dir"):
        checkpoint.require_identity(files, ("topics", "metadata"))
    checkpoint.load_identity(files, RNG, 0, was_clean=False)
    checkpoint.require_identity(files, ("topics", "metadata"))


def test_a_newer_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    files = MemoryFiles()
    monkeypatch.setattr(checkpoint, "FORMAT", 2)
    checkpoint.load_identity(files, RNG, 0, was_clean=False)
    monkeypatch.undo()
    with pytest.raises(TornSegment, match="format 2"):
        checkpoint.load_identity(files, RNG, 0, was_clean=True)


def test_the_clean_marker_counts_once_and_its_removal_is_durable() -> None:
    disk = SimDisk(random.Random(1))
    files = disk.mount()
    assert not checkpoint.take_clean_marker(files)
    checkpoint.write_clean_marker(files, 5)
    assert checkpoint.take_clean_marker(files)
    disk.crash()
    assert not checkpoint.take_clean_marker(disk.mount()), "a power loss must not bring it back"


def test_attempts_to_start_do_not_forget_how_the_last_active_run_ended() -> None:
    disk = SimDisk(random.Random(1))
    files = disk.mount()
    checkpoint.save_registration(files, checkpoint.Registration(7, 3, "boot-1"))
    checkpoint.write_clean_marker(files, 5)
    for attempts in (["a"], ["a", "b"], ["a", "b", "c"]):
        begun = checkpoint.begin_attempt(files, attempts[-1])
        assert (begun.complete_epoch("boot-9"), begun.attempts) == (7, attempts)
        if attempts == ["a"]:
            continue  # power fails before the marker is removed
        checkpoint.take_clean_marker(files)
        disk.crash()
        files = disk.mount()
    checkpoint.save_registration(files, checkpoint.Registration(8, 4, "boot-1"))
    begun = checkpoint.begin_attempt(files, "d")
    assert begun.attempts == ["d"]
    assert begun.complete_epoch("boot-2") == NO_BROKER_EPOCH, "the active run has not ended cleanly"
    assert begun.complete_epoch("boot-1") == 8
    checkpoint.write_clean_marker(files, 5)
    assert checkpoint.begin_attempt(files, "e").complete_epoch("boot-2") == NO_BROKER_EPOCH


def test_a_damaged_marker_is_none() -> None:
    files = MemoryFiles()
    files.write_whole(CLEAN_FILE, b"nonsense")
    assert not checkpoint.take_clean_marker(files)
    assert not files.exists(CLEAN_FILE)


def test_damaged_recovery_points_mean_that_everything_is_checked(caplog: pytest.LogCaptureFixture) -> None:
    files = MemoryFiles()
    assert checkpoint.load_recovery_points(files) == {}
    checkpoint.save_recovery_points(files, {"topics/a/0": 7})
    assert checkpoint.load_recovery_points(files) == {"topics/a/0": 7}
    files.write_whole(RECOVERY_FILE, b"12345678\n{}\n")
    assert checkpoint.load_recovery_points(files) == {}
    assert "verifying every log from its start" in caplog.text
