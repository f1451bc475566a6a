"""The machines that store a cluster's metadata, as the user lists them: `1@hostA,2@hostB,3@hostC:3379`.

The port is where etcd serves clients; its members talk to each other on the next one.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from penstock.core.errors import InvalidConfig
from penstock.core.limits import BROKER_ID_MAX
from penstock.core.model import Address
from penstock.node.connections.addresses import parse_address
from penstock.node.etcd.target import PORT

MEMBERS_MAX = 7
"""More members make every append slower and add no useful safety."""
_EXAMPLE = "expected for example 1@hostA,2@hostB,3@hostC"


class ClusterMember(NamedTuple):
    """A broker that runs a member of the metadata store."""

    node_id: int
    address: Address

    @property
    def peer_address(self) -> Address:
        return Address(self.address.host, self.address.port + 1)


def parse_members(text: str) -> tuple[ClusterMember, ...]:
    """All members, sorted by id, so that every broker builds the same list. Raises InvalidConfig."""
    members = [_parse_member(part.strip()) for part in text.split(",")]
    if len(members) > MEMBERS_MAX:
        raise InvalidConfig(
            f"the cluster lists {len(members)} members, at most {MEMBERS_MAX} are allowed: list three or five machines,"
            " and start other brokers with --metadata etcd://…"
        )
    for number, member in enumerate(members):
        for other in members[:number]:
            if other.node_id == member.node_id:
                raise InvalidConfig(f"node id {member.node_id} is listed twice in the cluster")
            if _ports(other) & _ports(member):
                raise InvalidConfig(
                    f"{other.address} and {member.address} overlap: a member uses its port and the next one"
                )
    return tuple(sorted(members))


def _parse_member(text: str) -> ClusterMember:
    number, at, host = text.partition("@")
    if not at:
        raise InvalidConfig(f"{text!r} is not a member of a cluster; {_EXAMPLE}")
    if not re.fullmatch("[0-9]{1,10}", number) or int(number) > BROKER_ID_MAX:
        raise InvalidConfig(f"the node id in {text!r} must be a number from 0 to {BROKER_ID_MAX}; {_EXAMPLE}")
    address = parse_address(host, PORT)
    if address.port == 65_535:
        raise InvalidConfig(f"the port in {text!r} must be below 65535: the member uses the next one as well")
    return ClusterMember(int(number), address)


def _ports(member: ClusterMember) -> set[Address]:
    return {member.address, member.peer_address}
