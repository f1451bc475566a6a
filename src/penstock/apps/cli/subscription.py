"""`penstock subscription`: list, describe, redrive, delete."""

from __future__ import annotations

import click

from penstock.apps.cli.options import output_option
from penstock.apps.cli.plain_output import TABLE, say_content
from penstock.apps.cli.queue_client import queue_client, queue_option
from penstock.apps.cli.terminal import counted, say

name_argument = click.argument("name")


@click.group()
def subscription() -> None:
    """Queue: inspect, redrive, delete subscriptions.

    The queue's words; consumer groups of Kafka clients are `penstock group`.
    """


@subscription.command("list")
@output_option
@queue_option
def list_subscriptions(output: str, queue: str) -> None:
    """List subscriptions.

    \b
    penstock subscription list
    """
    with queue_client(queue, "penstock-subscription") as client:
        found = client.list_subscriptions()
    if output != TABLE:
        say_content(found, output)
        return
    from penstock.apps.cli.tables import show_table

    columns = ("name", "topic", "hold_ms", "max_deliveries")
    show_table(columns, [[one[column] for column in columns] for one in found])


@subscription.command()
@name_argument
@output_option
@queue_option
def describe(name: str, output: str, queue: str) -> None:
    """Show the progress of a subscription in each partition, and its members.

    \b
    penstock subscription describe workers
    """
    with queue_client(queue, "penstock-subscription") as client:
        found = client.describe_subscription(name)
    if output != TABLE:
        say_content(found, output)
        return
    from penstock.apps.cli.tables import show_table

    terms = (
        f"{found['hold_ms']} ms each, {found['max_deliveries']} deliveries, then {found['dead_letter_topic']}"
    )
    show_table(
        ("partition", "settled up to", "end", "unsettled", "held", "dying"),
        [list(one.values()) for one in found["partitions"]],
        title=f"{name} to {found['topic']}: {terms}",
    )
    show_table(
        ("member", "window", "held"), [(one["id"], one["window"], one["held"]) for one in found["members"]]
    )


@subscription.command()
@name_argument
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="Redrive at most N dead letters.")
@output_option
@queue_option
def redrive(name: str, count: int | None, output: str, queue: str) -> None:
    """Redeliver the dead letters of a subscription, to this subscription only.

    \b
    penstock subscription redrive workers --count 100
    """
    with queue_client(queue, "penstock-subscription") as client:
        moved = client.redrive(name, count)
    if output != TABLE:
        say_content({"subscription": name, "redriven": moved}, output)
        return
    say(f"{counted(moved, 'dead letter')} sent back to {name}")


@subscription.command()
@name_argument
@output_option
@queue_option
def delete(name: str, output: str, queue: str) -> None:
    """Delete a subscription; its dead letters stay.

    \b
    penstock subscription delete workers
    """
    with queue_client(queue, "penstock-subscription") as client:
        client.delete_subscription(name)
    if output != TABLE:
        say_content({"subscription": name, "deleted": True}, output)
        return
    say(f"deleted subscription {name}")
