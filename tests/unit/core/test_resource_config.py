"""Settings of groups and client metrics: what is accepted, within which bounds, how it is described."""

from __future__ import annotations

import pytest

from penstock.core.errors import BrokerError, InvalidConfig, InvalidRequest
from penstock.core.resource_config import (
    GROUP_SETTINGS,
    HEARTBEAT_MS,
    RESOURCE_SETTINGS,
    SESSION_MS,
    ResourceKind,
    check_group,
    describe_resource,
    validate_resource,
)

GROUP, METRICS = ResourceKind.GROUP, ResourceKind.CLIENT_METRICS
BROKER_SESSION, BROKER_HEARTBEAT = GROUP_SETTINGS[SESSION_MS].inherits, GROUP_SETTINGS[HEARTBEAT_MS].inherits


def test_every_default_is_valid_and_within_bounds() -> None:
    for kind, settings in RESOURCE_SETTINGS.items():
        for name, definition in settings.items():
            assert validate_resource(kind, name, definition.default) == definition.default
            assert definition.doc.endswith(".")
    check_group({name: definition.default for name, definition in GROUP_SETTINGS.items()}, {})


@pytest.mark.parametrize(
    ("kind", "name", "value", "error"),
    [
        (GROUP, SESSION_MS, "soon", InvalidConfig),
        (GROUP, "share.auto.offset.reset", "by_duration:P", InvalidConfig),
        (GROUP, "share.isolation.level", "serializable", InvalidConfig),
        (GROUP, "retention.ms", "1", InvalidConfig),
        (METRICS, "interval.ms", "99", InvalidRequest),
        (METRICS, "retention.ms", "1", InvalidRequest),
    ],
)
def test_bad_values(kind: ResourceKind, name: str, value: str, error: type[BrokerError]) -> None:
    with pytest.raises(error):
        validate_resource(kind, name, value)


@pytest.mark.parametrize("value", ["earliest", "latest", "by_duration:PT1H", "by_duration:P2DT3M4.5S"])
def test_where_share_groups_would_start(value: str) -> None:
    assert validate_resource(GROUP, "share.auto.offset.reset", value) == value


@pytest.mark.parametrize(
    ("name", "value"), [(SESSION_MS, "44999"), (SESSION_MS, "60001"), (HEARTBEAT_MS, "4999")]
)
def test_bounds_are_kafkas(name: str, value: str) -> None:
    with pytest.raises(InvalidConfig, match="allowed is a whole number from"):
        check_group({name: value}, {})


def test_bounds_reach_as_far_as_the_brokers_own_value() -> None:
    configured = {BROKER_SESSION: "3000", BROKER_HEARTBEAT: "200"}
    check_group({SESSION_MS: "3000", HEARTBEAT_MS: "200"}, configured)
    with pytest.raises(InvalidConfig, match="from 3000 to 60000"):
        check_group({SESSION_MS: "2999"}, configured)


def test_a_heartbeat_must_come_within_the_session() -> None:
    configured = {BROKER_SESSION: "3000", BROKER_HEARTBEAT: "200"}
    with pytest.raises(InvalidConfig, match="not less than"):
        check_group({HEARTBEAT_MS: "3000"}, configured)
    check_group({HEARTBEAT_MS: "3000", SESSION_MS: "3001"}, configured)


def test_a_group_is_described_with_what_it_inherits() -> None:
    entries = {
        entry.name: entry
        for entry in describe_resource(GROUP, {SESSION_MS: "50000"}, {BROKER_SESSION: "47000"})
    }
    assert list(entries) == sorted(GROUP_SETTINGS)
    session, heartbeat = entries[SESSION_MS], entries[HEARTBEAT_MS]
    assert (session.value, session.source) == ("50000", "group")
    assert session.synonyms == (
        (SESSION_MS, "50000", "group"),
        (BROKER_SESSION, "47000", "configured"),
        (BROKER_SESSION, "45000", "default"),
    )
    assert (heartbeat.value, heartbeat.source) == ("5000", "default")
    (interval, *_) = describe_resource(METRICS, {}, {})
    assert (interval.name, interval.value, interval.synonyms) == ("interval.ms", "300000", ())
