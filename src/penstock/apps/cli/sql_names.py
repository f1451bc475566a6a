"""Names in a query that SQL reads in another way than the user means. Never runs the query.

`user` is a column if the topic has one. DuckDB takes it for its own function otherwise and answers with the name of its
user, which says nothing about a topic: that is refused. Reserved words such as `order` need quotes: an error says how.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, islice, pairwise
from typing import Any

from penstock.apps.cli.failures import RefusedByBroker

FUNCTIONS = frozenset({"current_role", "current_user", "session_user", "user"})
"""What DuckDB answers without parentheses and without a topic."""

QUOTED_MAX = 3
ATTEMPTS_MAX = 500
"""Limits of the search for the words to quote; each attempt takes some microseconds."""


def check_names(engine: Any, query: str, columns: Mapping[str, Sequence[str]]) -> None:
    """Refuse `user` and its like where no topic of the query has such a column."""
    tree = json.loads(engine.execute("select json_serialize_sql(?)", [query]).fetchone()[0])
    known = {name.lower() for names in columns.values() for name in names}
    known.update(alias.lower() for node in _nodes(tree) if (alias := node.get("alias")))
    for node in _nodes(tree):
        name = node.get("column_names", [""])[-1].lower() if node.get("type") == "COLUMN_REF" else ""
        if columns and name in FUNCTIONS - known:
            offered = "; ".join(f"{topic} has {', '.join(names)}" for topic, names in columns.items())
            raise RefusedByBroker(f"There is no column {name!r}: {offered}.")


def quoting_hint(engine: Any, query: str) -> str:
    """A query that can be parsed, with reserved words in double quotes; nothing if quotes do not help."""
    words = _reserved_words(engine, query)
    chosen = (some for count in range(1, QUOTED_MAX + 1) for some in combinations(words, count))
    for some in islice(chosen, ATTEMPTS_MAX):
        quoted = query
        for start, end in reversed(some):
            quoted = f'{quoted[:start]}"{quoted[start:end]}"{quoted[end:]}'
        if _can_be_parsed(engine, quoted):
            names = ", ".join(dict.fromkeys(query[start:end] for start, end in some))
            return f"\n{names}: a reserved word of SQL. As a column or a topic it needs quotes:\n{quoted}"
    return ""


def _reserved_words(engine: Any, query: str) -> list[tuple[int, int]]:
    """Where reserved words stand, outside of strings, quoted names and comments."""
    import duckdb

    rows = engine.execute(
        "select keyword_name from duckdb_keywords() where keyword_category = 'reserved'"
    ).fetchall()
    reserved = {name for (name,) in rows}
    tokens = [*duckdb.tokenize(query), (len(query), None)]
    found = []
    for (start, kind), (after, _) in pairwise(tokens):
        word = query[start:after].rstrip()
        if kind == duckdb.token_type.keyword and word.lower() in reserved:
            found.append((start, start + len(word)))
    return found


def _can_be_parsed(engine: Any, query: str) -> bool:
    import duckdb

    try:
        engine.extract_statements(query)
    except duckdb.ParserException:
        return False
    return True


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
        for child in tree.values():
            yield from _nodes(child)
    elif isinstance(tree, list):
        for child in tree:
            yield from _nodes(child)
