"""`penstock top`: rates, lag and load of brokers, topics and groups, redrawn in place. Changes nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from penstock.apps.cli.broker_metrics import NAMES, Reading, load_content, parse_metrics
from penstock.apps.cli.failures import NoBroker
from penstock.apps.cli.interrupts import stop_on_interrupt
from penstock.apps.cli.options import bootstrap_option, output_option
from penstock.apps.cli.plain_output import TABLE, say_next
from penstock.apps.cli.terminal import escape_lines, shown_bytes
from penstock.client.errors import ClientError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from penstock.apps.cli.cluster_source import ClusterSource

ROWS_MAX = 20
"""Topics and groups that a table shows: the busiest ones."""
ROWS_MIN = 3
_HEADING_ROWS = 5
"""Lines of a table besides its rows: title, heading and blank lines."""
_STEP_S = 0.1
_BROKER_COLUMNS = ("broker", "CPU", "memory", "connections", "requests/s", "in/s", "out/s", "fsync")
_TOPIC_COLUMNS = ("topic", "records/s", "in/s", "out/s", "records", "size")
_GROUP_COLUMNS = ("group", "lag", "change/s")


@click.command()
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(0.1, 3_600),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two readings.",
)
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="Stop after N readings.")
@bootstrap_option
@output_option
def top(interval_s: float, count: int | None, bootstrap: str, output: str) -> None:
    """Show rates, lag and load, redrawn in place.

    Until Ctrl-C. Reads the metrics of each broker at its HTTP door. Bytes in include the copies on followers. JSON and
    YAML have all topics and groups, one object per interval; tables the busiest ones.

    \b
    penstock top
    penstock top --interval 5 --count 1 -o json
    """
    from rich.console import Console
    from rich.live import Live

    from penstock.apps.cli.cluster_source import ClusterSource

    source = ClusterSource(bootstrap)
    is_live = output == TABLE and sys.stdout.isatty()
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    with (
        Live(console=console, auto_refresh=False, screen=count is None) if is_live else nullcontext() as live
    ):
        for found in _loads(source, interval_s, count):
            if output != TABLE:
                say_next(found, output)
                sys.stdout.flush()
            elif live is None:
                console.print(_tables(found, ROWS_MAX, ROWS_MAX))
            else:
                live.update(_tables(found, *table_rows(found, console.height)), refresh=True)


def _loads(source: ClusterSource, interval_s: float, count: int | None) -> Iterator[dict[str, Any]]:
    """One result per interval, until the count or an interrupt. If no broker answers, the result is an error, and the
    next interval tries again."""
    stopping = stop_on_interrupt()
    before = _read(source)
    done = 0
    while done != count and not stopping:
        until = time.monotonic() + interval_s
        while time.monotonic() < until and not stopping:
            time.sleep(min(_STEP_S, interval_s))
        if stopping:
            return
        try:
            now = _read(source)
        except (NoBroker, ClientError) as error:
            yield {"error": error.message}
        else:
            yield load_content(before, now)
            before = now
        done += 1


def _read(source: ClusterSource) -> Reading:
    texts = source.metrics()
    return Reading(time.monotonic(), {one: parse_metrics(text, NAMES) for one, text in texts.items()})


def table_rows(found: dict[str, Any], height: int) -> tuple[int, int]:
    """How many topics and groups fit on a terminal of this height. What one of them leaves free the other one takes."""
    if "error" in found:
        return 0, 0
    room = height - 3 * _HEADING_ROWS - len(found["brokers"])
    topics, groups = len(found["topics"]), len(found["groups"])
    topic_rows = min(topics, ROWS_MAX, max(ROWS_MIN, room // 2, room - groups))
    return topic_rows, min(groups, ROWS_MAX, max(ROWS_MIN, room - topic_rows))


def _tables(found: dict[str, Any], topic_rows: int, group_rows: int) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    from penstock.apps.cli.tables import make_table

    if "error" in found:
        return Text(escape_lines(f"{found['error']} Retrying."), style="red")
    topics, groups = found["topics"], found["groups"]
    busiest = sorted(
        topics, key=lambda one: (-one["records_in_per_s"], -one["bytes_out_per_s"], one["topic"])
    )
    slowest = sorted(groups, key=lambda one: (-one["lag"], one["group"]))
    parts: list[RenderableType] = [
        make_table(_BROKER_COLUMNS, [_broker_cells(one) for one in found["brokers"]]),
        make_table(
            _TOPIC_COLUMNS,
            [_topic_cells(one) for one in busiest[:topic_rows]],
            title=_title("topic", topics, topic_rows),
        ),
    ]
    if groups:
        cells = [
            (one["group"], one["lag"], f"{one['lag_change_per_s']:+,.1f}") for one in slowest[:group_rows]
        ]
        parts.append(make_table(_GROUP_COLUMNS, cells, title=_title("group", groups, group_rows)))
    return Group(*parts)


def _title(noun: str, found: list[Any], shown: int) -> str:
    more = f", the first {shown}" if len(found) > shown else ""
    return f"{len(found):,} {noun}{'' if len(found) == 1 else 's'}{more}"


def _broker_cells(one: dict[str, Any]) -> tuple[object, ...]:
    return (
        one["id"],
        f"{one['cpu_percent']:.0f} %",
        shown_bytes(one["memory_bytes"]),
        one["connections"],
        f"{one['requests_per_s']:,.0f}",
        shown_bytes(int(one["bytes_in_per_s"])),
        shown_bytes(int(one["bytes_out_per_s"])),
        "-" if one["fsync_ms"] is None else f"{one['fsync_ms']:.1f} ms",
    )


def _topic_cells(one: dict[str, Any]) -> tuple[object, ...]:
    return (
        one["topic"],
        f"{one['records_in_per_s']:,.0f}",
        shown_bytes(int(one["bytes_in_per_s"])),
        shown_bytes(int(one["bytes_out_per_s"])),
        one["records"],
        shown_bytes(one["bytes"]),
    )
