"""The broker under test, its clients and fresh topics. Never starts a broker when the environment names one.

`PENSTOCK_COMPAT_BOOTSTRAP=host:port` points the whole suite at another broker, as compat.reference does;
`PENSTOCK_REQUIRE_CLIENTS=1` makes a missing runtime a failure instead of a skip.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat.members import SESSION_MS
from compat.raw import RawConnection
from compat.roster import Roster, do_without, required
from compat.stages import Stage
from compat.vocabulary import Client, CreateTopic, MissingRuntime
from penstock.testing import running_broker


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    given = os.environ.get("PENSTOCK_COMPAT_BOOTSTRAP")
    if given:
        yield given
        return
    with running_broker() as broker:
        yield broker.bootstrap


@pytest.fixture(scope="session")
def roster(bootstrap: str) -> Iterator[Roster]:
    opened = Roster(bootstrap)
    yield opened
    opened.close()


def _client(roster: Roster, name: str) -> Client:
    try:
        return roster.client(name)
    except MissingRuntime as missing:
        do_without(missing)


@pytest.fixture
def runnable() -> Callable[[str], str]:
    """A client's name, once it is known that programs that use it can run here."""
    return required


@pytest.fixture
def killable(
    tmp_path: Path, request: pytest.FixtureRequest, runnable: Callable[[str], str]
) -> Iterator[Stage]:
    """A stage on a broker of its own, for the client that the test is parametrised with; it soon misses the dead."""
    runnable(request.node.callspec.params["client"])
    with running_broker(
        tmp_path,
        group_session_ms_min=1_000,
        consumer_group_session_ms=SESSION_MS,
        consumer_group_heartbeat_ms=200,
    ) as broker:
        yield Stage(broker)


@pytest.fixture
def client(roster: Roster, request: pytest.FixtureRequest) -> Client:
    """The client that the test is parametrised with."""
    return _client(roster, request.param)


@pytest.fixture
def client_named(roster: Roster) -> Callable[[str], Client]:
    return lambda name: _client(roster, name)


@pytest.fixture
def raw(bootstrap: str) -> Iterator[RawConnection]:
    with RawConnection(bootstrap) as connection:
        yield connection


@pytest.fixture
def fresh() -> str:
    """A topic name nobody used."""
    return f"compat-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def new_topic(raw: RawConnection) -> CreateTopic:
    """Creates a topic under a fresh name: `new_topic(partitions=2, cleanup_policy="compact")`."""

    def create(partitions: int = 1, *, beside: str | None = None, **configs: str) -> str:
        topic = f"compat-{uuid.uuid4().hex[:12]}"
        raw.create_topic(topic, partitions, beside=beside, **configs)
        return topic

    return create
