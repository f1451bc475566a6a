"""`penstock sub`: writes records to stdout, from a position in topics or as a committing member of a group."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.apps.cli.field_path import GRAMMAR as PATH_GRAMMAR
from penstock.apps.cli.formats import TOKENS
from penstock.apps.cli.interrupts import forget_stdout
from penstock.apps.cli.last_records import LAST_MAX, LastRecords
from penstock.apps.cli.name_completion import complete_group, complete_topic
from penstock.apps.cli.options import bootstrap_option, output_option
from penstock.apps.cli.outage import Outage
from penstock.apps.cli.plain_output import JSON, YAML
from penstock.apps.cli.positions import GRAMMAR, Earliest, Latest, Start, parse_start
from penstock.apps.cli.record_show import make_show
from penstock.apps.cli.topic_patterns import expand_topics, is_pattern, pattern_regex
from penstock.apps.cli.topic_reader import Place, TopicReader

if TYPE_CHECKING:
    from confluent_kafka import Consumer

_EPILOG = f"--from takes: {GRAMMAR}.\n\n--format takes: {TOKENS}.\n\n--jq takes: {PATH_GRAMMAR}."


@click.command(epilog=_EPILOG)
@click.argument("names", nargs=-1, metavar="[TOPIC]...", shell_complete=complete_topic)
@click.option(
    "--topic",
    "more_names",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_topic,
    help="A topic to read, like TOPIC; may be repeated.",
)
@click.option("--from", "start_text", metavar="POSITION", help="Where to start.  [default: earliest]")
@click.option(
    "--offset",
    type=int,
    metavar="N",
    help="Start at this offset; -N starts N before the end of each partition.",
)
@click.option(
    "--last",
    type=click.IntRange(1, LAST_MAX),
    metavar="N",
    help="Start with the last N records, by timestamp over all partitions.",
)
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="Stop after N records.")
@click.option(
    "--until",
    type=click.Choice(["end"]),
    help="Stop at the end of the topics as of the start of the command.",
)
@click.option("--partition", type=click.IntRange(min=0), metavar="N", help="Read this partition only.")
@click.option(
    "--group",
    metavar="NAME",
    shell_complete=complete_group,
    help="Join this consumer group: share partitions with its members, resume at its offsets, commit after output.",
)
@click.option(
    "--grep", metavar="REGEX", help="Only records whose key, value or a header matches (RE2 syntax)."
)
@click.option("--jq", "path", metavar="PATH", help="Show a field of JSON values, as in .user.name")
@click.option("--pretty", "is_pretty", is_flag=True, help="Indent JSON values; in colour on a terminal.")
@click.option(
    "--avro",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Decode values with this Avro schema (.avsc) and show them as JSON.",
)
@click.option("--format", "template", metavar="TEXT", help=r"Output format of a record.  [default: '%v\n']")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line; same as -o json.")
@bootstrap_option
@output_option
def sub(
    names: tuple[str, ...],
    more_names: tuple[str, ...],
    start_text: str | None,
    offset: int | None,
    last: int | None,
    count: int | None,
    until: str | None,
    partition: int | None,
    group: str | None,
    as_json: bool,
    bootstrap: str,
    output: str,
    **shown: Any,
) -> None:
    """Read records of topics and write them to stdout.

    Runs until Ctrl-C. TOPIC may contain the wildcards * and ?; quote it then. `penstock consume` is the same command.

    \b
    penstock sub orders
    penstock sub 'orders-*' --last 10 --format '%t %p %o %k %v\\n'
    penstock sub orders --from @-1h --grep alice --jq .user.name
    penstock sub orders returns --until end -o json
    penstock sub orders --group billing
    """
    topics = _given((*names, *more_names))
    show = make_show(output=_format(output, as_json=as_json), **shown)
    start = _start(start_text, offset, last)
    reset = _reset(group, start, last, partition)

    from penstock.apps.cli.client import connect_consumer

    outage = Outage(bootstrap)
    consumer = connect_consumer(bootstrap, group, reset, on_error=outage.on_error)
    reader = TopicReader(consumer, bootstrap, show, sys.stdout.buffer, outage, count)
    try:
        if group is None:
            spans = _spans(consumer, topics, partition, bootstrap)
            _assign(reader, spans, start, last, until_end=until is not None)
        else:
            _join(reader, topics, until_end=until is not None)
        reader.copy()
        show.ended()
    except KeyboardInterrupt:
        return
    except BrokenPipeError:
        forget_stdout()
    finally:
        consumer.close()


def _given(topics: tuple[str, ...]) -> tuple[str, ...]:
    if not topics:
        raise click.UsageError("Missing argument 'TOPIC': name a topic, as in: penstock sub orders")
    return topics


def _format(output: str, *, as_json: bool) -> str:
    if as_json and output == YAML:
        raise click.UsageError("--json and -o yaml are mutually exclusive.")
    return JSON if as_json else output


def _start(start_text: str | None, offset: int | None, last: int | None) -> Start:
    given = [
        name
        for name, value in (("--from", start_text), ("--offset", offset), ("--last", last))
        if value is not None
    ]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} are mutually exclusive: each says where to start.")
    if offset is not None:
        return parse_start(str(offset), 0)
    try:
        return parse_start(start_text or "earliest", int(time.time() * 1000))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--from'") from error


def _reset(group: str | None, start: Start, last: int | None, partition: int | None) -> str | None:
    """Where a group without committed offsets starts; None without a group."""
    if group is None:
        return None
    if partition is not None:
        raise click.UsageError(
            "--group and --partition are mutually exclusive: the group assigns the partitions."
        )
    if last is not None or not isinstance(start, Earliest | Latest):
        raise click.UsageError(
            "With --group, --from must be earliest or latest; reset a group with: penstock group seek."
        )
    return "latest" if isinstance(start, Latest) else "earliest"


def _spans(
    consumer: Consumer, topics: tuple[str, ...], partition: int | None, bootstrap: str
) -> dict[str, dict[int, tuple[int, int]]]:
    """The first and the end offset of each partition, by topic."""
    from penstock.apps.cli.client import chosen_partitions, topic_metadata
    from penstock.apps.cli.topic_offsets import TopicOffsets

    found = {}
    for topic in expand_topics(consumer, topics, bootstrap):
        numbers = chosen_partitions(topic_metadata(consumer, topic, bootstrap), partition)
        found[topic] = TopicOffsets(consumer, topic, bootstrap).spans(numbers)
    return found


def _assign(
    reader: TopicReader,
    spans: dict[str, dict[int, tuple[int, int]]],
    start: Start,
    last: int | None,
    *,
    until_end: bool,
) -> None:
    from penstock.apps.cli.topic_offsets import TopicOffsets

    places = {(topic, number): span for topic, one in spans.items() for number, span in one.items()}
    ends = {place: span[1] for place, span in places.items()}
    if last is not None:
        for record in LastRecords(reader.consumer, reader.bootstrap, last).read(places):
            if reader.remaining != 0:
                reader.write(record)
        reader.assign(ends, ends if until_end else None)
        return
    starts: dict[Place, int] = {}
    for topic, one in spans.items():
        offsets = TopicOffsets(reader.consumer, topic, reader.bootstrap).offsets(one, start)
        starts |= {(topic, number): offset for number, offset in offsets.items()}
    reader.assign(starts, ends if until_end else None)


def _join(reader: TopicReader, topics: tuple[str, ...], *, until_end: bool) -> None:
    """A member follows topics that match a pattern and are created later."""
    from penstock.apps.cli.client import topic_metadata

    expand_topics(reader.consumer, topics, reader.bootstrap)
    for topic in topics:
        if not is_pattern(topic):
            topic_metadata(reader.consumer, topic, reader.bootstrap)
    wanted = [pattern_regex(topic) if is_pattern(topic) else topic for topic in dict.fromkeys(topics)]
    reader.join(wanted, until_end=until_end)
