"""How far compaction has come in one log, in a file of its own. Never compacts anything; compaction.py does."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from penstock.core.errors import TornSegment
from penstock.core.log import checksummed_file
from penstock.core.ports import Files

FILE_NAME = "cleaner-offset"
_EVERYWHERE = 2**63 - 1


class CleanerState(NamedTuple):
    """`first_dirty`: before it no key has two records. `gaps_before`: before it offsets may be missing."""

    first_dirty: int = 0
    gaps_before: int = 0


def read(files: Files, directory: str, report: Callable[[str], None]) -> CleanerState:
    """The state as last written; where the file is damaged, everything may be cleaned again and may have gaps."""
    try:
        content = checksummed_file.read(files, f"{directory}/{FILE_NAME}")
    except TornSegment as torn:
        report(f"{torn}; everything counts as not yet compacted")
        return CleanerState(0, _EVERYWHERE)
    return CleanerState() if content is None else CleanerState(*content)


def write(files: Files, directory: str, state: CleanerState, *, sync: bool) -> None:
    checksummed_file.write(files, f"{directory}/{FILE_NAME}", state, sync=sync)
