"""The simulator finds bugs that were planted, and finds none where there are none."""

from __future__ import annotations

import pytest

from sim.loop import Order, run
from sim.toy_log import Bugs, lost_to_power

SEEDS = range(60)


def _seeds_that_lose(bugs: Bugs, order: Order = Order.HOSTS) -> list[int]:
    return [seed for seed in SEEDS if run(seed, lambda loop: lost_to_power(loop, bugs), order=order)]


@pytest.mark.parametrize("order", list(Order))
def test_the_right_server_loses_nothing(order: Order) -> None:
    assert _seeds_that_lose(Bugs(), order) == []


@pytest.mark.parametrize(
    "bugs", [Bugs(acks_before_sync=True), Bugs(forgets_dir_sync=True), Bugs(trusts_tail=True)], ids=str
)
def test_each_planted_bug_is_found_by_some_seed(bugs: Bugs) -> None:
    assert _seeds_that_lose(bugs) != []
