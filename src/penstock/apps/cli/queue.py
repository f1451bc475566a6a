"""Commands of the queue door: `create-topic`, `create-subscription`, `publish`, `join-subscription`, `subscribe`."""

from __future__ import annotations

import sys
import threading
import uuid
from typing import TYPE_CHECKING

import click

from penstock.apps.cli.formats import TOKENS, RecordView
from penstock.apps.cli.interrupts import forget_stdout, stop_on_interrupt
from penstock.apps.cli.options import output_option, parse_pairs
from penstock.apps.cli.plain_output import TABLE, say_content
from penstock.apps.cli.queue_client import queue_client, queue_option
from penstock.apps.cli.record_show import RecordShow, make_show
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
@output_option
@queue_option
def create_topic(topic: str, partitions: int | None, output: str, queue: str) -> None:
    """Queue: create a topic.

    A word of the queue protocol; over Kafka's, it is `penstock topic create`. An existing topic is left unchanged.

    \b
    penstock create-topic parcels --partitions 3
    """
    with queue_client(queue, "penstock-create-topic") as client:
        is_new = client.create_topic(topic, partitions)
    if output != TABLE:
        say_content({"topic": topic, "created": is_new}, output)
        return
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
@output_option
@queue_option
def create_subscription(
    name: str,
    topic: str,
    offset: int,
    hold_ms: int | None,
    max_deliveries: int | None,
    output: str,
    queue: str,
) -> None:
    """Queue: create a durable subscription.

    A word of the queue protocol: the members of a subscription share the messages of a topic and acknowledge each.

    \b
    penstock create-subscription workers parcels --hold-ms 30000
    """
    with queue_client(queue, "penstock-create-subscription") as client:
        is_new = client.create_subscription(
            name, topic, offset, hold_ms=hold_ms, max_deliveries=max_deliveries
        )
    if output != TABLE:
        say_content({"subscription": name, "topic": topic, "created": is_new}, output)
        return
    say(f"created subscription {name} to {topic}" if is_new else f"subscription {name} already exists")


@click.command()
@click.argument("topic")
@click.argument("text")
@click.option("--key", help="Messages with the same key stay in order.")
@click.option("--property", "pairs", multiple=True, metavar="NAME=VALUE", help="A header; may be repeated.")
@output_option
@queue_option
def publish(topic: str, text: str, key: str | None, pairs: tuple[str, ...], output: str, queue: str) -> None:
    """Queue: publish a message.

    A word of the queue protocol; over Kafka's, it is `penstock pub`.

    \b
    penstock publish parcels "to Berlin" --key alice
    """
    properties = parse_pairs(pairs, "--property")
    with queue_client(queue, "penstock-publish") as client:
        offset = client.publish(topic, text.encode(), key=key, properties=properties)
    if output != TABLE:
        say_content({"topic": topic, "offset": offset}, output)
        return
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
    """Queue: read as a member of a subscription.

    A word of the queue protocol; over Kafka's, it is `penstock sub --group`. Writes messages to stdout until Ctrl-C,
    and acknowledges each once it is written.

    \b
    penstock join-subscription workers --count 10
    """
    show = make_show(output=output, template=template)
    with queue_client(queue, "penstock-join-subscription") as client:
        _Listening(show, count).run(client, name, window)


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
    """Queue: create a subscription and read from it.

    A word of the queue protocol; over Kafka's, it is `penstock sub`. Writes messages to stdout until Ctrl-C. Without
    --name, the subscription is deleted when the command ends.

    \b
    penstock subscribe parcels --offset -2
    """
    show = make_show(output=output, template=template)
    chosen = name or f"{topic}-{uuid.uuid4().hex[:12]}"
    listening = _Listening(show, count)
    with queue_client(queue, "penstock-subscribe") as client:
        client.create_subscription(chosen, topic, offset)
        try:
            listening.run(client, chosen, None)
        finally:
            if name is None:
                client.delete_subscription(chosen)


class _Listening:
    """Writes messages until the count is reached or the command is interrupted."""

    def __init__(self, show: RecordShow, count: int | None) -> None:
        self._show = show
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
            shown = self._show.show(_view_of(message))
            assert shown is not None, "nothing is filtered here"
            sys.stdout.buffer.write(shown)
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
