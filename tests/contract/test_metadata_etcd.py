"""The metadata log over a real etcd of three members: the contract of every ground."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from contract.etcd_ground import EtcdGround
from contract.metadata_contract import Ground, MetadataContract
from etcd_cluster import EtcdCluster, running_etcd


@pytest.fixture(scope="module")
def etcd() -> Iterator[EtcdCluster]:
    with running_etcd() as cluster:
        yield cluster


class TestEtcd(MetadataContract):
    @pytest.fixture(autouse=True)
    def _on(self, etcd: EtcdCluster) -> None:
        self.etcd = etcd

    def make_ground(self) -> Ground:
        return EtcdGround(self.etcd)
