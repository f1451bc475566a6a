"""Reads one span inside a Spark task, over a connection cached in the Python worker. Never plans, never commits."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from functools import cache
from typing import Any

from penstock.client.access import Access
from penstock.client.raw.cluster import Cluster
from penstock.client.raw.fetch import FetchTerms, Span, fetch_span
from penstock.client.raw.loops import chosen_loops


def read_span(access: Access, span: Span | None, terms: FetchTerms) -> Iterator[Any]:
    """The records of the span as Arrow batches. Spark plans an empty read as one task without a span."""
    if span is None:
        return iter(())
    return fetch_span(cached_cluster(access), span, terms, chosen_loops())


@cache
def cached_cluster(access: Access) -> Cluster:
    """One cluster client per process and access: a Python worker outlives its tasks, so connections are reused."""
    # Spark runs a full collection after each task. What exists by now lives as long as the worker, so exempt it.
    gc.freeze()
    cluster = Cluster(access)
    atexit.register(cluster.close)
    return cluster
