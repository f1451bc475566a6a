"""How all tests run: no deadlines, because machines are noisy; the build machine always tries the same examples.

Over several processes (`-n 3`) the tests of a file stay together, and all tests on Spark in one process: one Spark at
a time, beside ordinary tests. Two would starve each other: Spark gives its Python workers ten seconds to start. What
takes longest begins first, and simulations, each on its own, fill the end: all processes are done at the same time.
"""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from hypothesis import settings

import several_brokers

settings.register_profile("here", deadline=None)
settings.register_profile("build", deadline=None, derandomize=True)
settings.load_profile("build" if os.environ.get("CI") else "here")

SPARK = "tests/spark/"
LONGEST = [
    SPARK,
    *(
        f"tests/compat/test_{name}.py"
        for name in ("exactly_once", "groups_members", "transactions", "consumer_groups")
    ),
    "tests/bench/test_bench.py",
    *(f"tests/compat/test_{name}.py" for name in ("at_least_once", "at_most_once")),
    *(f"tests/{name}/" for name in ("e2e", "compat", "docs", "hostile", "contract")),
    "tests/",
    "tests/sim/test_cluster.py::",
    "tests/sim/test_cluster_bugs.py::",
]
"""What begins first: long files and directories that have them, then files of seconds, then what fills the end."""
FILLERS = tuple(LONGEST[-2:])
"""Tests that share nothing but the processor, not even with others of their file."""

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background jobs that way, and children inherit it: tests that press Ctrl-C would wait forever.
    signal.signal(signal.SIGINT, signal.default_int_handler)

if several_brokers.NODES > 1:
    several_brokers.use_several_brokers()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if several_brokers.NODES > 1:
        several_brokers.deselect(config, items)


def pytest_sessionfinish() -> None:
    several_brokers.close()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Who runs what: by file, and Spark's files as if they were one."""
    from xdist.scheduler import LoadFileScheduling

    class LongestFirst(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith(FILLERS):
                return nodeid
            return SPARK if nodeid.startswith(SPARK) else super()._split_scope(nodeid)

        def _assign_work_unit(self, node: Any) -> None:
            self.workqueue.move_to_end(min(self.workqueue, key=_rank), last=False)
            super()._assign_work_unit(node)

    return LongestFirst(config, log)


def _rank(scope: str) -> int:
    """Smaller begins earlier; `min` leaves equal ones in the order of the scheduler: most tests first."""
    ranks = [rank for rank, start in enumerate(LONGEST) if scope.startswith(start)]
    return max(ranks) if scope.startswith(FILLERS) else min(ranks, default=len(LONGEST))
