"""Disks that fail on purpose: a small one that fills up, one that turns read-only, calls that return an error.

Never pretends: where the machine does not allow it, the test is skipped and says what is missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

DISK_BYTES = 24 << 20
WAIT_S = 20.0
POLL_S = 0.01


def _run(*words: str | Path) -> str:
    return subprocess.run(
        [str(word) for word in words], check=True, capture_output=True, text=True
    ).stdout.strip()


def _need(*tools: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount and to trace")
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")


class LoopDisk:
    """A file system of its own in one file, mounted where a broker keeps its data."""

    def __init__(self, image: Path, root: Path) -> None:
        self.root = root
        self._image = image

    def mount(self) -> None:
        _run("mount", "-o", "loop,errors=remount-ro", self._image, self.root)

    def unmount(self, *, lazily: bool = False) -> None:
        _run("umount", *(["--lazy"] if lazily else []), self.root)

    def turn_read_only(self) -> None:
        """The kernel meets an error in the file system and lets nobody write any more."""
        if not self.can_turn_read_only:
            pytest.skip("this kernel cannot provoke an error in ext4")
        self._trigger.write_text("1")

    @property
    def can_turn_read_only(self) -> bool:
        return self._trigger.exists()

    @property
    def _trigger(self) -> Path:
        device = Path(_run("findmnt", "-no", "SOURCE", self.root)).name
        return Path(f"/sys/fs/ext4/{device}/trigger_fs_error")

    def repair(self) -> None:
        """Check it as a person would, and mount it again."""
        self.unmount()
        checked = subprocess.run(["fsck.ext4", "-y", "-f", str(self._image)], capture_output=True)
        assert checked.returncode in (0, 1), checked.stdout
        self.mount()


@contextmanager
def loop_disk(home: Path, *, lazily: bool = False) -> Iterator[LoopDisk]:
    """A small disk at `home`/data; taken away `lazily`, also from those who still have a file of it open."""
    _need("mount", "umount", "findmnt", "mkfs.ext4", "fsck.ext4")
    image, root = home / "disk.img", home / "data"
    root.mkdir()
    with image.open("wb") as out:
        out.truncate(DISK_BYTES)
    _run("mkfs.ext4", "-q", "-F", "-m", "0", image)
    disk = LoopDisk(image, root)
    try:
        disk.mount()
    except subprocess.CalledProcessError as refused:
        pytest.skip(f"cannot mount a loop device: {refused.stderr}")
    try:
        yield disk
    finally:
        disk.unmount(lazily=lazily)


@contextmanager
def immutable(path: Path) -> Iterator[None]:
    """Nobody may write to this file or directory, not even root, through descriptors that are open already either."""
    _need("chattr")
    try:
        _run("chattr", "+i", path)
    except subprocess.CalledProcessError as refused:
        pytest.skip(f"this file system has no immutable files: {refused.stderr}")
    try:
        yield
    finally:
        _run("chattr", "-i", path)


@contextmanager
def failing_call(pid: int, call: str, error: str, log: Path, *, when: str = "1+") -> Iterator[None]:
    """A system call of a running process fails; `when` counts calls, "1" is the next one only."""
    _need("strace")
    words = ["strace", "-f", "-p", str(pid), "-o", str(log), "-e", f"trace={call}"]
    tracer = subprocess.Popen(
        [*words, "-e", f"inject={call}:error={error}:when={when}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        _await_tracer(pid, tracer)
        yield
    finally:
        tracer.terminate()
        tracer.communicate()


def _await_tracer(pid: int, tracer: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not all(_is_traced(task) for task in Path(f"/proc/{pid}/task").iterdir()):
        if tracer.poll() is not None:
            assert tracer.stderr is not None
            pytest.skip(f"cannot trace: {tracer.stderr.read().decode().strip()}")
        assert time.monotonic() < deadline, "strace did not attach"
        time.sleep(POLL_S)


def _is_traced(task: Path) -> bool:
    return "TracerPid:\t0" not in (task / "status").read_text()
