"""pytest plugin with broker fixtures. Starts a broker only if a test requests one.

`penstock` is a ready in-memory broker, new for each test unless the setting `penstock_scope` changes that.
`penstock_factory` starts any number of brokers with flags and stops them at the end of the test.
`penstock_cluster` is a ready cluster of several brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Literal, Protocol

import pytest

from penstock.testing.broker import Broker, Flag, running_broker
from penstock.testing.cluster import Cluster, running_cluster

Scope = Literal["session", "package", "module", "class", "function"]
SCOPES: tuple[Scope, ...] = ("session", "package", "module", "class", "function")
STORAGES = ("memory", "disk")


class BrokerFactory(Protocol):
    """Starts a broker; keywords are the flags of `penstock start` with underscores. `storage` defaults to memory."""

    def __call__(self, home: Path | None = None, **flags: Flag) -> Broker: ...


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        "penstock_scope",
        f"Scope of the fixtures `penstock` and `penstock_cluster`: {', '.join(SCOPES)}.",
        default="function",
    )
    parser.addini(
        "penstock_storage",
        f"Storage of the brokers of `penstock` and `penstock_cluster`: {', '.join(STORAGES)}.",
        default="memory",
    )
    parser.addini("penstock_brokers", "Number of brokers of `penstock_cluster`.", default="3")


def _choice(config: pytest.Config, name: str, allowed: tuple[str, ...]) -> str:
    value = str(config.getini(name))
    if value not in allowed:
        raise pytest.UsageError(f"invalid {name} {value!r}: expected one of {', '.join(allowed)}")
    return value


def pytest_configure(config: pytest.Config) -> None:
    """Reject invalid settings before any test runs."""
    _choice(config, "penstock_scope", SCOPES)
    _choice(config, "penstock_storage", STORAGES)
    _broker_count(config)


def _broker_count(config: pytest.Config) -> int:
    value = str(config.getini("penstock_brokers"))
    if not value.isdecimal() or int(value) == 0:
        raise pytest.UsageError(f"invalid penstock_brokers {value!r}: expected a number of brokers")
    return int(value)


def _scope(fixture_name: str, config: pytest.Config) -> Scope:
    return next(scope for scope in SCOPES if scope == config.getini("penstock_scope"))


@pytest.fixture(scope=_scope)
def penstock(pytestconfig: pytest.Config) -> Iterator[Broker]:
    """A ready broker on a free port; `penstock.bootstrap` is its address."""
    with running_broker(storage=str(pytestconfig.getini("penstock_storage"))) as broker:
        yield broker


@pytest.fixture(scope=_scope)
def penstock_cluster(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """A ready cluster; `penstock_cluster.bootstrap` lists its brokers, `penstock_cluster.broker(2)` is one of them."""
    storage = str(pytestconfig.getini("penstock_storage"))
    with running_cluster(_broker_count(pytestconfig), storage=storage) as cluster:
        yield cluster


@pytest.fixture
def penstock_factory() -> Iterator[Callable[..., Broker]]:
    """Starts brokers on demand, all stopped at the end of the test: `penstock_factory(storage="disk")`."""
    with ExitStack() as running:

        def start(home: Path | None = None, **flags: Flag) -> Broker:
            return running.enter_context(running_broker(home, **{"storage": "memory", **flags}))

        factory: BrokerFactory = start
        yield factory
