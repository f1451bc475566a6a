"""`penstock sub`: writes records to stdout, from a position in topics or as a committing member of a group."""

from __future__ import annotations

import os
import signal
import sys
import time
from types import FrameType
from typing import TYPE_CHECKING, BinaryIO

import click

from penstock.apps.cli.formats import TOKENS, RecordView, Template, compile_template, json_line
from penstock.apps.cli.options import bootstrap_option, output_option
from penstock.apps.cli.positions import GRAMMAR, AtOffset, AtTime, Latest, Start, parse_start
from penstock.apps.cli.terminal import say

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

RECORDS_PER_POLL = 500
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
POLL_SECONDS = 0.2


@click.command(epilog=f"--from takes: {GRAMMAR}.\n\n--format takes: {TOKENS}.")
@click.option(
    "--topic",
    "topics",
    required=True,
    multiple=True,
    metavar="NAME",
    help="The topic to read; may be repeated.",
)
@click.option(
    "--from", "start_text", default="earliest", show_default=True, metavar="POSITION", help="Where to start."
)
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="Stop after N records.")
@click.option(
    "--until",
    type=click.Choice(["end"]),
    help="Stop at the end of the topic as of the start of the command.",
)
@click.option("--partition", type=click.IntRange(min=0), metavar="N", help="Read this partition only.")
@click.option(
    "--group",
    metavar="NAME",
    help="Join this consumer group: share partitions with its members, resume at its offsets, commit after output.",
)
@click.option("--format", "template", metavar="TEXT", help=r"Output format of a record.  [default: '%v\n']")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line; same as -o json.")
@bootstrap_option
@output_option
def sub(
    topics: tuple[str, ...],
    start_text: str,
    count: int | None,
    until: str | None,
    partition: int | None,
    group: str | None,
    template: str | None,
    as_json: bool,
    bootstrap: str,
    output: str,
) -> None:
    """Read records of topics and write them to stdout, until Ctrl-C.

    \b
    penstock sub --topic orders --from @-1h --format '%p %o %k %v\\n'
    penstock sub --topic orders --until end --json
    penstock sub --topic orders --topic returns --format '%t %v\\n'
    penstock sub --topic orders --group billing
    """
    write = read_template(template, as_json or output == "json")
    try:
        start = parse_start(start_text, int(time.time() * 1000))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--from'") from error

    from penstock.apps.cli.client import chosen_partitions, connect_consumer, topic_metadata

    reset = _reset(group, start, partition)
    outage = Outage(bootstrap)
    consumer = connect_consumer(bootstrap, group, reset, on_error=outage.on_error)
    try:
        partitions = {
            topic: chosen_partitions(topic_metadata(consumer, topic, bootstrap), partition)
            for topic in dict.fromkeys(topics)
        }
        reader = TopicReader(consumer, bootstrap, count, outage)
        if group is None:
            reader.assign(partitions, start, until_end=until is not None)
        else:
            reader.join(list(partitions), until_end=until is not None)
        reader.copy(write, sys.stdout.buffer)
    except KeyboardInterrupt:
        return
    except BrokenPipeError:
        forget_stdout()
    finally:
        consumer.close()


def _reset(group: str | None, start: Start, partition: int | None) -> str | None:
    """Where a group without committed offsets starts; None without a group."""
    if group is None:
        return None
    if partition is not None:
        raise click.UsageError(
            "--group and --partition are mutually exclusive: the group assigns the partitions."
        )
    if isinstance(start, AtOffset | AtTime):
        raise click.UsageError(
            "With --group, --from must be earliest or latest; reset a group with: penstock group seek."
        )
    return "latest" if isinstance(start, Latest) else "earliest"


def read_template(template: str | None, as_json: bool) -> Template:
    if as_json and template is not None:
        raise click.UsageError("--format and JSON output are mutually exclusive.")
    if as_json:
        return json_line
    try:
        return compile_template(
            template if template is not None else r"%v\n", for_terminal=sys.stdout.isatty()
        )
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--format'") from error


def stop_on_interrupt() -> list[int]:
    """A list that Ctrl-C, SIGTERM or SIGHUP appends to, so that the command can clean up and exit.

    An exception could be raised inside a callback of the client library, which would swallow it. A second signal
    terminates the process.
    """
    stopping: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        stopping.append(number)
        for one, before in handlers.items():
            signal.signal(one, before)

    handlers = {number: signal.signal(number, stop) for number in STOP_SIGNALS}
    return stopping


