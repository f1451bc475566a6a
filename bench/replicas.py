"""Three Penstock brokers for the rows over replicas, with the load of `penstock bench compare`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bench.session import Session
from penstock.apps.bench.compare.servers.penstock_cluster import PenstockCluster
from penstock.apps.bench.harness.cluster import Cluster
from penstock.core.model import Durability


@contextmanager
def replicated_cluster(session: Session, durability: Durability = Durability.OS) -> Iterator[Cluster]:
    """A running cluster on a new directory; killed at the end of the block."""
    cpus = tuple(sorted({session.cpus.server, session.cpus.loader}))
    with session.home() as home:
        cluster = PenstockCluster(cpus).start(home, session.cpus.server, durability).cluster
        try:
            yield cluster
        finally:
            cluster.kill()
