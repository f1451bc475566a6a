"""The simulated disk keeps the port's contract, loses only what was not synced, and fails when told to."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from contract.files_contract import FilesContract
from penstock.core.errors import DiskFailed, DiskFull
from penstock.core.ports import File, Files
from sim.disk import SimDisk
from sim.hosts import PowerLost

SEEDS = range(200)


class TestSimFiles(FilesContract):
    def make_files(self, root: Path) -> Files:
        return SimDisk(random.Random(1)).mount()


def _disk(seed: int = 0) -> tuple[SimDisk, Files, File]:
    """A disk with a durable file `d/log` of 1,000 bytes."""
    disk = SimDisk(random.Random(seed))
    files: Files = disk.mount()
    files.make_dir("d")
    file = files.open("d/log", create=True)
    file.append([b"A" * 1_000])
    file.sync()
    files.sync_dir("")
    files.sync_dir("d")
    return disk, files, file


def _after_crash(disk: SimDisk, path: str) -> bytes | None:
    disk.crash()
    return disk.mount().read_whole(path)


def test_what_was_synced_survives_every_power_loss() -> None:
    for seed in SEEDS:
        disk, _, file = _disk(seed)
        file.append([b"B" * 3_000])
        content = _after_crash(disk, "d/log")
        assert content is not None and content.startswith(b"A" * 1_000)


def test_the_unsynced_tail_meets_every_fate() -> None:
    fates = set()
    for seed in SEEDS:
        disk, _, file = _disk(seed)
        file.append([b"B" * 3_000])
        tail = (_after_crash(disk, "d/log") or b"")[1_000:]
        assert len(tail) <= 3_000
        if len(tail) < 3_000 and set(tail) <= set(b"B"):
            fates.add("shorter" if tail else "gone")
        elif set(tail) == set(b"B"):
            fates.add("kept")
        else:
            fates.add("torn, zeros" if 0 in tail else "torn, garbage")
    assert fates == {"gone", "shorter", "kept", "torn, zeros", "torn, garbage"}


def test_tears_follow_sectors() -> None:
    torn_at = set()
    for seed in SEEDS:
        disk, _, file = _disk(seed)
        file.append([b"B" * 3_000])
        content = _after_crash(disk, "d/log") or b""
        if len(content) == 4_000 and b"\0" in content:
            torn_at.add(content.index(b"\0"))
    assert torn_at <= {1_000, *range(1_024, 4_000, 512)}
    assert len(torn_at) > 3


def test_an_unsynced_cut_may_come_undone() -> None:
    sizes = set()
    for seed in SEEDS:
        disk, _, file = _disk(seed)
        file.truncate(400)
        content = _after_crash(disk, "d/log") or b""
        assert content[:400] == b"A" * 400
        sizes.add(len(content))
    assert {400, 1_000} <= sizes


def test_a_synced_cut_and_rewrite_survives() -> None:
    for seed in SEEDS:
        disk, _, file = _disk(seed)
        file.truncate(400)
        file.append([b"C" * 100])
        file.sync()
        file.append([b"D"])
        content = _after_crash(disk, "d/log") or b""
        assert content[:500] == b"A" * 400 + b"C" * 100
        assert len(content) in (500, 501)


def test_a_synced_file_is_lost_with_its_unsynced_name() -> None:
    found = set()
    for seed in SEEDS:
        disk, files, _ = _disk(seed)
        file = files.open("d/new", create=True)
        file.append([b"data"])
        file.sync()
        found.add(_after_crash(disk, "d/new"))
    assert found == {None, b"data"}


def test_names_are_kept_as_a_prefix_of_what_was_done() -> None:
    seen = set()
    for seed in SEEDS:
        disk, files, _ = _disk(seed)
        for name in ("1", "2", "3"):
            files.open(f"d/{name}", create=True)
        files.remove("d/1")
        disk.crash()
        seen.add(tuple(disk.mount().names("d")))
    assert seen == {("log",), ("1", "log"), ("1", "2", "log"), ("1", "2", "3", "log"), ("2", "3", "log")}


def test_a_rename_is_all_or_nothing_across_directories() -> None:
    seen = set()
    for seed in SEEDS:
        disk, files, _ = _disk(seed)
        files.make_dir("e")
        files.sync_dir("")
        files.rename("d/log", "e/log")
        disk.crash()
        after = disk.mount()
        seen.add((tuple(after.names("d")), tuple(after.names("e"))))
    assert seen == {(("log",), ()), ((), ("log",))}


def test_a_directory_needs_the_sync_of_its_parent() -> None:
    seen = set()
    for seed in SEEDS:
        disk, files, _ = _disk(seed)
        files.make_dir("x/y")
        files.open("x/y/f", create=True)
        files.sync_dir("x/y")
        files.sync_dir("x")
        disk.crash()
        seen.add(disk.mount().exists("x/y/f"))
    assert seen == {True, False}


def test_write_whole_leaves_the_old_or_the_new_at_every_point() -> None:
    for seed in SEEDS:
        disk, files, _ = _disk(seed)
        files.write_whole("d/state", b"old")
        disk.interrupt_at(seed % 6 + 1)
        try:
            files.write_whole("d/state", b"new")
            expected = {b"new"}
        except PowerLost:
            expected = {b"old", b"new"}
        assert _after_crash(disk, "d/state") in expected


def test_write_whole_without_a_sync_may_leave_anything() -> None:
    found = set()
    for seed in SEEDS:
        disk, files, _ = _disk(seed)
        files.write_whole("d/state", b"old")
        files.write_whole("d/state", b"new", sync=False)
        found.add(_after_crash(disk, "d/state"))
    assert {b"old", b"new"} < found


def test_a_killed_process_keeps_its_page_cache_and_loses_its_files() -> None:
    disk, files, file = _disk()
    file.append([b"unsynced"])
    disk.kill()
    acts = (lambda: file.append([b"x"]), file.sync, lambda: files.names("d"), lambda: files.remove("d/log"))
    for act in acts:
        with pytest.raises(PowerLost):
            act()
    assert disk.mount().read_whole("d/log") == b"A" * 1_000 + b"unsynced"


def test_an_interrupted_append_may_be_there_in_part() -> None:
    sizes = set()
    for seed in SEEDS:
        disk, _, file = _disk(seed)
        disk.interrupt_at(2)
        file.append([b"first"])
        with pytest.raises(PowerLost):
            file.append([b"B" * 100])
        with pytest.raises(PowerLost):
            file.size()
        sizes.add(disk.mount().size("d/log") - 1_005)
    assert sizes <= set(range(101))
    assert len(sizes) > 50


def test_a_full_disk_refuses_whole_appends_until_there_is_space() -> None:
    disk, files, file = _disk()
    disk.fill_after(100)
    file.append([b"B" * 60])
    assert files.space() == (1_100, 40)
    with pytest.raises(DiskFull, match="no space"):
        file.append([b"C" * 60])
    assert file.size() == 1_060
    file.truncate(500)
    file.append([b"D" * 500])
    files.remove("d/log")
    files.write_whole("d/other", b"E" * 1_000)
    disk.enlarge()
    file.append([bytes(10_000)])


def test_a_failed_sync_forgets_the_pages_and_the_next_one_blesses_holes() -> None:
    disk, _, file = _disk()
    disk.fail_sync_at(2)
    file.append([b"B" * 10])
    file.sync()
    file.append([b"C" * 10])
    with pytest.raises(DiskFailed, match="sync failed"):
        file.sync()
    assert file.size() == 1_020
    assert file.read(1_000, 20) == b"B" * 10 + bytes(10)
    file.sync()
    assert _after_crash(disk, "d/log") == b"A" * 1_000 + b"B" * 10 + bytes(10)


def test_a_failed_directory_sync_keeps_nothing_for_sure() -> None:
    found = set()
    for seed in SEEDS:
        disk, files, _ = _disk(seed)
        files.open("d/new", create=True)
        disk.fail_sync_at(1)
        with pytest.raises(DiskFailed):
            files.sync_dir("d")
        disk.crash()
        found.add(disk.mount().exists("d/new"))
    assert found == {True, False}


def test_a_read_only_disk_reads_and_refuses_the_rest() -> None:
    disk, files, file = _disk()
    file.append([b"B"])
    disk.read_only = True
    assert file.read(999, 10) == b"AB"
    changes = (
        lambda: file.append([b"x"]),
        lambda: file.truncate(0),
        file.sync,
        lambda: files.make_dir("new"),
        lambda: files.remove("d/log"),
        lambda: files.rename("d/log", "d/x"),
        lambda: files.write_whole("s", b""),
    )
    for change in changes:
        with pytest.raises(DiskFailed):
            change()
    assert files.names("d") == ["log"]


def test_a_flipped_bit_is_there_before_and_after_a_crash() -> None:
    disk, _, file = _disk()
    disk.flip("d/log", 10, 3)
    assert file.read(10, 1) == bytes([ord("A") ^ 8])
    assert (_after_crash(disk, "d/log") or b"")[9:12] == b"A" + bytes([ord("A") ^ 8]) + b"A"


def test_the_counters_count() -> None:
    disk, files, file = _disk()
    before = disk.counters
    assert (before.appends, before.appended_bytes, before.file_syncs, before.dir_syncs) == (1, 1_000, 1, 2)
    file.append([b"BB", b"B"])
    file.sync()
    file.sync()
    assert (before.appends, before.appended_bytes, before.file_syncs) == (2, 1_003, 3)
    assert before.synced_bytes == 1_003
    operations = before.operations
    files.write_whole("s", b"x")
    assert before.operations == operations + 5


def test_equal_seeds_crash_equally() -> None:
    def leftovers(seed: int) -> list[bytes | None]:
        disk, files, file = _disk(seed)
        file.append([b"B" * 5_000])
        files.open("d/new", create=True).append([b"C" * 5_000])
        disk.crash()
        return [disk.mount().read_whole("d/log"), disk.mount().read_whole("d/new")]

    assert leftovers(3) == leftovers(3)
    assert len({str(leftovers(seed)) for seed in range(20)}) > 10
