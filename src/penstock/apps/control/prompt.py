"""The prompt of the console: history, completion, and the health of all services in a toolbar. Runs no command itself.

Ctrl-C clears the line; on an empty line, and with Ctrl-D, it asks whether to stop the cluster, or leaves a console
that is connected to a running coordinator. While a command runs, Ctrl-C stops waiting for it. The terminal is in raw
mode all the time, so that Ctrl-C is a key and never a signal that would stop the cluster.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from penstock.apps.control.commands import ConsoleError, Verb, is_blank, parse_command
from penstock.apps.control.console import completions
from penstock.apps.control.peer import ConsolePeer, Reply
from penstock.apps.control.services import Health
from penstock.node.runtime.tasks import Tasks

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.history import History
    from prompt_toolkit.input import Input
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
    from prompt_toolkit.key_binding.key_processor import KeyPress

logger = logging.getLogger("penstock.console")

PROMPT = "> "
QUESTION = "Stop all services of the cluster? [y/N] "
TOOLBAR_REFRESH_S = 1.0
HISTORY_BYTES_MAX = 1 << 20
_FILE_MODE, _DIRECTORY_MODE = 0o600, 0o700
_LEAVE = "exit"
_HEALTH_COLORS = {
    Health.HEALTHY.value: "ansigreen",
    Health.CATCHING_UP.value: "ansiyellow",
    Health.STARTING.value: "ansiyellow",
}
"""All others are red."""


async def run_prompt(peer: ConsolePeer) -> None:
    """Take lines from the terminal until the user leaves."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import NestedCompleter

    session: PromptSession[str] = PromptSession(
        history=_open_history(),
        completer=NestedCompleter.from_nested_dict(dict(completions(peer.names))),
        complete_while_typing=False,
        bottom_toolbar=lambda: toolbar(peer),
        refresh_interval=TOOLBAR_REFRESH_S,
        key_bindings=_keys(),
    )
    tasks = Tasks()
    try:
        with _logs_above_prompt() as out, session.input.raw_mode():
            await _converse(peer, session, tasks, out)
        await tasks.finish()
    finally:
        await tasks.stop()


async def _converse(peer: ConsolePeer, session: PromptSession[str], tasks: Tasks, out: TextIO) -> None:
    while True:
        line = await _next_line(session)
        if line is None:
            line = Verb.SHUTDOWN.value if peer.ends_cluster else _LEAVE
            if peer.ends_cluster and not await _confirms(session):
                continue
        elif is_blank(line) or (_is_shutdown(line) and not await _confirms(session)):
            continue
        asked = tasks.spawn(peer.ask(line))
        if not await _await_answer(asked, session.input):
            print("still running; its answer will follow", file=out, flush=True)
            asked.add_done_callback(_print_late_answer)
            continue
        reply = asked.result()
        print(reply.text, file=out, flush=True)
        if reply.leaves or _is_shutdown(line):
            return


async def _await_answer(asked: asyncio.Task[Reply], keys: Input) -> bool:
    """Wait for an answer; False if Ctrl-C came first. Other keys are for the next prompt."""
    from prompt_toolkit.input.typeahead import get_typeahead, store_typeahead
    from prompt_toolkit.keys import Keys

    interrupted = asyncio.Event()

    def take(pressed: list[KeyPress]) -> None:
        if any(one.key == Keys.ControlC for one in pressed):
            interrupted.set()
        else:
            store_typeahead(keys, pressed)

    take(get_typeahead(keys))  # what the prompt has read after the line
    waiting = asyncio.ensure_future(interrupted.wait())
    try:
        with keys.attach(lambda: take(keys.read_keys())):
            await asyncio.wait((asked, waiting), return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
    return asked.done()


def _print_late_answer(asked: asyncio.Task[Reply]) -> None:
    if not asked.cancelled() and asked.exception() is None:
        print(asked.result().text, flush=True)


async def _next_line(session: PromptSession[str]) -> str | None:
    """None if the user wants to leave."""
    try:
        return await session.prompt_async(PROMPT, handle_sigint=False)
    except (KeyboardInterrupt, EOFError):
        return None


async def _confirms(session: PromptSession[str]) -> bool:
    """Ask; a second Ctrl-C or Ctrl-D is a yes. The answer does not get into the history."""
    from prompt_toolkit import PromptSession as Session

    question: PromptSession[str] = Session(input=session.input, output=session.output)
    try:
        answer = await question.prompt_async(QUESTION, handle_sigint=False)
    except (KeyboardInterrupt, EOFError):
        return True
    return answer.strip().lower() in ("y", "yes")


def _is_shutdown(line: str) -> bool:
    try:
        return parse_command(line).verb is Verb.SHUTDOWN
    except ConsoleError:
        return False


def _keys() -> KeyBindings:
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    @keys.add("c-c")
    def _(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=KeyboardInterrupt)

    return keys


def toolbar(peer: ConsolePeer) -> StyleAndTextTuples:
    """Every service; its health too unless it is healthy."""
    found = peer.health()
    if not found:
        return [("fg:ansired", " the coordinator does not answer ")]
    pieces: StyleAndTextTuples = []
    for name, health in found.items():
        text = name if health == Health.HEALTHY.value else f"{name} {health}"
        pieces += [(f"fg:{_HEALTH_COLORS.get(health, 'ansired')}", f" {text} "), ("", " ")]
    return pieces


# -- history


def state_directory() -> Path:
    """Where programs store what they remember of a user, by the XDG specification."""
    given = os.environ.get("XDG_STATE_HOME", "")
    base = Path(given) if given.startswith("/") else Path.home() / ".local" / "state"
    return base / "penstock"


def _open_history() -> History:
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    try:
        return FileHistory(history_file())
    except (OSError, RuntimeError) as error:
        logger.warning("the history of the console is not stored: %s", error)
        return InMemoryHistory()


def history_file() -> str:
    """The file of the history, private to the user; created if it is missing, shortened if it has grown. Raises
    OSError, and RuntimeError if the user has no home."""
    directory = state_directory()
    directory.mkdir(_DIRECTORY_MODE, parents=True, exist_ok=True)
    path = directory / "console-history"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
    with os.fdopen(fd, "r+b") as file:
        os.fchmod(fd, _FILE_MODE)
        content = file.read()
        if len(content) > HISTORY_BYTES_MAX:
            _, _, later = content[-HISTORY_BYTES_MAX // 2 :].partition(b"\n\n")
            file.seek(0)
            file.write(later)
            file.truncate()
    return str(path)


# -- logs


@contextmanager
def _logs_above_prompt() -> Iterator[TextIO]:
    """Lines that others print or log appear above the prompt instead of inside it. Yields what to write to while there
    is no prompt."""
    from prompt_toolkit.patch_stdout import patch_stdout

    before, out = sys.stderr, sys.stdout
    with patch_stdout(raw=True):
        moved = [one for one in logging.getLogger().handlers if _stream_of(one) is before]
        _set_streams(moved, sys.stderr)
        try:
            yield out
        finally:
            _set_streams(moved, before)


def _stream_of(handler: logging.Handler) -> object:
    return handler.stream if isinstance(handler, logging.StreamHandler) else None


def _set_streams(handlers: list[logging.Handler], stream: TextIO) -> None:
    for handler in handlers:
        assert isinstance(handler, logging.StreamHandler)
        handler.setStream(stream)
