"""How all tests run: no deadlines, because machines are noisy; the build machine always tries the same examples.

Over several processes (`-n 2`) the tests of a file stay together, and all tests on Spark in one process: one Spark at
a time, beside ordinary tests. Two would starve each other: Spark gives its Python workers ten seconds to start.
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

    class OneSpark(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return SPARK if nodeid.startswith(SPARK) else super()._split_scope(nodeid)

    return OneSpark(config, log)
