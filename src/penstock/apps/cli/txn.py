"""`penstock txn`: list, describe, abort. Never commits a transaction: only its producer can."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from penstock.apps.cli.failures import ObjectNotFound, RefusedByBroker
from penstock.apps.cli.options import bootstrap_option, output_option
from penstock.apps.cli.plain_output import TABLE, say_content
from penstock.apps.cli.terminal import say
from penstock.node.definitions.units import parse_ms, show_ms

if TYPE_CHECKING:
    from penstock.apps.cli.txn_admin import OpenTransaction, TransactionAdmin


@click.group()
def txn() -> None:
    """Inspect transactions, and abort hanging ones."""


def _parse_time(_: click.Context, __: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    try:
        return parse_ms(value)
    except ValueError as error:
        raise click.BadParameter(f"{error}.") from error


@txn.command("list")
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="STATE",
    help="Only transactions in this state, such as Ongoing; may be repeated.",
)
@click.option(
    "--producer-id",
    "producer_ids",
    type=int,
    multiple=True,
    metavar="N",
    help="Only this producer id; may be repeated.",
)
@click.option(
    "--longer-than", callback=_parse_time, metavar="TIME", help="Only transactions open for longer than this."
)
@click.option(
    "--match", "pattern", metavar="REGEX", help="Only ids that fully match this regular expression."
)
@bootstrap_option
@output_option
def list_transactions(
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    longer_than: int | None,
    pattern: str | None,
    bootstrap: str,
    output: str,
) -> None:
    """List transactional ids.

    \b
    penstock txn list --state Ongoing --longer-than 10m
    """
    from penstock.apps.cli.tables import show_table

    found = _admin(bootstrap).find(states, producer_ids, longer_than, pattern)
    if output != TABLE:
        say_content([asdict(one) for one in found], output)
    elif found:
        rows = [(one.transactional_id, one.producer_id, one.state) for one in found]
        show_table(("transactional id", "producer id", "state"), rows)
    else:
        say("No transactional ids.")


@txn.command()
@click.argument("transactional_ids", nargs=-1, required=True, metavar="ID...")
@bootstrap_option
@output_option
def describe(transactional_ids: tuple[str, ...], bootstrap: str, output: str) -> None:
    """Show the state of transactional ids.

    \b
    penstock txn describe payments-1
    """
    from penstock.apps.cli.tables import show_table

    admin = _admin(bootstrap)
    found = [admin.describe(transactional_id) for transactional_id in transactional_ids]
    if output != TABLE:
        say_content([asdict(one) for one in found], output, indent=2)
        return
    for one in found:
        partitions = [f"{topic}: {', '.join(map(str, some))}" for topic, some in one.partitions.items()]
        rows = [
            ("state", one.state),
            ("producer", f"{one.producer_id} epoch {one.producer_epoch}"),
            ("timeout", show_ms(one.timeout_ms)),
            ("started", f"{one.started_ms} (ms since 1970)" if one.started_ms >= 0 else "never"),
            ("partitions", "; ".join(partitions) or "none"),
        ]
        show_table(("", ""), rows, title=one.transactional_id)


@txn.command()
@click.argument("transactional_id", required=False, metavar="[ID]")
@click.option("--topic", metavar="TOPIC", help="Instead of an ID: the topic with a hanging transaction.")
@click.option(
    "--partition", type=click.IntRange(min=0), metavar="N", help="The partition with a hanging transaction."
)
@click.option(
    "--start-offset",
    type=click.IntRange(min=0),
    metavar="OFFSET",
    help="Only the transaction that starts at this offset.",
)
@click.option("--yes", is_flag=True, help="Skip the confirmation; it is also skipped without a terminal.")
@bootstrap_option
@output_option
def abort(
    transactional_id: str | None,
    topic: str | None,
    partition: int | None,
    start_offset: int | None,
    yes: bool,
    bootstrap: str,
    output: str,
) -> None:
    """Abort an open transaction.

    With a transactional ID, its producer is fenced. With --topic and --partition, aborts a hanging transaction: one
    that no coordinator knows any more, while read_committed consumers still wait for its end.

    \b
    penstock txn abort payments-1
    penstock txn abort --topic orders --partition 0
    """
    if (transactional_id is None) == (topic is None) or (topic is None) != (partition is None):
        raise click.UsageError("Set either a transactional ID, or --topic and --partition.")
    admin = _admin(bootstrap)
    if transactional_id is not None:
        _ask(yes, f"Abort the transaction of {transactional_id} and fence its producer?")
        aborted = admin.abort(transactional_id)
        row = {"transactional_id": transactional_id, "producer_id": aborted.producer_id, "aborted": True}
        if output == TABLE:
            say(f"{transactional_id}: aborted")
        else:
            say_content([row], output)
        return
    assert topic is not None and partition is not None
    hanging = _hanging(admin, topic, partition, start_offset)
    _ask(yes, f"Abort {len(hanging)} hanging transactions in {topic} partition {partition}?")
    for one in hanging:
        admin.end_hanging(one)
    if output != TABLE:
        say_content([asdict(one) for one in hanging], output)
        return
    for one in hanging:
        say(
            f"{topic} partition {partition}: aborted producer {one.producer_id} from offset {one.start_offset}"
        )


def _hanging(
    admin: TransactionAdmin, topic: str, partition: int, start_offset: int | None
) -> list[OpenTransaction]:
    """Open transactions without a coordinator. Raises if there are none, or if one is still active."""
    found = [one for one in admin.open_in(topic, partition) if start_offset in (None, one.start_offset)]
    if not found:
        raise ObjectNotFound(f"No such transaction is open in {topic} partition {partition}.")
    for one in found:
        owner = admin.owner_of(one.producer_id)
        if owner is not None:
            raise RefusedByBroker(
                f"The transaction of producer {one.producer_id} is not hanging: it belongs to {owner}. "
                f"To abort it anyway: penstock txn abort {owner}"
            )
    return found


def _ask(yes: bool, question: str) -> None:
    if not yes and sys.stdin.isatty():
        click.confirm(question, abort=True)


def _admin(bootstrap: str) -> TransactionAdmin:
    from penstock.apps.cli.txn_admin import TransactionAdmin

    return TransactionAdmin(bootstrap)