def forget_stdout() -> None:
    """Redirect stdout after a broken pipe: that is a normal exit, and the interpreter must not report it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


class Outage:
    """Reports once on stderr that the broker is unreachable, and once that it is back."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._is_reported = False

    def on_error(self, error: KafkaError) -> None:
        """Called by the client library for a failed connection; it keeps retrying."""
        from confluent_kafka import KafkaError

        if not self._is_reported and error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
            self._is_reported = True
            say(f"No broker answers at {self._bootstrap}; retrying.", err=True)

    def ended(self) -> None:
        if self._is_reported:
            self._is_reported = False
            say(f"The broker at {self._bootstrap} answers again.", err=True)


class TopicReader:
    """Reads topics until a count, an end position or an interrupt."""

    def __init__(self, consumer: Consumer, bootstrap: str, count: int | None, outage: Outage) -> None:
        self.consumer = consumer
        self.bootstrap = bootstrap
        self.remaining = count
        self.ends: dict[tuple[str, int], int] | None = None
        self._outage = outage
        self._commits = False

    def assign(self, partitions: dict[str, list[int]], start: Start, *, until_end: bool) -> None:
        """Resolve the start offset of each partition and assign them."""
        from penstock.apps.cli.client import topic_partition
        from penstock.apps.cli.topic_offsets import TopicOffsets

        first: list[TopicPartition] = []
        ends: dict[tuple[str, int], int] = {}
        for topic, numbers in partitions.items():
            offsets = TopicOffsets(self.consumer, topic, self.bootstrap)
            spans = offsets.spans(numbers)
            for number, offset in offsets.offsets(spans, start).items():
                first.append(topic_partition(topic, number, offset))
                if offset < spans[number][1]:
                    ends[topic, number] = spans[number][1]
        if until_end:
            self.ends = ends
        self.consumer.assign(first)

    def join(self, topics: list[str], *, until_end: bool) -> None:
        """Subscribe as a member of the group; with `until_end`, up to the end offsets at assignment."""
        from penstock.apps.cli.topic_offsets import TopicOffsets

        self._commits = True

        def on_assign(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            if until_end:
                self.ends = {}
                for one in partitions:
                    (span,) = (
                        TopicOffsets(consumer, one.topic, self.bootstrap).spans([one.partition]).values()
                    )
                    self.ends[one.topic, one.partition] = span[1]

        self.consumer.subscribe(topics, on_assign=on_assign)

    def copy(self, write: Template, out: BinaryIO) -> None:
        """Write records until the count, the end or an interrupt."""
        stopping = stop_on_interrupt()
        while not self._is_over() and not stopping:
            messages = self.consumer.consume(self._wanted(), POLL_SECONDS)
            if messages:
                self._outage.ended()
            for message in messages:
                if message.error() is not None:
                    self._reached_end_or_raise(message)
                elif self._takes(message):
                    out.write(write(_view_of(message)))
                    if self._commits:
                        self.consumer.store_offsets(message)
            out.flush()
            if self._commits:
                self._commit()

    def _commit(self) -> None:
        """Commit what was written. Nothing new to commit is not an error."""
        from confluent_kafka import KafkaError, KafkaException

        from penstock.apps.cli.client import failure_of

        try:
            self.consumer.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._NO_OFFSET:
                raise failure_of(error.args[0], self.bootstrap) from error

    def _wanted(self) -> int:
        return RECORDS_PER_POLL if self.remaining is None else min(RECORDS_PER_POLL, self.remaining)

    def _is_over(self) -> bool:
        return self.remaining == 0 or self.ends == {}

    def _takes(self, message: Message) -> bool:
        """Count a record; False if it is past the end offset as of the start."""
        offset = message.offset()
        assert offset is not None
        if self.ends is not None:
            end = self.ends.get(_partition_of(message))
            if end is None:
                return False
            if offset + 1 >= end:
                del self.ends[_partition_of(message)]
            if offset >= end:
                return False
        if self.remaining is not None:
            self.remaining -= 1
        return True

    def _reached_end_or_raise(self, message: Message) -> None:
        from confluent_kafka import KafkaError

        from penstock.apps.cli.client import failure_of

        error = message.error()
        assert error is not None
        if error.code() != KafkaError._PARTITION_EOF:
            raise failure_of(error, self.bootstrap, message.topic())
        if self.ends is not None:
            self.ends.pop(_partition_of(message), None)


def _partition_of(message: Message) -> tuple[str, int]:
    topic, partition = message.topic(), message.partition()
    assert topic is not None and partition is not None
    return topic, partition


def _view_of(message: Message) -> RecordView:
    partition, offset = message.partition(), message.offset()
    assert partition is not None and offset is not None
    headers = message.headers() or []
    assert isinstance(headers, list)
    return RecordView(
        topic=message.topic() or "",
        partition=partition,
        offset=offset,
        timestamp_ms=message.timestamp()[1],
        key=_as_bytes(message.key()),
        value=_as_bytes(message.value()),
        headers=tuple((name, _as_bytes(value)) for name, value in headers),
    )


def _as_bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
