"""The id of a cluster."""

from __future__ import annotations

from penstock.core.cluster_id import make_cluster_id
from penstock.node.runtime.clock import SystemRng


def test_ids_are_22_characters_that_need_no_escaping_and_differ() -> None:
    ids = {make_cluster_id(SystemRng()) for _ in range(100)}
    assert len(ids) == 100
    assert all(len(one) == 22 and one.replace("-", "").replace("_", "").isalnum() for one in ids)
