"""The progress of compaction in one log, in its own file; compaction.py compacts."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from penstock.core.errors import TornSegment
from penstock.core.log import checksummed_file
from penstock.core.ports import Files

FILE_NAME = "cleaner-offset"
_EVERYWHERE = 2**63 - 1


class CleanerState(NamedTuple):
    """No key has two records before `first_dirty`; offsets may be missing before `gaps_before`."""

    first_dirty: int = 0
    gaps_before: int = 0


def read(files: Files, directory: str, report: Callable[[str], None]) -> CleanerState:
    """The state as last written. A damaged file means that everything is dirty and may have gaps."""
    try:
        content = checksummed_file.read(files, f"{directory}/{FILE_NAME}")
    except TornSegment as torn:
        report(f"{torn}; treating the whole log as not compacted")
        return CleanerState(0, _EVERYWHERE)
    return CleanerState() if content is None else CleanerState(*content)


def write(files: Files, directory: str, state: CleanerState, *, sync: bool) -> None:
    checksummed_file.write(files, f"{directory}/{FILE_NAME}", state, sync=sync)
