"""Events of the cluster state: their keys and bytes, and what is refused when they are read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import TornSegment
from penstock.core.machines.catalog.events import decode, encode, key_of
from penstock.core.machines.cluster.events import (
    BrokerRemoved,
    BrokerSaved,
    ClusterEvent,
    ClusterSaved,
    LinkKeySaved,
    PartitionRemoved,
    PartitionSaved,
)
from penstock.core.machines.cluster.state import ClusterState
from penstock.core.machines.cluster.values import NO_LEADER, BrokerRegistration, PartitionReplicas
from penstock.core.model import Address

TOPIC = bytes.fromhex("0123456789abcdef0123456789abcdef")
NUMBERS = st.integers(0, 2**53)
IDS = st.integers(0, 9)


@st.composite
def partitions(draw: st.DrawFn) -> PartitionReplicas:
    replicas = tuple(draw(st.lists(IDS, unique=True, min_size=1, max_size=5)))
    some = st.lists(st.sampled_from(replicas), unique=True).map(tuple)
    isr = draw(some)
    return PartitionReplicas(
        TOPIC,
        draw(IDS),
        replicas,
        isr,
        draw(st.sampled_from((NO_LEADER, *isr))),
        draw(NUMBERS),
        draw(NUMBERS),
        draw(some),
        draw(st.sampled_from((NO_LEADER, *replicas))),
        draw(some),
        tuple(one for one in draw(some) if one != replicas[0]),
        draw(st.booleans()),
    )


BROKERS = st.builds(
    BrokerRegistration,
    IDS,
    NUMBERS,
    st.text(max_size=9),
    st.dictionaries(
        st.text(max_size=5), st.builds(Address, st.text(max_size=9), st.integers(0, 65_535)), max_size=2
    ),
    st.text(max_size=9),
    NUMBERS,
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
EVENTS: st.SearchStrategy[ClusterEvent] = st.one_of(
    st.builds(ClusterSaved, st.text(max_size=9), NUMBERS),
    st.builds(LinkKeySaved, st.binary(min_size=32, max_size=32)),
    st.builds(BrokerSaved, BROKERS),
    st.builds(BrokerRemoved, IDS),
    st.builds(PartitionSaved, partitions()),
    st.builds(PartitionRemoved, st.just(TOPIC), IDS),
)


@given(EVENTS)
def test_events_survive_their_bytes(event: ClusterEvent) -> None:
    key, value = encode(event)
    assert key == key_of(event) == event.key
    assert decode(key, value) == event


@given(st.lists(EVENTS, max_size=20))
def test_apply_never_refuses_and_the_last_event_of_a_key_is_enough(events: list[ClusterEvent]) -> None:
    live, compacted = ClusterState(), ClusterState()
    for event in events:
        live.apply(event)
    for event in {event.key: event for event in events}.values():
        compacted.apply(event)
    for one in (live, compacted):
        assert sum(one.load(TOPIC).replicas.values()) == sum(len(found.target) for found in one.partitions())
    assert live.brokers == compacted.brokers
    assert list(live.partitions()) == list(compacted.partitions())
    assert live.load(TOPIC) == compacted.load(TOPIC)


def test_records_are_keyed_by_broker_and_partition() -> None:
    partition = PartitionReplicas(TOPIC, 7, (1, 2), (1,), 1, 3, 4)
    assert encode(PartitionSaved(partition)) == (
        b"partition/0123456789abcdef0123456789abcdef/7",
        b'{"isr": [1], "leader": 1, "leader_epoch": 3, "partition_epoch": 4, "replicas": [1, 2], "version": 1}',
    )
    assert encode(PartitionRemoved(TOPIC, 7)) == (b"partition/0123456789abcdef0123456789abcdef/7", None)
    assert encode(BrokerRemoved(12)) == (b"broker/12", None)


PARTITION_KEY = b"partition/0123456789abcdef0123456789abcdef/7"


def partition_value(**changes: str) -> bytes:
    fields = {
        "replicas": "[1, 2]",
        "isr": "[1]",
        "leader": "1",
        "leader_epoch": "0",
        "partition_epoch": "0",
        "version": "1",
        **changes,
    }
    return ("{" + ", ".join(f'"{name}": {value}' for name, value in fields.items()) + "}").encode()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"replicas": "[]"}, "it has no replicas"),
        ({"replicas": "[1, 1]"}, "distinct broker ids"),
        ({"replicas": "[1, true]"}, "distinct broker ids"),
        ({"replicas": "[1, -2]"}, "distinct broker ids"),
        ({"isr": "1"}, "distinct broker ids"),
        ({"isr": "[3]"}, "isr names brokers that hold no replica"),
        ({"elr": "[3]"}, "elr names brokers that hold no replica"),
        ({"adding": "[3]"}, "adding names brokers that hold no replica"),
        ({"removing": "[1, 2]"}, "it has no replicas"),
        ({"leader": "2"}, "the leader 2 is not in the ISR"),
        ({"leader": "-2"}, "leader is -2"),
        ({"leader_epoch": "-1"}, "leader_epoch is -1"),
        ({"is_recovering": "1"}, "is_recovering is 1"),
        ({"version": "2"}, "its version is 2, this broker supports 1"),
    ],
)
def test_a_partition_that_makes_no_sense_is_refused(changes: dict[str, str], message: str) -> None:
    with pytest.raises(TornSegment, match=message):
        decode(PARTITION_KEY, partition_value(**changes))


@pytest.mark.parametrize(
    "key",
    [
        b"partition/",
        b"partition/0123456789abcdef0123456789abcdef",
        b"partition/0123456789abcdef0123456789abcdef/",
        b"partition/0123456789abcdef0123456789abcdef/07",
        b"partition/0123456789ABCDEF0123456789abcdef/7",
        b"partition/0123/7",
        b"partition/0123456789abcdef0123456789abcdef/-7",
        b"broker/",
        b"broker/one",
        b"broker/01",
        b"broker/" + b"1" * 5_000,
        b"broker/\xc2\xb2",
    ],
)
def test_keys_have_one_form(key: bytes) -> None:
    with pytest.raises(TornSegment, match="does not contain a valid"):
        decode(key, None)


@pytest.mark.parametrize(
    "listeners", ["[]", '{"a": "host:1"}', '{"a": ["host", 65536]}', '{"a": ["host", true]}']
)
def test_a_broker_with_unusable_listeners_is_refused(listeners: str) -> None:
    value = (
        '{"epoch": 1, "incarnation_id": "x", "rack": "", "session": 0, "is_fenced": true, "is_stopping": false,'
        f' "is_draining": false, "version": 1, "listeners": {listeners}}}'
    )
    with pytest.raises(TornSegment, match="listeners"):
        decode(b"broker/1", value.encode())


def test_the_cluster_has_no_tombstone() -> None:
    with pytest.raises(TornSegment, match="not JSON"):
        decode(b"cluster", None)


@pytest.mark.parametrize("value", ['"5ec2e7"', '"no hexadecimal"', "7", "null", '"' + "5e" * 33 + '"'])
def test_a_link_key_of_another_size_is_refused_and_not_quoted(value: str) -> None:
    with pytest.raises(TornSegment, match="link_key is not 64 hexadecimal digits") as raised:
        decode(b"link-key", f'{{"link_key": {value}, "version": 1}}'.encode())
    assert "5e" not in str(raised.value)


def test_a_link_key_is_not_printed_with_its_event() -> None:
    assert "6b" * 32 not in repr([LinkKeySaved(b"k" * 32)]) and "kkk" not in repr([LinkKeySaved(b"k" * 32)])
