"""A program on a real terminal (a pty): keys in, what it draws out. Knows no program."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from conditions import WAIT_S_MAX

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r")


class Terminal:
    """The other side of a pty."""

    def __init__(self, fd: int, process: subprocess.Popen[bytes]) -> None:
        self._fd = fd
        self.process = process
        self._seen = ""

    def type(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def expect(self, *words: str) -> None:
        """Read until all of the words have appeared, in any order. What came up to the last one is not seen again."""
        while not all(one in self._seen for one in words):
            readable, _, _ = select.select([self._fd], [], [], WAIT_S_MAX)
            assert readable, f"{words} do not appear after {self._seen!r}"
            try:
                content = os.read(self._fd, 1 << 16)
            except OSError:  # the process has ended
                raise AssertionError(f"{words} do not appear after {self._seen!r}") from None
            text = content.decode("utf-8", "replace")
            if "\x1b[6n" in text:  # it asks where the cursor is, as terminals are asked
                self.type("\x1b[1;1R")
            self._seen = _ESCAPES.sub("", self._seen + text)
        self._seen = self._seen[max(self._seen.index(one) + len(one) for one in words) :]

    @property
    def sends_signals(self) -> bool:
        """Whether Ctrl-C is a signal now, and not a key that the program reads."""
        return bool(termios.tcgetattr(self._fd)[3] & termios.ISIG)

    def run(self, line: str, words: str) -> None:
        self.type(f"{line}\r")
        self.expect(words)


@contextmanager
def on_terminal(command: Sequence[str], state: Path) -> Iterator[Terminal]:
    """Run a command on a terminal of its own; `state` is its directory for state files."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
    environment = {**os.environ, "TERM": "xterm", "XDG_STATE_HOME": str(state)}
    environment.pop("PROMPT_TOOLKIT_NO_CPR", None)

    def take_terminal() -> None:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    with subprocess.Popen(
        list(command),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        preexec_fn=take_terminal,
    ) as process:
        os.close(theirs)
        try:
            yield Terminal(ours, process)
        finally:
            process.kill()
            os.close(ours)
