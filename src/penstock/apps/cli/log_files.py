"""`penstock log`: dumps and verifies log files offline. Never talks to a broker and never changes a file."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path

import click

from penstock.apps.cli.failures import ObjectNotFound
from penstock.apps.cli.options import output_option
from penstock.apps.cli.plain_output import TABLE, say_next
from penstock.apps.cli.terminal import counted, say
from penstock.apps.cli.topic_names import OPEN_FILES_MAX, TopicNames
from penstock.core.codecs import CODEC_NAMES
from penstock.core.log.inspect import Dumped, Finding, Severity, dump, verify
from penstock.core.log.segment import segment_bases
from penstock.core.model import Record
from penstock.node.runtime.disk import DiskFiles

_SHOWN_BYTES_MAX = 200

words_argument = click.argument("words", nargs=-1, metavar="[TOPIC|DIR]...")
data_dir_option = click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="PENSTOCK_DATA_DIR",
    show_envvar=True,
    default=Path("penstock-data"),
    show_default=True,
    metavar="DIR",
    help="Data directory of the broker, in which topics are looked up.",
)


@click.group()
def log() -> None:
    """Inspect log files without a broker.

    A log is named by its TOPIC, TOPIC:PARTITION, or a directory: a data directory or any below it.
    """


@log.command("verify")
@words_argument
@data_dir_option
@output_option
def verify_command(words: tuple[str, ...], data_dir: Path, output: str) -> None:
    """Verify every batch, index and state file.

    Without TOPIC or DIR, of the whole data directory. Exits with 1 if records are damaged. A log that a running broker
    is writing to may appear torn at its end.

    \b
    penstock log verify
    penstock log verify orders --data-dir ./penstock-data
    """
    damaged = count = 0
    names = TopicNames()
    for directory in _logs_below(log_paths(words, data_dir, names)):
        count += 1
        for finding in verify(_files_of(directory), directory.name):
            damaged += finding.severity is Severity.DAMAGED
            _show_finding(directory, finding, names.of(directory), output)
    if output == TABLE:
        outcome = f"damage found in {counted(damaged, 'place')}" if damaged else "no damage found"
        say(f"{counted(count, 'log')} checked, {outcome}")
    if damaged:
        raise SystemExit(1)


@log.command("dump")
@words_argument
@data_dir_option
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
def dump_command(
    words: tuple[str, ...], data_dir: Path, records: bool, start_offset: int, output: str
) -> None:
    """Print the batches of logs, one per line.

    \b
    penstock log dump orders --records
    penstock log dump orders:0 --from 100 -o json
    """
    names = TopicNames()
    for directory in _logs_below(log_paths(words, data_dir, names)):
        topic = names.of(directory)
        if output == TABLE:
            say(f"{_label(topic)}{directory}")
        for batch in dump(
            _files_of(directory), directory.name, start_offset=start_offset, with_records=records
        ):
            _show_batch(directory, batch, topic, output)


def log_paths(words: tuple[str, ...], data_dir: Path, names: TopicNames) -> list[Path]:
    """The directories that the words name. An existing directory goes before a topic of the same name."""
    if not words:
        words = (str(data_dir),)
    found: list[Path] = []
    for word in words:
        if Path(word).is_dir():
            found.append(Path(word))
        elif "/" in word:
            raise ObjectNotFound(f"There is no directory {word}.")
        else:
            found += _topic_paths(word, data_dir, names)
    return found


def _topic_paths(word: str, data_dir: Path, names: TopicNames) -> list[Path]:
    if not data_dir.is_dir():
        raise ObjectNotFound(
            f"{word} is not a directory, and to look it up as a topic, there is no data directory {data_dir}. Name it"
            " with --data-dir."
        )
    topic, colon, partition = word.partition(":")
    known = names.directories(data_dir)
    if topic not in known:
        near = difflib.get_close_matches(topic, list(known), n=1)
        hint = f" Did you mean {near[0]}?" if near else f" It has: {', '.join(sorted(known)) or 'no topics'}."
        raise ObjectNotFound(f"There is no topic {topic} in {data_dir}.{hint}")
    found = [one for one in known[topic] if not colon or one.name == partition]
    if not found:
        raise ObjectNotFound(f"There is no partition {partition} of {topic} in {data_dir}.")
    return found


def _logs_below(paths: list[Path]) -> Iterator[Path]:
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
    if output != TABLE:
        found = {"severity": finding.severity, "path": path, "message": finding.message}
        say_next({**_fields(topic), **found}, output)
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
    if output != TABLE:
        if batch.records is not None:
            described["records"] = [
                {**one._asdict(), "key": _text(one.key), "value": _text(one.value), "headers": _headers(one)}
                for one in batch.records
            ]
        say_next(described, output)
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
