"""The load in the background, against a running broker."""

from __future__ import annotations

import time

import pytest

from penstock.apps.bench.harness.loader import Loader
from penstock.apps.bench.load.plan import LoadFailed
from penstock.apps.bench.load.steady_load import steady_load
from penstock.testing import running_broker


def test_every_message_is_counted_and_timed_from_when_it_was_due() -> None:
    with running_broker(storage="memory") as broker:
        address = broker.host, broker.port
        with Loader(address) as loader:
            loader.create_topics(["orders"])
        began_ns = time.monotonic_ns()
        with steady_load(f"{broker.host}:{broker.port}", "orders", 1, 500) as load:
            moment_ns = load.await_ack_ns(began_ns, 30)
            assert load.await_ack_ns(moment_ns, 30) > moment_ns
        times_ms = load.latencies_ms(began_ns, time.monotonic_ns())
        with Loader(address) as loader:
            (end,) = loader.end_offsets("orders")
    assert load.errors == []
    assert end == load.acknowledged + 1, "one more opened the connection and is not timed"
    assert len(times_ms) == load.acknowledged and times_ms == sorted(times_ms)
    assert load.p99_ms(began_ns, time.monotonic_ns()) in times_ms
    with pytest.raises(LoadFailed, match="no message"):
        load.p99_ms(0, 1)
