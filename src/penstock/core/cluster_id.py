"""The id of a cluster: random, in the form in which Kafka shows it. Whoever founds the cluster persists it."""

from __future__ import annotations

import base64

from penstock.core.ports import Rng


def make_cluster_id(rng: Rng) -> str:
    return base64.urlsafe_b64encode(rng.bytes(16)).decode().rstrip("=")
