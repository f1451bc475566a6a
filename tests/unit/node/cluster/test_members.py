"""The list of machines in `--cluster`."""

from __future__ import annotations

import pytest

from penstock.core.errors import InvalidConfig
from penstock.core.model import Address
from penstock.node.cluster.members import ClusterMember, parse_members


def test_members_are_sorted_and_have_default_ports() -> None:
    assert parse_members("3@c:3379, 1@a,2@[::1]") == (
        ClusterMember(1, Address("a", 2379)),
        ClusterMember(2, Address("::1", 2379)),
        ClusterMember(3, Address("c", 3379)),
    )
    assert parse_members("1@a")[0].peer_address == Address("a", 2380)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "'' is not a member"),
        ("a,b", "'a' is not a member of a cluster; expected for example 1@hostA"),
        ("1@a,", "'' is not a member"),
        ("x@a", "the node id in 'x@a' must be a number"),
        ("@a", "the node id in '@a'"),
        ("-1@a", "the node id in '-1@a'"),
        ("2147483648@a", "from 0 to 2147483647"),
        ("1@", "'' is not an address"),
        ("1@a:http", "the port in 'a:http'"),
        ("1@a:65535", "must be below 65535"),
        ("1@a,1@b", "node id 1 is listed twice"),
        ("1@a,2@a", "a:2379 and a:2379 overlap"),
        ("1@a:1000,2@a:1001", "a:1000 and a:1001 overlap"),
        (",".join(f"{number}@h{number}" for number in range(1, 9)), "lists 8 members, at most 7"),
    ],
)
def test_errors_name_the_member(text: str, words: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        parse_members(text)
    assert words in str(caught.value)
