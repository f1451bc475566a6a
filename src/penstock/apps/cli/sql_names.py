"""Detects names in a query that SQL interprets differently than intended. Never runs the query.

`user` is a column if the topic has one. Otherwise DuckDB calls its own function and returns the name of its user, which
has nothing to do with the topic: that is rejected. For reserved words such as `order`, the error shows how to quote.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, islice, pairwise
from typing import Any

from penstock.apps.cli.failures import RefusedByBroker

FUNCTIONS = frozenset({"current_role", "current_user", "session_user", "user"})
"""Functions that DuckDB calls without parentheses."""

QUOTED_MAX = 3
ATTEMPTS_MAX = 500
"""Limits of the search for words to quote; each attempt takes a few microseconds."""


def check_names(engine: Any, query: str, columns: Mapping[str, Sequence[str]]) -> None:
    """Reject `user` and similar functions if no topic of the query has such a column."""
    tree = json.loads(engine.execute("select json_serialize_sql(?)", [query]).fetchone()[0])
    known = {name.lower() for names in columns.values() for name in names}
    known.update(alias.lower() for node in _nodes(tree) if (alias := node.get("alias")))
    for node in _nodes(tree):
        name = node.get("column_names", [""])[-1].lower() if node.get("type") == "COLUMN_REF" else ""
        if columns and name in FUNCTIONS - known:
            offered = "; ".join(f"{topic} has {', '.join(names)}" for topic, names in columns.items())
            raise RefusedByBroker(f"There is no column {name!r}: {offered}.")


def quoting_hint(engine: Any, query: str) -> str:
    """A hint with reserved words in double quotes; empty if quoting does not make the query valid."""
    words = _reserved_words(engine, query)
    chosen = (some for count in range(1, QUOTED_MAX + 1) for some in combinations(words, count))
    for some in islice(chosen, ATTEMPTS_MAX):
        quoted = query
        for start, end in reversed(some):
            quoted = f'{quoted[:start]}"{quoted[start:end]}"{quoted[end:]}'
        if _can_be_parsed(engine, quoted):
            names = ", ".join(dict.fromkeys(query[start:end] for start, end in some))
            return f"\n{names}: reserved word in SQL. As the name of a column or topic it needs quotes:\n{quoted}"
    return ""


def _reserved_words(engine: Any, query: str) -> list[tuple[int, int]]:
    """Positions of reserved words outside of strings, quoted names and comments."""
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
