"""`penstock log`: dumps and verifies log files offline. Never talks to a broker and never changes a file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click

from penstock.apps.cli.options import output_option
from penstock.apps.cli.terminal import counted, say
from penstock.apps.cli.topic_names import OPEN_FILES_MAX, TopicNames
from penstock.core.codecs import CODEC_NAMES
from penstock.core.log.inspect import Dumped, Finding, Severity, dump, verify
from penstock.core.log.segment import segment_bases
from penstock.core.model import Record
from penstock.node.runtime.disk import DiskFiles

_SHOWN_BYTES_MAX = 200

paths_argument = click.argument(
    "paths",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR...",
)


@click.group()
def log() -> None:
    """Inspect log files without a broker. DIR is a data directory or any directory below it."""


@log.command("verify")
@paths_argument
@output_option
def verify_command(paths: tuple[Path, ...], output: str) -> None:
    """Verify every batch, index and state file. Exits with 1 if records are damaged.

    A log that a running broker is writing to may appear torn at its end.
    """
    damaged = count = 0
    names = TopicNames()
    for directory in _logs_below(paths):
        count += 1
        for finding in verify(_files_of(directory), directory.name):
            damaged += finding.severity is Severity.DAMAGED
            _show_finding(directory, finding, names.of(directory), output)
    if output == "table":
        outcome = f"damage found in {counted(damaged, 'place')}" if damaged else "no damage found"
        say(f"{counted(count, 'log')} checked, {outcome}")
    if damaged:
        raise SystemExit(1)


@log.command("dump")
@paths_argument
@click.option("--records", is_flag=True, help="Include the records of each batch.")
@click.option(
    "--from",
    "start_offset",
    type=click.IntRange(min=0),
    default=0,
    metavar="OFFSET",
    help="Start at this offset.",
)
@output_option
def dump_command(paths: tuple[Path, ...], records: bool, start_offset: int, output: str) -> None:
    """Print the batches of logs, one per line."""
    names = TopicNames()
    for directory in _logs_below(paths):
        topic = names.of(directory)
        if output == "table":
            say(f"{_label(topic)}{directory}")
        for batch in dump(
            _files_of(directory), directory.name, start_offset=start_offset, with_records=records
        ):
            _show_batch(directory, batch, topic, output)


def _logs_below(paths: tuple[Path, ...]) -> Iterator[Path]:
    """The directories with segments, at or below the paths."""
    found = 0
    for path in paths:
        for directory in sorted(
            {path.resolve(), *(one for one in path.resolve().rglob("*") if one.is_dir())}
        ):
            if segment_bases(_files_of(directory), directory.name):
                found += 1
                yield directory
    if not found:
        raise click.UsageError("No log found in " + ", ".join(map(str, paths)) + ".")


def _files_of(directory: Path) -> DiskFiles:
    return DiskFiles(directory.parent, OPEN_FILES_MAX, read_only=True)


def _label(topic: tuple[str, int] | None) -> str:
    """Directories are named by topic id; show the topic name as well."""
    return "" if topic is None else f"{topic[0]} partition {topic[1]}  "


def _fields(topic: tuple[str, int] | None) -> dict[str, object]:
    return {} if topic is None else {"topic": topic[0], "partition": topic[1]}


def _show_finding(directory: Path, finding: Finding, topic: tuple[str, int] | None, output: str) -> None:
    path = str(directory.parent / finding.path)
    if output == "json":
        found = {"severity": finding.severity, "path": path, "message": finding.message}
        say(json.dumps({**_fields(topic), **found}))
    else:
        say(f"{finding.severity:8} {_label(topic)}{path}: {finding.message}")


def _show_batch(directory: Path, batch: Dumped, topic: tuple[str, int] | None, output: str) -> None:
    header = batch.header
    described: dict[str, object] = {
        **_fields(topic),
        "path": str(directory.parent / batch.path),
        "position": batch.position,
    }
    if header is not None:
        described |= header._asdict() | {"last_offset": header.last_offset, "size": header.size}
        described |= {
            "codec": CODEC_NAMES.get(header.codec, str(header.codec)),
            "is_control": header.is_control,
            "is_transactional": header.is_transactional,
        }
    if batch.error is not None:
        described["error"] = batch.error
    if output == "json":
        if batch.records is not None:
            described["records"] = [
                {**one._asdict(), "key": _text(one.key), "value": _text(one.value), "headers": _headers(one)}
                for one in batch.records
            ]
        say(json.dumps(described))
        return
    if header is not None:
        say(
            f"  offsets {header.base_offset}..{header.last_offset}  records {header.count}  at {batch.position}"
            f"  bytes {header.size}  epoch {header.leader_epoch}  codec {described['codec']}"
            f"  time {header.max_timestamp_ms}"
            f"  producer {header.producer_id}/{header.producer_epoch}/{header.base_sequence}"
            f"{'  control' if header.is_control else ''}{'  transactional' if header.is_transactional else ''}"
        )
    if batch.error is not None:
        say(f"  damaged at {batch.position}  {_label(topic)}{batch.error}")
    for record in batch.records or []:
        say(f"    {record.offset}  {record.timestamp_ms}  {_short(record.key)}  {_short(record.value)}")


def _headers(record: Record) -> list[list[str | None]]:
    return [[one.key, _text(one.value)] for one in record.headers]


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode(errors="backslashreplace")


def _short(content: bytes | None) -> str:
    text = _text(content)
    if text is None:
        return "null"
    return repr(text[:_SHOWN_BYTES_MAX]) + ("…" if len(text) > _SHOWN_BYTES_MAX else "")
