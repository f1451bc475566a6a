"""`penstock pub`: one record from the command line, or one per line of stdin, which is streamed."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.apps.cli.failures import INTERRUPTED
from penstock.apps.cli.formats import unescape
from penstock.apps.cli.name_completion import complete_topic
from penstock.apps.cli.options import bootstrap_option, given_once, output_option
from penstock.apps.cli.plain_output import TABLE, say_content
from penstock.apps.cli.terminal import counted, say
from penstock.node.definitions.units import show_bytes

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
PROGRESS_SECONDS = 0.2
POLL_SECONDS = 0.1

Pair = tuple[bytes | None, bytes]


@dataclass(slots=True)
class Sent:
    """Delivery results so far. The client calls `delivered` once per record."""

    topic: str
    records: int = 0
    payload_bytes: int = 0
    failed: int = 0
    first_error: KafkaError | None = None
    last: Message | None = None
    ranges: dict[int, tuple[int, int]] = field(default_factory=dict)

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed += 1
            self.first_error = self.first_error or error
            return
        self.records += 1
        self.payload_bytes += len(message.key() or b"") + len(message.value() or b"")
        self.last = message
        partition, offset = message.partition(), message.offset()
        if partition is not None and offset is not None and offset >= 0:
            low, high = self.ranges.get(partition, (offset, offset))
            self.ranges[partition] = (min(low, offset), max(high, offset))


@click.command()
@click.argument("words", nargs=-1, metavar="[TOPIC] [MESSAGE]", shell_complete=complete_topic)
@click.option(
    "--topic",
    "topic_option",
    multiple=True,
    callback=given_once,
    metavar="NAME",
    shell_complete=complete_topic,
    help="The topic to write to, instead of TOPIC.",
)
@click.option(
    "--message",
    "message_option",
    metavar="TEXT",
    help="The value of the record, instead of MESSAGE.",
)
@click.option("--key", metavar="TEXT", help="The key of the record; records with the same key stay in order.")
@click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header; may be repeated.")
@click.option("--partition", type=click.IntRange(min=0), metavar="N", help="Write to this partition only.")
@click.option(
    "--acks",
    type=click.Choice(["0", "1", "all"]),
    default="all",
    show_default=True,
    help="Acknowledgements to wait for: none, the leader, or all in-sync replicas.",
)
@click.option("--compression", type=click.Choice(COMPRESSIONS), default="none", show_default=True)
@click.option(
    "--key-separator",
    metavar="TEXT",
    help=r"Separates key and value in lines of stdin; \t is a tab.",
)
@click.option(
    "--avro",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Encode values, given as JSON, with this Avro schema (.avsc).",
)
@bootstrap_option
@output_option
def pub(
    words: tuple[str, ...],
    topic_option: str | None,
    message_option: str | None,
    key: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    acks: str,
    compression: str,
    key_separator: str | None,
    avro: Path | None,
    bootstrap: str,
    output: str,
) -> None:
    """Write records to a topic.

    Prints their partitions and offsets. Without MESSAGE, every line of stdin is one record. `penstock produce` is the
    same command.

    \b
    penstock pub orders "a message" --key alice --header source=shell
    penstock pub orders < orders.jsonl
    """
    topic, message = _topic_and_message(words, topic_option, message_option)
    if message is not None and key_separator is not None:
        raise click.UsageError("--key-separator is for lines of stdin; use --key with a message.")
    if key is not None and key_separator is not None:
        raise click.UsageError("--key and --key-separator are mutually exclusive.")
    more: dict[str, Any] = {"headers": _headers(headers)} if headers else {}
    if partition is not None:
        more["partition"] = partition
    fixed_key = key.encode() if key is not None else None
    pairs = [(fixed_key, message.encode())] if message is not None else _lines(fixed_key, key_separator)

    from penstock.apps.cli.client import connect_producer, failure_of

    values = pairs if avro is None else _encoded(pairs, avro)
    producer = connect_producer(bootstrap, acks, compression)
    sent = Sent(topic)
    started = time.monotonic()
    interrupted = _send(producer, sent, values, more, progress=message is None)
    seconds = time.monotonic() - started
    if sent.first_error is None or message is None:
        _report(sent, output, single=message is not None, seconds=seconds)
    if sent.first_error is not None:
        raise failure_of(sent.first_error, bootstrap, topic)
    if interrupted:
        sys.exit(INTERRUPTED)


def _topic_and_message(
    words: tuple[str, ...], topic: str | None, message: str | None
) -> tuple[str, str | None]:
    """From arguments and options: what an option gives is not an argument."""
    left = list(words)
    if topic is None:
        if not left:
            raise click.UsageError(
                "Missing argument 'TOPIC': name one, as in: penstock pub orders \"a message\""
            )
        topic = left.pop(0)
    if message is None and left:
        message = left.pop(0)
    if left:
        raise click.UsageError(
            f"Unexpected argument {left[0]!r}: a message with spaces needs quotes, as in: penstock pub orders"
            ' "a message"'
        )
    if not topic:
        raise click.UsageError("The name of the topic is empty.")
    return topic, message


def _encoded(pairs: Iterable[Pair], schema: Path) -> Iterator[Pair]:
    """JSON values as Avro. Raises click's usage error for the first value that does not fit the schema."""
    from penstock.client.serializers import Avro

    avro = Avro(schema)
    for number, (key, value) in enumerate(pairs, 1):
        try:
            yield key, avro.encode(json.loads(value), "")
        except Exception as error:  # the encoder raises whatever the value provokes
            raise click.UsageError(
                f"Message {number} does not fit the Avro schema {schema}: {type(error).__name__}: {error}"
            ) from error


