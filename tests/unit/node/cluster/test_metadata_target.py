"""The URL of the metadata store: what it may say, and that every mistake is told with its remedy."""

from __future__ import annotations

import pytest

from penstock.core.errors import InvalidConfig
from penstock.core.model import Address
from penstock.node.cluster.metadata_target import CoordinatorTarget, parse_metadata_url
from penstock.node.etcd.target import EtcdTarget


def test_a_coordinator_and_its_secret() -> None:
    target = parse_metadata_url("coordinator://127.0.0.1:9191?secret=/data/c/cluster-secret")
    assert target == CoordinatorTarget(Address("127.0.0.1", 9191), "/data/c/cluster-secret")
    assert str(target) == "127.0.0.1:9191"


@pytest.mark.parametrize("path", ["/plain", "/with space/100%&x=1", "relative/ümlaut", "/a+b"])
@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_a_url_says_what_it_was_made_of(host: str, path: str) -> None:
    target = CoordinatorTarget(Address(host, 1234), path)
    assert parse_metadata_url(target.url) == target


def test_etcd() -> None:
    target = parse_metadata_url("etcd://a,b:1234")
    assert isinstance(target, EtcdTarget)
    assert target.endpoints == (Address("a", 2379), Address("b", 1234))


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("zookeeper://a:2181", "'zookeeper' is not a kind of metadata store; expected etcd://"),
        ("127.0.0.1:2379", "has no scheme; expected etcd://"),
        ("coordinator://127.0.0.1?secret=x", "has no port"),
        ("coordinator://127.0.0.1:0?secret=x", "must be a number from 1 to 65535"),
        ("coordinator://127.0.0.1:99", r"add \?secret=FILE"),
        ("coordinator://127.0.0.1:99?secret=", r"add \?secret=FILE"),
        ("coordinator://127.0.0.1:99?secret=x&ca=y", "'ca' is not a parameter"),
        (
            "coordinator://10.0.0.1:99?secret=x",
            "not a loopback address; brokers on several machines need etcd",
        ),
        ("coordinator://?secret=x", "is not an address"),
        ("etcd://user:secret@a:x", "must be a number"),
    ],
)
def test_a_wrong_url_is_refused_with_cause_and_remedy(url: str, words: str) -> None:
    with pytest.raises(InvalidConfig, match=words) as failure:
        parse_metadata_url(url)
    assert "user:secret" not in str(failure.value)
