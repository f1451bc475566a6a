"""`penstock txn`: list, describe, abort. Never commits anything: only a producer can do that."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from penstock.apps.cli.failures import ObjectNotFound, RefusedByBroker
from penstock.apps.cli.options import bootstrap_option, output_option
from penstock.apps.cli.terminal import say
from penstock.node.definitions.units import parse_ms, show_ms

if TYPE_CHECKING:
    from penstock.apps.cli.txn_admin import OpenTransaction, TransactionAdmin


@click.group()
def txn() -> None:
    """Look at transactions, and abort those that hang."""


def _parse_time(_: click.Context, __: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    try:
        return parse_ms(value)
    except ValueError as error:
        raise click.BadParameter(f"{error}.") from error


@txn.command("list")
@click.option(
    "--state", "states", multiple=True, metavar="STATE", help="Only those in this state, such as Ongoing."
)
@click.option(
    "--producer-id", "producer_ids", type=int, multiple=True, metavar="N", help="Only of this producer."
)
@click.option(
    "--longer-than", callback=_parse_time, metavar="TIME", help="Only those that started longer ago."
)
@click.option("--match", "pattern", metavar="REGEX", help="Only ids that this expression matches as a whole.")
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
    """List transactional ids."""
    from penstock.apps.cli.tables import show_table

    found = _admin(bootstrap).find(states, producer_ids, longer_than, pattern)
    if output == "json":
        say(json.dumps([asdict(one) for one in found]))
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
    """Show all that is known of transactional ids."""
    from penstock.apps.cli.tables import show_table

    admin = _admin(bootstrap)
    found = [admin.describe(transactional_id) for transactional_id in transactional_ids]
    if output == "json":
        say(json.dumps([asdict(one) for one in found], indent=2))
        return
    for one in found:
        partitions = [f"{topic}: {', '.join(map(str, some))}" for topic, some in one.partitions.items()]
        rows = [
            ("state", one.state),
            ("producer", f"{one.producer_id} epoch {one.producer_epoch}"),
            ("may take", show_ms(one.timeout_ms)),
            ("started", f"{one.started_ms} (ms since 1970)" if one.started_ms >= 0 else "never"),
            ("partitions", "; ".join(partitions) or "none"),
        ]
        show_table(("", ""), rows, title=one.transactional_id)


@txn.command()
@click.argument("transactional_id", required=False, metavar="[ID]")
@click.option("--topic", metavar="TOPIC", help="Instead of an id: where a transaction hangs.")
@click.option("--partition", type=click.IntRange(min=0), metavar="N", help="The partition in which it hangs.")
@click.option(
    "--start-offset", type=click.IntRange(min=0), metavar="OFFSET", help="Only the one that starts there."
)
@click.option("--yes", is_flag=True, help="Do not ask; without a terminal nothing is asked either.")
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

    By its transactional id: its producer is fenced. Or, with --topic and --partition, one that hangs: that no
    coordinator knows of any more, while readers of committed records wait for its end.
    """
    if (transactional_id is None) == (topic is None) or (topic is None) != (partition is None):
        raise click.UsageError("Give either a transactional ID, or --topic and --partition.")
    admin = _admin(bootstrap)
    if transactional_id is not None:
        _ask(yes, f"Abort the transaction of {transactional_id} and fence its producer?")
        aborted = admin.abort(transactional_id)
        row = {"transactional_id": transactional_id, "producer_id": aborted.producer_id, "aborted": True}
        say(json.dumps([row]) if output == "json" else f"{transactional_id}: aborted")
        return
    assert topic is not None and partition is not None
    hanging = _hanging(admin, topic, partition, start_offset)
    _ask(yes, f"Abort {len(hanging)} hanging transactions in {topic} partition {partition}?")
    for one in hanging:
        admin.end_hanging(one)
    if output == "json":
        say(json.dumps([asdict(one) for one in hanging]))
    for one in hanging if output != "json" else ():
        say(
            f"{topic} partition {partition}: aborted producer {one.producer_id} from offset {one.start_offset}"
        )


def _hanging(
    admin: TransactionAdmin, topic: str, partition: int, start_offset: int | None
) -> list[OpenTransaction]:
    """What is open there and belongs to nobody. Raises if there is nothing, or if somebody is still at it."""
    found = [one for one in admin.open_in(topic, partition) if start_offset in (None, one.start_offset)]
    if not found:
        raise ObjectNotFound(f"No such transaction is open in {topic} partition {partition}.")
    for one in found:
        owner = admin.owner_of(one.producer_id)
        if owner is not None:
            raise RefusedByBroker(
                f"The transaction of producer {one.producer_id} does not hang, it is that of {owner}. "
                f"To abort it nevertheless: penstock txn abort {owner}"
            )
    return found


def _ask(yes: bool, question: str) -> None:
    if not yes and sys.stdin.isatty():
        click.confirm(question, abort=True)


def _admin(bootstrap: str) -> TransactionAdmin:
    from penstock.apps.cli.txn_admin import TransactionAdmin

    return TransactionAdmin(bootstrap)
