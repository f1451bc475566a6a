"""Settings of the node's place in a cluster. `node/settings` assembles the sections."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.replication_config import CATCH_UP_RATE, FOLLOWER_RATE
from penstock.node.cluster.read_replica import ReadReplica
from penstock.node.definitions.definition import (
    INT32_MAX,
    SettingKind,
    count_setting,
    define_setting,
    duration_setting,
    size_setting,
)


def _check_metadata(url: str) -> None:
    # Imported on use: a broker without a cluster parses no URL.
    from penstock.node.cluster.metadata_target import parse_metadata_url

    parse_metadata_url(url)


def _check_cluster(text: str) -> None:
    from penstock.node.cluster.members import parse_members

    parse_members(text)


@dataclass(frozen=True, init=False, repr=False, eq=False)
class ClusterSettings:
    """Where the cluster's metadata is, and what this broker says about itself."""

    metadata: str | None = define_setting(
        SettingKind.URL,
        "cluster",
        None,
        "Metadata store that the brokers of a cluster share: etcd://host:2379,host2:2379 or"
        " coordinator://127.0.0.1:PORT?secret=FILE; off: a file of this broker, which is then alone.",
        check=_check_metadata,
        metavar="URL|off",
    )
    cluster: str | None = define_setting(
        SettingKind.TEXT,
        "cluster",
        None,
        "Members of the metadata store, such as 1@hostA,2@hostB,3@hostC: this broker, whose node_id must be in the"
        " list, runs one of them (the program etcd) and uses it instead of --metadata.",
        check=_check_cluster,
        metavar="ID@HOST,…|off",
        aliases=("cluster.members",),
    )
    rack: str = define_setting(
        SettingKind.TEXT,
        "cluster",
        "",
        "Failure domain of this broker: replicas are spread over racks; empty: this machine.",
        may_be_empty=True,
        metavar="NAME",
    )
    read_replica: ReadReplica = define_setting(
        SettingKind.CHOICE,
        "cluster",
        ReadReplica.RACK,
        "From where consumers that name their rack (client.rack) read: from an in-sync replica in it, if there is one,"
        " or always from the leader.",
        choices=ReadReplica,
        aliases=("replica.selector.class",),
    )
    session_ms: int = duration_setting(
        "cluster",
        6_000,
        "Time after which a broker that is silent counts as failed and loses its partitions. `cluster up` and"
        " `start --cores` set it for all brokers.",
        low=1_000,
        high=600_000,
        aliases=("cluster.session_timeout",),
        kafka="broker.session.timeout.ms",
    )
    default_replication_factor: int = count_setting(
        "cluster",
        0,
        "Replicas of a topic that is created without a number, also of internal topics; 0: one per machine (rack), at"
        " most 3. `cluster up` sets it to the number of brokers, at most 3. A broker that is alone stores one copy.",
        high=1_000,
        kafka="default.replication.factor",
    )
    leader_rebalance: bool = define_setting(
        SettingKind.SWITCH,
        "cluster",
        True,
        "Whether the controller gives the leadership of partitions back to their preferred replicas once these are in"
        " sync again.",
        kafka="auto.leader.rebalance.enable",
    )
    leader_check_s: int = count_setting(
        "cluster",
        30,
        "How often the controller looks for such partitions, in seconds. It also does so soon after a broker has caught"
        " up.",
        low=1,
        high=INT32_MAX,
        kafka="leader.imbalance.check.interval.seconds",
    )
    copy_bytes_per_s: int = size_setting(
        "cluster",
        64 * 2**20,
        "Bytes per second that a broker copies at most of partitions that are being moved to it; 0: no limit. Can be"
        " changed at run time.",
        aliases=("cluster.copy_rate",),
        kafka=FOLLOWER_RATE,
    )
    catch_up_bytes_per_s: int = size_setting(
        "cluster",
        128 * 2**20,
        "Bytes per second that a broker copies at most of what it missed while it was away; 0: no limit. It does not"
        " count for partitions that lack in-sync replicas, or are written to faster. Can be changed at run time.",
        kafka=CATCH_UP_RATE,
    )
    copies_max: int = count_setting(
        "cluster",
        4,
        "Partitions that are copied to this broker at a time; further ones wait.",
        low=1,
        high=1_000,
    )
    replica_lag_ms: int = duration_setting(
        "cluster",
        30_000,
        "Time after which a replica that has not caught up with its leader leaves the in-sync replicas.",
        low=1_000,
        high=3_600_000,
        aliases=("cluster.replica_lag",),
        kafka="replica.lag.time.max.ms",
    )
    scrub_interval_ms: int = duration_setting(
        "cluster",
        86_400_000,
        "How often a broker compares the replicas of the partitions that it leads; 0: only on request. The first"
        " round begins ten minutes after the start, or earlier.",
        high=31_536_000_000,
        aliases=("cluster.scrub_interval",),
    )
    scrub_bytes_per_s: int = size_setting(
        "cluster",
        8 * 2**20,
        "Bytes per second that a broker compares at most; 0: no limit.",
        aliases=("cluster.scrub_rate",),
    )
    takes_share: bool = define_setting(
        SettingKind.SWITCH,
        "cluster",
        True,
        "Whether a broker that joins its cluster for the first time gets its share of the partitions.",
    )
    gossip: bool = define_setting(
        SettingKind.SWITCH,
        "cluster",
        True,
        "Exchange liveness, addresses and load with the other brokers, in UDP packets on the port number of the Kafka"
        " door. A hint for people and tools: nothing depends on it.",
    )
