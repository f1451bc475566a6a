"""Routes rows of one stream to several outputs: tagged in the stream, separated in the batch. Never writes.

Bad and late rows must leave the stream before a stateful step (window, dedup), but belong to the same batch. So the
stream has one struct column per route, and exactly one of them is set in each row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MAIN, BAD, LATE = "main", "bad", "late"
LAST_END = "_last_end"
"""Column of possibly late rows: the end of the last window they count in."""


def union_of(routes: dict[str, DataFrame]) -> DataFrame:
    """One stream of all routes."""
    from pyspark.sql import functions as F

    tagged = [
        rows.select(F.struct(*[F.col(f"`{name}`") for name in rows.columns]).alias(route))
        for route, rows in routes.items()
    ]
    whole = tagged[0]
    for more in tagged[1:]:
        whole = whole.unionByName(more, allowMissingColumns=True)
    return whole


def taken(batch: DataFrame, route: str) -> DataFrame:
    """The rows of one route, with their original columns."""
    from pyspark.sql import functions as F

    return batch.where(F.col(route).isNotNull()).select(f"{route}.*")
