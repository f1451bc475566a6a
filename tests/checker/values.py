"""Anomalies of single values: conflicting, doubled, invented, aborted, early, lost, unseen. Never looks at time."""

from __future__ import annotations

from checker import findings as kinds
from checker.findings import Findings
from checker.history import OK
from checker.versions import Versions


def find_value_anomalies(versions: Versions, found: Findings) -> None:
    _inconsistent_offsets(versions, found)
    _duplicates(versions, found)
    _phantoms(versions, found)
    _aborted_reads(versions, found)
    _precommitted_reads(versions, found)
    _lost_writes(versions, found)
    _unseen(versions, found)


def _inconsistent_offsets(versions: Versions, found: Findings) -> None:
    for key, log in sorted(versions.keys.items()):
        for offset, values in sorted(log.conflicts.items()):
            found.add(kinds.INCONSISTENT_OFFSETS, f"key {key} offset {offset} holds {sorted(values)}")


def _duplicates(versions: Versions, found: Findings) -> None:
    for key, log in sorted(versions.keys.items()):
        doubled = {value for value, first in log.first.items() if log.last[value] != first}
        if doubled:
            for value, offsets in sorted(log.offsets_of(doubled).items()):
                found.add(kinds.DUPLICATE, f"key {key} value {value} is at offsets {offsets}")


def _phantoms(versions: Versions, found: Findings) -> None:
    for key, values in sorted(versions.read_by_any.items()):
        for value in sorted(values - versions.writer.get(key, {}).keys()):
            found.add(kinds.PHANTOM, f"key {key} value {value} was read, and nobody ever sent it")


def _aborted_reads(versions: Versions, found: Findings) -> None:
    for key, values in sorted(versions.read_ok.items()):
        for value in sorted(values):
            writer = versions.failed_writer(key, value)
            if writer is not None:
                found.add(kinds.G1A, f"key {key} value {value} was read, and {writer} had failed")


def _precommitted_reads(versions: Versions, found: Findings) -> None:
    for op in versions.ops:
        for key, _, value in op.sends:
            if any(read == value for _, read in op.polls.get(key, ())):
                found.add(kinds.PRECOMMITTED_READ, f"{op} polled its own value {value} of key {key}")


def _lost_writes(versions: Versions, found: Findings) -> None:
    """Values that lie before something that was read, and were read by nobody, though their writer is done."""
    for key, log in sorted(versions.keys.items()):
        bound = max((log.first[value] for value in versions.read_ok.get(key, ())), default=-1)
        unread = log.last.keys() - versions.read_by_any.get(key, set())
        for value in sorted(unread):
            writer = versions.writer[key][value]
            if log.last[value] <= bound and versions.must_have_committed(writer):
                found.add(kinds.LOST_WRITE, f"key {key} value {value} of {writer} was never read")


def _unseen(versions: Versions, found: Findings) -> None:
    for key, values in sorted(versions.written_ok.items()):
        for value in sorted(values - versions.read_ok.get(key, set())):
            writer = versions.writer[key][value]
            assert writer.type == OK
            found.add(kinds.UNSEEN, f"key {key} value {value} of {writer} was not seen at the end")
