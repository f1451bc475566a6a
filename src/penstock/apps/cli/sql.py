"""`penstock sql`: runs a query over the current content of topics, in this process. Never writes to a topic."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from penstock.apps.cli.failures import RefusedByBroker
from penstock.apps.cli.options import bootstrap_option, output_option
from penstock.apps.cli.plain_output import TABLE, say_next
from penstock.apps.cli.security_options import client_options
from penstock.apps.cli.sql_names import check_names, quoting_hint
from penstock.apps.cli.tables import show_table
from penstock.client.errors import SerializationFailed

if TYPE_CHECKING:
    from penstock.client.raw.table import Table


@click.command()
@click.argument("query")
@click.option(
    "--values",
    type=click.Choice(["auto", "bytes", "text", "json"]),
    default="auto",
    show_default=True,
    help="Format of values. The fields of JSON objects become columns; auto tries JSON, then text, then bytes.",
)
@bootstrap_option
@output_option
def sql(query: str, values: str, bootstrap: str, output: str) -> None:
    """Run an SQL query in which topics are tables.

    \b
    penstock sql "select status, count(*) from orders group by status"
    penstock sql 'select * from "my-topic" where _offset > 10' -o json

    For values that are JSON objects, the columns are their fields and _topic, _partition, _offset, _timestamp and _key.
    Other topics have key, value, topic, partition, "offset", timestamp and timestampType. Names that are reserved
    words in SQL, such as "offset" and "order", need double quotes.
    """
    import duckdb

    from penstock.client.raw.table import table

    with duckdb.connect() as engine:
        try:
            tables = {
                name: _rows(table(name, bootstrap, **client_options()), values)
                for name in sorted(engine.get_table_names(query))
            }
            for name, rows in tables.items():
                engine.register(name, rows)
            check_names(engine, query, {name: rows.column_names for name, rows in tables.items()})
            found = engine.execute(query)
        except duckdb.ParserException as error:
            raise RefusedByBroker(f"The query cannot be run: {error}{quoting_hint(engine, query)}") from error
        except duckdb.Error as error:
            raise RefusedByBroker(f"The query cannot be run: {error}") from error
        _show([column[0] for column in found.description], found.fetchall(), output)


def _rows(topic: Table, values: str) -> Any:
    if values != "auto":
        return topic.to_arrow(values=values)
    for kind in ("json", "text"):
        try:
            return topic.to_arrow(values=kind)
        except SerializationFailed:
            continue
    return topic.to_arrow()


def _show(columns: list[str], rows: list[tuple[Any, ...]], output: str) -> None:
    if output == TABLE:
        show_table(columns, rows)
        return
    for row in rows:
        say_next(json.loads(json.dumps(dict(zip(columns, row, strict=True)), default=_plain)), output)


def _plain(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
