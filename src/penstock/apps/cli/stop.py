"""`penstock stop`: stops the broker of a data directory, or the local cluster there. Never kills a broker.

The lock of the data directory names the process; the signal goes to a descriptor of it, so it cannot reach another one.
"""

from __future__ import annotations

import json
import os
import select
import signal
from pathlib import Path

import click

from penstock.apps.cli.failures import StartFailed, WrongSettings
from penstock.apps.cli.options import config_file_option, output_option
from penstock.apps.cli.plain_output import TABLE, say_content
from penstock.apps.cli.terminal import say

_PROGRAMS = ("penstock", "broker")


@click.command()
@config_file_option
@click.option(
    "--data-dir",
    type=click.Path(),
    metavar="DIR",
    help="Data directory of the broker.  [default: as set in the file and the environment]",
)
@click.option(
    "--ready-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Stop the broker that wrote this file, also one with its data in memory.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0.1, 3_600),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for its end.",
)
@output_option
def stop(
    config_file: str | None, data_dir: str | None, ready_file: Path | None, timeout_s: float, output: str
) -> None:
    """Stop the broker or local cluster of a data directory.

    Sends SIGTERM and waits: the broker flushes what it has acknowledged, and leaves its cluster in order.

    \b
    penstock stop
    penstock stop --data-dir ./data --timeout 10
    """
    if ready_file is not None:
        if data_dir is not None:
            raise click.UsageError("--ready-file and --data-dir are mutually exclusive.")
        pid = _pid_in(ready_file)
        where = f"named in {ready_file}"
    else:
        root = _root(config_file, data_dir)
        if _is_cluster(root):
            click.get_current_context().invoke(_down(), data_dir=str(root), output=output, config_file=None)
            return
        pid = _holder(root)
        where = f"in {root}"
    is_stopped = pid is not None and _stop(pid, timeout_s)
    if output != TABLE:
        say_content({"pid": pid, "stopped": is_stopped}, output)
    elif is_stopped:
        say(f"Stopped the broker {where} (pid {pid}).")
    else:
        say(f"Nothing is running {where}.")


def _down() -> click.Command:
    from penstock.apps.cli.cluster_down import down

    return down


def _root(config_file: str | None, data_dir: str | None) -> Path:
    from penstock.apps.cli.setting_options import load_found

    loaded = load_found(config_file, {} if data_dir is None else {"data_dir": data_dir})
    root = Path(loaded.settings.data_dir).absolute()
    if not root.is_dir():
        raise WrongSettings(f"There is no data directory {root}; name it with --data-dir.")
    return root


def _is_cluster(root: Path) -> bool:
    from penstock.apps.process import CLUSTER_FILE

    return (root / CLUSTER_FILE).exists()


def _holder(root: Path) -> int | None:
    """The process that holds the lock of the directory."""
    from penstock.node.runtime.disk import DirectoryLock

    if not (root / ".lock").exists():
        return None
    try:
        lock = DirectoryLock(root)
    except OSError as error:
        raise StartFailed(f"Cannot read the lock of {root}: {error.strerror}.") from error
    try:
        return int(lock.holder()) if lock.is_held() else None
    except ValueError:
        raise StartFailed(
            f"{root}/.lock is held by a process that has not written its id; try again."
        ) from None
    finally:
        lock.release()


def _pid_in(ready_file: Path) -> int | None:
    """The process that a ready file names, if it is still a broker."""
    try:
        content = json.loads(ready_file.read_text(encoding="utf-8"))
        pid = int(content["pid"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WrongSettings(f"{ready_file} is not a ready file of a broker: {error}") from error
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return None
    return pid if any(Path(word.decode(errors="replace")).name in _PROGRAMS for word in words) else None


def _stop(pid: int, timeout_s: float) -> bool:
    """False if it has ended already. Raises StartFailed if it does not end in time, or is not ours to stop."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        signal.pidfd_send_signal(process, signal.SIGTERM)
        ended, _, _ = select.select([process], [], [], timeout_s)
    except ProcessLookupError:
        return True  # it has just ended
    except PermissionError as error:
        raise StartFailed(f"The broker (pid {pid}) belongs to another user; stop it as that user.") from error
    finally:
        os.close(process)
    if not ended:
        raise StartFailed(
            f"The broker (pid {pid}) has not stopped within {timeout_s:g} s; its log says what it waits for. Wait"
            f" longer with --timeout; `kill -9 {pid}` ends it, and the next start then recovers its logs."
        )
    return True
