"""What a task does: reads one span over the connection that its worker keeps. Never plans, never commits."""

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
    """The span's records as Arrow batches; nothing for no span, which is how Spark plans an empty read."""
    if span is None:
        return iter(())
    return fetch_span(kept_cluster(access), span, terms, chosen_loops())


@cache
def kept_cluster(access: Access) -> Cluster:
    """One cluster for each access in a process: workers live longer than tasks, and so do connections.

    What is alive by now stays alive: the collector, which Spark runs after each task, need not look at it again.
    """
    gc.freeze()
    cluster = Cluster(access)
    atexit.register(cluster.close)
    return cluster
