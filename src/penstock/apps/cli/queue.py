"""Commands of the queue door: `create-topic`, `create-subscription`, `publish`, `join-subscription`, `subscribe`."""

from __future__ import annotations

import sys
import threading
import uuid
from typing import TYPE_CHECKING

import click

from penstock.apps.cli.formats import TOKENS, RecordView, Template
from penstock.apps.cli.options import output_option, parse_pairs
from penstock.apps.cli.queue_client import queue_client, queue_option
from penstock.apps.cli.sub import forget_stdout, read_template, stop_on_interrupt
from penstock.apps.cli.terminal import say

if TYPE_CHECKING:
    from penstock.client.queue import Message
    from penstock.client.queue.broker_client import BrokerClient

POLL_S = 0.1

offset_option = click.option(
    "--offset",
    type=int,
    default=0,
    show_default=True,
    help="Start offset in each partition; -1 is the end, -2 the oldest message.",
)
count_option = click.option("--count", type=click.IntRange(min=1), metavar="N", help="Stop after N messages.")
format_option = click.option(
    "--format", "template", metavar="TEXT", help=r"Output format of a message.  [default: '%v\n']"
)


@click.command("create-topic")
@click.argument("topic")
@click.option(
    "--partitions", type=click.IntRange(min=1), metavar="N", help="[default: the broker's default_partitions]"
)
@queue_option
def create_topic(topic: str, partitions: int | None, queue: str) -> None:
    """Create a topic; an existing one is left unchanged."""
    with queue_client(queue, "penstock-create-topic") as client:
        is_new = client.create_topic(topic, partitions)
    say(f"created topic {topic}" if is_new else f"topic {topic} already exists")


@click.command("create-subscription")
@click.argument("name")
@click.argument("topic")
@offset_option
@click.option(
    "--hold-ms",
    type=click.IntRange(min=1),
    help="How long a member may hold a message before it is redelivered.",
)
@click.option(
    "--max-deliveries",
    type=click.IntRange(min=1),
    help="After this many deliveries a message goes to TOPIC.dlq.",
)
@queue_option
def create_subscription(
    name: str, topic: str, offset: int, hold_ms: int | None, max_deliveries: int | None, queue: str
) -> None:
    """Create a durable subscription to a topic."""
    with queue_client(queue, "penstock-create-subscription") as client:
        is_new = client.create_subscription(
            name, topic, offset, hold_ms=hold_ms, max_deliveries=max_deliveries
        )
    say(f"created subscription {name} to {topic}" if is_new else f"subscription {name} already exists")


@click.command()
@click.argument("topic")
@click.argument("text")
@click.option("--key", help="Messages with the same key stay in order.")
@click.option("--property", "pairs", multiple=True, metavar="NAME=VALUE", help="A header; may be repeated.")
@queue_option
def publish(topic: str, text: str, key: str | None, pairs: tuple[str, ...], queue: str) -> None:
    """Publish a message."""
    properties = parse_pairs(pairs, "--property")
    with queue_client(queue, "penstock-publish") as client:
        offset = client.publish(topic, text.encode(), key=key, properties=properties)
    say(f"published to {topic} at offset {offset}")


@click.command("join-subscription", epilog=f"--format takes: {TOKENS}.")
@click.argument("name")
@count_option
@click.option(
    "--window", type=click.IntRange(min=1), metavar="N", help="Maximum number of unacknowledged messages."
)
@format_option
@output_option
@queue_option
def join_subscription(
    name: str, count: int | None, window: int | None, template: str | None, output: str, queue: str
) -> None:
    """Join a subscription and write its messages to stdout until Ctrl-C. Written messages are acknowledged."""
    write = read_template(template, output == "json")
    with queue_client(queue, "penstock-join-subscription") as client:
        _Listening(write, count).run(client, name, window)


@click.command(epilog=f"--format takes: {TOKENS}.")
@click.argument("topic")
@offset_option
@click.option(
    "--name",
    help="Name of a durable subscription; without it, the subscription is deleted when the command ends.",
)
@count_option
@format_option
@output_option
@queue_option
def subscribe(
    topic: str,
    offset: int,
    name: str | None,
    count: int | None,
    template: str | None,
    output: str,
    queue: str,
) -> None:
    """Create a subscription to a topic, join it and write its messages to stdout until Ctrl-C."""
    write = read_template(template, output == "json")
    chosen = name or f"{topic}-{uuid.uuid4().hex[:12]}"
    listening = _Listening(write, count)
    with queue_client(queue, "penstock-subscribe") as client:
        client.create_subscription(chosen, topic, offset)
        try:
            listening.run(client, chosen, None)
        finally:
            if name is None:
                client.delete_subscription(chosen)


class _Listening:
    """Writes messages until the count is reached or the command is interrupted."""

    def __init__(self, write: Template, count: int | None) -> None:
        self._write = write
        self._left = count
        self._is_over = threading.Event()
        self._is_pipe_broken = False
        self._stopping = stop_on_interrupt()

    def run(self, client: BrokerClient, name: str, window: int | None) -> None:
        if self._left is not None:
            window = min(window or self._left, self._left)
        client.subscribe_to_subscription(name, self._take, window=window)
        while not self._is_over.wait(POLL_S) and not self._stopping and client.is_subscribed(name):
            pass
        if client.is_subscribed(name):
            client.unsubscribe_from_subscription(name)
        if self._is_pipe_broken:
            forget_stdout()

    def _take(self, message: Message) -> None:
        """Write one message. Raising returns it to the subscription: it was surplus, or was not written."""
        if self._is_over.is_set():
            raise InterruptedError("the requested number of messages was reached")
        try:
            sys.stdout.buffer.write(self._write(_view_of(message)))
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            self._is_pipe_broken = True
            self._is_over.set()
            raise
        if self._left is not None:
            self._left -= 1
            if not self._left:
                self._is_over.set()


def _view_of(message: Message) -> RecordView:
    return RecordView(
        topic=message.topic,
        partition=message.partition,
        offset=message.offset,
        timestamp_ms=message.timestamp_ms,
        key=message.key,
        value=None if message.is_null else message.body,
        headers=message.headers,
    )
