"""Files on a real disk: bounded descriptors, undone writes, flushes beside everything else."""

from __future__ import annotations

import errno
import os
import resource
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from penstock.core.errors import DiskFailed, DiskFull, OutOfDescriptors, TornSegment
from penstock.node.runtime import disk
from penstock.node.runtime.disk import DirectoryLock, DiskFiles


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_ten_thousand_files_need_only_a_few_descriptors(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path, open_files_max=64)
    before = descriptors()
    opened = [files.open(f"{number}.log", create=True) for number in range(10_000)]
    for number, file in enumerate(opened):
        file.append((b"%d" % number,))
        assert files.open_count() <= 64
    assert descriptors() - before <= 64
    assert all(file.read(0, 10) == b"%d" % number for number, file in enumerate(opened))
    assert descriptors() - before <= 64
    for file in opened:
        file.close()
    assert files.open_count() == 0
    assert descriptors() == before


def test_a_pinned_file_outlives_its_name(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path, open_files_max=4)
    file = files.open("a", create=True)
    file.append((b"kept",))
    file.pin()
    file.close()
    files.remove("a")
    others = [files.open(f"b{number}", create=True) for number in range(20)]
    assert file.read(0, 10) == b"kept"
    before = descriptors()
    file.unpin()
    assert descriptors() == before - 1
    assert len(others) == 20


def test_a_pinned_file_keeps_its_descriptor(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path, open_files_max=4)
    file = files.open("a", create=True)
    file.pin()
    handle = file.handle()
    for number in range(20):
        files.open(f"b{number}", create=True).append((b"x",))
    assert file.handle() == handle
    file.unpin()


def test_a_write_that_fails_half_way_is_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = DiskFiles(tmp_path, open_files_max=4)
    file = files.open("a", create=True)
    file.append((b"first",))
    real = os.pwrite

    def short_then_full(fd: int, content: bytes, at: int) -> int:
        if at > 5:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, bytes(content)[:3], at)

    monkeypatch.setattr(disk.os, "pwrite", short_then_full)
    with pytest.raises(DiskFull):
        file.append((b"second",))
    monkeypatch.undo()
    assert file.size() == 5
    assert (tmp_path / "a").read_bytes() == b"first"
    file.append((b"third", b"fourth"))
    assert (tmp_path / "a").read_bytes() == b"firstthirdfourth"


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = DiskFiles(tmp_path, open_files_max=4)
    file = files.open("a", create=True)
    real = os.pwrite
    monkeypatch.setattr(disk.os, "pwrite", lambda fd, content, at: real(fd, bytes(content)[:2], at))
    file.append((bytearray(b"abcdefg"), memoryview(b"hi")))
    assert file.read(0, 100) == b"abcdefghi"


def test_a_flush_that_fails_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = DiskFiles(tmp_path, open_files_max=4)
    file = files.open("a", create=True)

    def broken(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(disk.os, "fdatasync", broken)
    with pytest.raises(DiskFailed, match="Input/output"):
        file.sync()


def test_without_descriptors_idle_ones_are_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = DiskFiles(tmp_path, open_files_max=100)
    held = [files.open(f"{number}", create=True) for number in range(32)]
    real, refusals = os.open, [errno.EMFILE]

    def refuse_once(path: Path, flags: int, mode: int = 0o777) -> int:
        if refusals:
            raise OSError(refusals.pop(), "Too many open files")
        return real(path, flags, mode)

    monkeypatch.setattr(disk.os, "open", refuse_once)
    files.open("one more", create=True).append((b"x",))
    assert files.open_count() < 33
    assert len(held) == 32


def test_flushing_threads_and_evictions_never_meet_a_foreign_descriptor(tmp_path: Path) -> None:
    """Every file holds only its own bytes although descriptors are taken away and reused all the time."""
    files = DiskFiles(tmp_path, open_files_max=4)
    opened = [files.open(f"{number}", create=True) for number in range(40)]
    failures: list[BaseException] = []
    stop = threading.Event()

    def flush() -> None:
        try:
            while not stop.is_set():
                for file in opened:
                    file.sync()
        except BaseException as error:  # noqa: BLE001 - reported by the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=flush) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(50):
        for number, file in enumerate(opened):
            file.append((bytes([number]) * 10,))
            assert file.read(0, 3) == bytes([number]) * 3
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []
    for number in range(40):
        assert (tmp_path / str(number)).read_bytes() == bytes([number]) * 500


def test_a_file_that_is_gone_needs_no_flush(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path, open_files_max=4)
    file = files.open("a", create=True)
    file.append((b"x",))
    file.close()
    files.remove("a")
    file.sync()
    assert files.open_count() == 0


def test_whole_files_are_replaced_or_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = DiskFiles(tmp_path, open_files_max=4)
    files.write_whole("state", b"old")

    def refuse(source: str, target: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(DiskFull):
        files.write_whole("state", b"new")
    monkeypatch.undo()
    assert files.read_whole("state") == b"old"
    assert files.names("") == ["state"]


def test_names_directories_and_absence(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path, open_files_max=4)
    with pytest.raises(TornSegment):
        files.open("missing")
    with pytest.raises(TornSegment):
        files.size("missing")
    assert files.names("missing") == [] and files.read_whole("missing") is None
    files.make_dir("a/b")
    files.make_dir("a/b")
    files.write_whole("a/b/c", b"12")
    assert files.names("a/b") == ["c"] and files.size("a/b/c") == 2 and files.exists("a")
    files.rename("a/b/c", "a/b/d")
    files.sync_dir("a/b")
    assert files.names("a/b") == ["d"]
    files.remove("a/b/d")
    files.remove("a/b/d")
    files.remove_dir("a")
    files.remove_dir("a")
    assert not files.exists("a")


def test_only_one_holds_the_directory(tmp_path: Path) -> None:
    first, second = DirectoryLock(tmp_path), DirectoryLock(tmp_path)
    assert first.acquire()
    assert not second.acquire()
    assert second.holder() == str(os.getpid())
    first.release()
    assert second.acquire()
    second.release()


def test_buffers_of_every_kind_are_written(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path, open_files_max=4)
    file = files.open("a", create=True)
    kinds: Sequence[bytes | bytearray | memoryview] = (b"a", bytearray(b"b"), memoryview(b"c"), b"")
    file.append(kinds)
    file.truncate(2)
    assert file.size() == 2 and file.read(0, 9) == b"ab" and file.read(5, 9) == b""


def test_a_reserve_opens_what_is_needed_when_there_are_no_descriptors(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path, 100)
    files.make_dir("a")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors() + 32, limits[1]))
    held = []
    try:
        with suppress(OSError):
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        files.sync_dir("a")
        assert files.names("") == ["a"]
        files.write_whole("a/state", b"content")
        assert files.read_whole("a/state") == b"content"
        files.remove_dir("a")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for fd in held:
            os.close(fd)


def test_want_of_descriptors_is_no_failure_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = DiskFiles(tmp_path, 100)

    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(os, "listdir", refuse)
    monkeypatch.setattr(os, "stat", refuse)
    for attempt in (
        lambda: files.sync_dir(""),
        lambda: files.names(""),
        lambda: files.open("log", create=True),
        lambda: files.size("log"),
    ):
        with pytest.raises(OutOfDescriptors):
            attempt()
