"""The metadata URL: every part that it may have, and what is wrong with others."""

from __future__ import annotations

import pytest

from penstock.core.errors import InvalidConfig
from penstock.core.model import Address
from penstock.node.etcd.target import EtcdTarget, TlsFiles, parse_etcd_url


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("etcd://a", EtcdTarget((Address("a", 2379),))),
        (
            "etcd://a:1,b,10.0.0.3:3",
            EtcdTarget((Address("a", 1), Address("b", 2379), Address("10.0.0.3", 3))),
        ),
        ("etcd://[::1]:7,[fe80::1]", EtcdTarget((Address("::1", 7), Address("fe80::1", 2379)))),
        ("etcd://me:p%40s%2Fs:w@a:1", EtcdTarget((Address("a", 1),), "me", "p@s/s:w")),
        ("etcd://a/team/orders", EtcdTarget((Address("a", 2379),), prefix="team/orders")),
        ("etcds://a", EtcdTarget((Address("a", 2379),), tls=TlsFiles())),
        (
            "etcds://a/x?ca=/ca.pem&cert=c.pem&key=k.pem",
            EtcdTarget((Address("a", 2379),), prefix="x", tls=TlsFiles("/ca.pem", "c.pem", "k.pem")),
        ),
    ],
)
def test_valid_urls(url: str, target: EtcdTarget) -> None:
    assert parse_etcd_url(url) == target


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "must start with etcd://"),
        ("http://a:2379", "must start with etcd://"),
        ("etcd://", "'' is not an address"),
        ("etcd://a,,b", "'' is not an address"),
        ("etcd://a:", "'a:' is not an address"),
        ("etcd://a:port", "the port in 'a:port' must be a number"),
        ("etcd://a:0", "from 1 to 65535"),
        ("etcd://a:65536", "from 1 to 65535"),
        ("etcd://::1:2379", "into brackets"),
        ("etcd://[::1", "is not an address"),
        ("etcd://[::1]x", "is not an address"),
        ("etcd://a b", "is not an address"),
        ("etcd://a,b,a:2379", "listed twice"),
        ("etcd://me@a", "user:password@"),
        ("etcd://:secret@a", "user:password@"),
        ("etcd://a//b", "the key prefix"),
        ("etcd://a/b/", "the key prefix"),
        ("etcd://a?ca=x", "need etcds://"),
        ("etcds://a?cert=x", "both cert=FILE and key=FILE"),
        ("etcds://a?cafile=x", "'cafile' is not a parameter"),
    ],
)
def test_errors_name_the_part(url: str, words: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        parse_etcd_url(url)
    assert words in str(caught.value)


def test_the_password_is_never_shown() -> None:
    target = parse_etcd_url("etcd://me:secret@a,b:1")
    assert "secret" not in repr(target)
    assert str(target) == "a:2379,b:1"
    with pytest.raises(InvalidConfig) as caught:
        parse_etcd_url("etcd://me:secret@a:x")
    assert "secret" not in str(caught.value)
