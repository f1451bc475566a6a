"""The metadata store of a cluster as one URL, for the setting `metadata`. Opens no connection and reads no file.

coordinator://127.0.0.1:9191?secret=/data/coordinator/cluster-secret      brokers of one machine
etcd://host:2379,host2:2379, etcds://…                                    several machines; see node/etcd/target.py
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl, quote

from penstock.core.errors import InvalidConfig
from penstock.node.connections.addresses import Address, is_loopback, parse_address
from penstock.node.etcd.target import EtcdTarget, parse_etcd_url

_SCHEME = "coordinator://"
_EXAMPLE = "expected for example coordinator://127.0.0.1:9191?secret=FILE"


@dataclass(frozen=True, slots=True)
class CoordinatorTarget:
    """Where the coordinator of this machine listens, and the file with the secret that it shares with its brokers."""

    address: Address
    secret_file: str

    @property
    def url(self) -> str:
        return f"{_SCHEME}{self.address}?secret={quote(self.secret_file, safe='/')}"

    def __str__(self) -> str:
        return str(self.address)


def parse_metadata_url(url: str) -> CoordinatorTarget | EtcdTarget:
    """Raises InvalidConfig, which never repeats a password."""
    if url.startswith(_SCHEME):
        return _parse_coordinator(url.removeprefix(_SCHEME))
    if url.startswith(("etcd://", "etcds://")):
        return parse_etcd_url(url)
    scheme, separator, _ = url.partition("://")
    found = f"{scheme!r} is not a kind of metadata store" if separator else "the metadata URL has no scheme"
    raise InvalidConfig(
        f"{found}; expected etcd://host:2379, etcds://host:2379 or coordinator://127.0.0.1:PORT?secret=FILE"
    )


def _parse_coordinator(rest: str) -> CoordinatorTarget:
    where, _, query = rest.partition("?")
    parameters = dict(parse_qsl(query, keep_blank_values=True))
    unknown = sorted(parameters.keys() - {"secret"})
    if unknown:
        raise InvalidConfig(
            f"{unknown[0]!r} is not a parameter of the coordinator's URL; the only one is secret"
        )
    address = parse_address(where.removesuffix("/"), 0)
    if not address.port:
        raise InvalidConfig(f"the coordinator's URL has no port; {_EXAMPLE}")
    if not is_loopback(address.host):
        raise InvalidConfig(
            f"a coordinator serves brokers of its own machine only, and {address.host} is not a loopback address;"
            " brokers on several machines need etcd://host:2379"
        )
    if not parameters.get("secret"):
        raise InvalidConfig(
            "the coordinator's URL does not name the file with the cluster's secret; add ?secret=FILE"
            " (`cluster-secret` in the coordinator's directory)"
        )
    return CoordinatorTarget(address, parameters["secret"])
