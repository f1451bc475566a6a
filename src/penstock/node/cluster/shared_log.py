"""Opens the metadata log that a broker shares with others, as its settings say. Knows all kinds of stores."""

from __future__ import annotations

from pathlib import Path

from penstock.core.errors import InvalidConfig
from penstock.node.cluster.cluster_secret import read_secret
from penstock.node.cluster.cluster_settings import ClusterSettings
from penstock.node.cluster.metadata_log import OpenSharedLog, SharedMetadataLog
from penstock.node.cluster.metadata_target import CoordinatorTarget, parse_metadata_url
from penstock.node.etcd.target import EtcdTarget
from penstock.node.runtime.runtime import Runtime


def shared_log_opener(settings: ClusterSettings, runtime: Runtime, broker_id: int) -> OpenSharedLog | None:
    """How to open the log of the setting `metadata`; None for a single broker."""
    if settings.metadata is None:
        return None
    target = parse_metadata_url(settings.metadata)

    async def open_shared(cluster_id: str, seen_index: int) -> SharedMetadataLog:
        if isinstance(target, CoordinatorTarget):
            return await _open_remote(target, runtime, broker_id, cluster_id, seen_index)
        return await _open_etcd(target, runtime, cluster_id, seen_index, settings.session_ms)

    return open_shared


async def _open_remote(
    target: CoordinatorTarget, runtime: Runtime, broker_id: int, cluster_id: str, seen_index: int
) -> SharedMetadataLog:
    from penstock.node.cluster.metadata_link import CoordinatorAccess
    from penstock.node.cluster.metadata_remote import RemoteMetadataLog

    try:
        secret = read_secret(Path(target.secret_file))
    except OSError as error:
        raise InvalidConfig(
            f"cannot read the cluster secret {target.secret_file}: {error.strerror}; it is `cluster-secret` in the"
            " coordinator's directory"
        ) from error
    access = CoordinatorAccess(target.address, secret, broker_id, cluster_id)
    log = RemoteMetadataLog(access, runtime, seen_index=seen_index)
    await log.open()
    return log


async def _open_etcd(
    target: EtcdTarget, runtime: Runtime, cluster_id: str, seen_index: int, session_ms: int
) -> SharedMetadataLog:
    from penstock.node.cluster.metadata_etcd import MetadataEtcd
    from penstock.node.etcd.client import EtcdClient

    log = MetadataEtcd(
        EtcdClient(target, meters=runtime.meters.etcd),
        runtime,
        cluster_id=cluster_id,
        seen_index=seen_index,
        session_ttl_s=max(1, session_ms // 1000),
    )
    await log.open()
    return log
