"""The console on the terminal of `cluster up`, or lines from a pipe. `prompt` draws the prompt.

Leaving the console does not stop the cluster, and neither does the end of a pipe.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from threading import Semaphore, Thread
from typing import TextIO

from penstock.apps.control.commands import LINE_CHARS_MAX, ConsoleError, FailureKind, is_blank
from penstock.apps.control.console import Console
from penstock.apps.control.peer import ConsolePeer, LocalPeer
from penstock.apps.control.result import failed_result
from penstock.apps.control.services import Services
from penstock.node.runtime.tasks import Tasks

logger = logging.getLogger("penstock.console")

CHUNK_BYTES = 1 << 14
LINE_BYTES_MAX = 4 * LINE_CHARS_MAX


@asynccontextmanager
async def terminal(
    services: Services, *, console: Console | None = None, stdin: TextIO | None = None
) -> AsyncIterator[None]:
    """Take commands from standard input for as long as the context is open: with a prompt if it is a terminal, line by
    line if it is a pipe or a file. Without either, or in the background, there is no console."""
    stdin = stdin or sys.stdin
    peer = LocalPeer(console or Console(services))
    tasks = Tasks()
    if stdin is not None and not stdin.closed and not _is_in_background(stdin):
        tasks.spawn(_serve(peer, stdin))
    try:
        yield
    finally:
        await tasks.stop()


async def _serve(peer: ConsolePeer, stdin: TextIO) -> None:
    try:
        if stdin.isatty() and sys.stdout.isatty():
            from penstock.apps.control.prompt import run_prompt

            await run_prompt(peer)
        else:
            await run_lines(peer, stdin.fileno(), lambda text: print(text, flush=True))
    except OSError as error:
        logger.warning("the console has ended, the cluster runs on: %s", error.strerror or error)


def _is_in_background(stdin: TextIO) -> bool:
    """Whether reading this terminal would stop the process (SIGTTIN)."""
    if not stdin.isatty():
        return False
    try:
        return os.tcgetpgrp(stdin.fileno()) != os.getpgrp()
    except OSError:  # it is not the terminal that controls this process, which may read it
        return False


# -- pipes


async def run_lines(peer: ConsolePeer, fd: int, show: Callable[[str], None]) -> None:
    """Run the lines of a pipe or a file, without a prompt, until it ends or a line leaves."""
    async for line in _lines_of(fd):
        if line is None:
            too_long = ConsoleError(FailureKind.WORDS, f"A line is over the limit of {LINE_BYTES_MAX} bytes.")
            show(failed_result(too_long).as_text())
        elif not is_blank(line):
            reply = await peer.ask(line)
            show(reply.text)
            if reply.leaves:
                return


async def _lines_of(fd: int) -> AsyncIterator[str | None]:
    """Lines as they come; None for one that is too long. The last one may lack its line break."""
    held, is_skipping = b"", False
    async for chunk in _chunks_of(fd):
        *whole, held = (held + chunk).split(b"\n")
        for line in whole:
            if not is_skipping:
                yield _decoded(line)
            is_skipping = False
        if len(held) > LINE_BYTES_MAX:
            if not is_skipping:
                yield None
            held, is_skipping = b"", True
    if held and not is_skipping:
        yield _decoded(held)


def _decoded(line: bytes) -> str | None:
    return None if len(line) > LINE_BYTES_MAX else line.decode("utf-8", "replace")


async def _chunks_of(fd: int) -> AsyncIterator[bytes]:
    """What a thread reads: a pipe may be a file, a device or another process's standard input, and only a read that
    blocks works for all of them without changing the mode of a descriptor that is shared."""
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[bytes] = asyncio.Queue()
    room = Semaphore(1)

    def read() -> None:
        while True:
            room.acquire()
            try:
                chunk = os.read(fd, CHUNK_BYTES)
            except OSError:
                chunk = b""
            try:
                loop.call_soon_threadsafe(arrived.put_nowait, chunk)
            except RuntimeError:  # the loop is closed
                return
            if not chunk:
                return

    # A daemon: nothing can interrupt the read, and it must not delay the exit.
    Thread(target=read, name="console-input", daemon=True).start()
    while chunk := await arrived.get():
        yield chunk
        room.release()
