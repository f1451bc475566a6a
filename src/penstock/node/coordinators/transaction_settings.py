"""Settings of transactions. `node/settings` assembles the sections."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.limits import PARTITIONS_PER_TOPIC_MAX
from penstock.node.definitions.definition import INT32_MAX, count_setting, duration_setting

_DAY_MS = 86_400_000


@dataclass(frozen=True, init=False, repr=False, eq=False)
class TransactionSettings:
    """Limits and retention of the transaction coordinator."""

    transaction_topic_partitions: int = count_setting(
        "transactions",
        8,
        "Number of partitions of the topic that stores transactional ids; applies when the topic is created.",
        low=1,
        high=PARTITIONS_PER_TOPIC_MAX,
        kafka="transaction.state.log.num.partitions",
    )
    transaction_ms_max: int = duration_setting(
        "transactions",
        900_000,
        "Maximum transaction timeout that a producer may request.",
        low=1,
        high=INT32_MAX,
        kafka="transaction.max.timeout.ms",
    )
    transaction_check_ms: int = duration_setting(
        "transactions",
        1_000,
        "How often transactions are checked for timeout; those that timed out are aborted.",
        low=1,
        high=INT32_MAX,
        kafka="transaction.abort.timed.out.transaction.cleanup.interval.ms",
    )
    transactional_id_expiry_ms: int = duration_setting(
        "transactions",
        7 * _DAY_MS,
        "How long an unused transactional id is retained.",
        low=1,
        kafka="transactional.id.expiration.ms",
    )
    transaction_version: int = count_setting(
        "transactions",
        2,
        "Highest transaction protocol version offered to clients; 2 fences late requests of each transaction.",
        high=2,
    )