def _headers(pairs: tuple[str, ...]) -> list[tuple[str, bytes]]:
    """Unlike configs, header names may be repeated."""
    found = []
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{pair!r} is not of the form name=value.", param_hint="'--header'")
        found.append((name, value.encode()))
    return found


def _lines(key: bytes | None, key_separator: str | None) -> Iterator[Pair]:
    try:
        separator = unescape(key_separator).encode() if key_separator is not None else None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--key-separator'") from error
    if separator == b"":
        raise click.BadParameter("must not be empty.", param_hint="'--key-separator'")
    return split_lines(sys.stdin.buffer, key, separator)


def split_lines(lines: Iterable[bytes], key: bytes | None, separator: bytes | None) -> Iterator[Pair]:
    """Split lines into keys and values; a line without the separator gets the default key."""
    for line in lines:
        content = line.removesuffix(b"\n").removesuffix(b"\r")
        if separator is not None and separator in content:
            own_key, _, value = content.partition(separator)
            yield own_key, value
        else:
            yield key, content


def _send(
    producer: Producer, sent: Sent, pairs: Iterable[Pair], more: dict[str, Any], *, progress: bool
) -> bool:
    """Send every record and wait for the results; True if Ctrl-C interrupted it."""
    if progress and sys.stdin.isatty():
        say("Enter one record per line; end with Ctrl-D.", err=True)
    shown = SendProgress(sent) if progress and sys.stderr.isatty() and not sys.stdin.isatty() else None
    interrupted = False
    try:
        for key, value in pairs:
            _produce(producer, sent, key, value, more)
            if shown is not None:
                shown.step()
            if sent.first_error is not None:
                break
    except KeyboardInterrupt:
        interrupted = True
    while len(producer):
        producer.poll(POLL_SECONDS)
    if shown is not None:
        shown.clear()
    return interrupted


def _produce(producer: Producer, sent: Sent, key: bytes | None, value: bytes, more: dict[str, Any]) -> None:
    from confluent_kafka import KafkaException

    while True:
        try:
            producer.produce(sent.topic, value, key, on_delivery=sent.delivered, **more)
        except BufferError:
            producer.poll(POLL_SECONDS)
        except KafkaException as error:
            sent.failed += 1
            sent.first_error = sent.first_error or error.args[0]
            return
        else:
            producer.poll(0)
            return


class SendProgress:
    """A counter on the terminal. Written to stderr, so that it never mixes with results."""

    def __init__(self, sent: Sent) -> None:
        self.sent = sent
        self.next_at = 0.0

    def step(self) -> None:
        now = time.monotonic()
        if now >= self.next_at:
            self.next_at = now + PROGRESS_SECONDS
            sys.stderr.write(f"\r{counted(self.sent.records, 'record')} acknowledged\x1b[K")
            sys.stderr.flush()

    def clear(self) -> None:
        sys.stderr.write("\r\x1b[K")


def _report(sent: Sent, output: str, *, single: bool, seconds: float) -> None:
    if single and sent.last is not None:
        _report_single(sent, output)
        return
    if output != TABLE:
        offsets = {str(number): list(span) for number, span in sorted(sent.ranges.items())}
        content = {
            "topic": sent.topic,
            "records": sent.records,
            "bytes": sent.payload_bytes,
            "failed": sent.failed,
            "seconds": round(seconds, 3),
            "offsets": offsets,
        }
        say_content(content, output)
        return
    rate = f"{sent.records / seconds:,.0f} per second" if seconds > 0 else "immediately"
    amount = f"{counted(sent.records, 'record')}, {show_bytes(sent.payload_bytes)}"
    lines = [
        f"{amount}, to {sent.topic} in {seconds:.2f} s ({rate})"
        + (f"; {sent.failed:,} failed" if sent.failed else "")
    ]
    lines += [f"  partition {n}  offsets {low} to {high}" for n, (low, high) in sorted(sent.ranges.items())]
    say("\n".join(lines))


def _report_single(sent: Sent, output: str) -> None:
    assert sent.last is not None
    partition, offset = sent.last.partition(), sent.last.offset()
    known = offset if offset is not None and offset >= 0 else None
    if output != TABLE:
        say_content({"topic": sent.topic, "partition": partition, "offset": known}, output)
        return
    where = f"offset {known}" if known is not None else "offset unknown, because acks is 0"
    say(f"{sent.topic}  partition {partition}  {where}")
