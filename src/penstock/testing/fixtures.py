"""The pytest plugin: brokers as fixtures. Never starts one that no test asks for.

`penstock` is a ready broker, in memory, new for each test unless the setting `penstock_scope` says otherwise.
`penstock_factory` starts as many as wanted, with flags, and stops them at the end of the test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Literal, Protocol

import pytest

from penstock.testing.broker import Broker, Flag, running_broker

Scope = Literal["session", "package", "module", "class", "function"]
SCOPES: tuple[Scope, ...] = ("session", "package", "module", "class", "function")
STORAGES = ("memory", "disk")


class BrokerFactory(Protocol):
    """Starts a broker; flags are those of `penstock start` with underscores. In memory unless `storage` says disk."""

    def __call__(self, home: Path | None = None, **flags: Flag) -> Broker: ...


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        "penstock_scope",
        f"How long the broker of the `penstock` fixture lives: {', '.join(SCOPES)}.",
        default="function",
    )
    parser.addini(
        "penstock_storage",
        f"Where the broker of the `penstock` fixture keeps its log: {', '.join(STORAGES)}.",
        default="memory",
    )


def _choice(config: pytest.Config, name: str, allowed: tuple[str, ...]) -> str:
    value = str(config.getini(name))
    if value not in allowed:
        raise pytest.UsageError(f"{name} is {value!r}; allowed are {', '.join(allowed)}.")
    return value


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a wrong setting before any test runs."""
    _choice(config, "penstock_scope", SCOPES)
    _choice(config, "penstock_storage", STORAGES)


def _scope(fixture_name: str, config: pytest.Config) -> Scope:
    return next(scope for scope in SCOPES if scope == config.getini("penstock_scope"))


@pytest.fixture(scope=_scope)
def penstock(pytestconfig: pytest.Config) -> Iterator[Broker]:
    """A ready broker on a free port; `penstock.bootstrap` is its address."""
    with running_broker(storage=str(pytestconfig.getini("penstock_storage"))) as broker:
        yield broker


@pytest.fixture
def penstock_factory() -> Iterator[Callable[..., Broker]]:
    """Brokers by the call, all stopped at the end of the test: `penstock_factory(storage="disk")`."""
    with ExitStack() as running:

        def start(home: Path | None = None, **flags: Flag) -> Broker:
            return running.enter_context(running_broker(home, **{"storage": "memory", **flags}))

        factory: BrokerFactory = start
        yield factory
