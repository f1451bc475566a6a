"""Settings of transactions. `node/settings` assembles the sections."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.limits import PARTITIONS_PER_TOPIC_MAX
from penstock.node.definitions.definition import INT32_MAX, count, duration

_DAY_MS = 86_400_000


@dataclass(frozen=True, init=False, repr=False, eq=False)
class TransactionSettings:
    """What the transaction coordinator allows and how long it remembers."""

    transaction_topic_partitions: int = count(
        "transactions",
        8,
        "Partitions of the topic that keeps transactional ids; counts when it is first made.",
        low=1,
        high=PARTITIONS_PER_TOPIC_MAX,
        kafka="transaction.state.log.num.partitions",
    )
    transaction_ms_max: int = duration(
        "transactions",
        900_000,
        "The longest that a producer may ask for its transactions to stay open.",
        low=1,
        high=INT32_MAX,
        kafka="transaction.max.timeout.ms",
    )
    transaction_check_ms: int = duration(
        "transactions",
        1_000,
        "How often transactions are looked over for those that took too long; they are aborted.",
        low=1,
        high=INT32_MAX,
        kafka="transaction.abort.timed.out.transaction.cleanup.interval.ms",
    )
    transactional_id_expiry_ms: int = duration(
        "transactions",
        7 * _DAY_MS,
        "How long a transactional id is remembered that nobody uses.",
        low=1,
        kafka="transactional.id.expiration.ms",
    )
    transaction_version: int = count(
        "transactions",
        2,
        "The newest transaction protocol that clients are told of; 2 fences late requests of each transaction.",
        high=2,
    )
