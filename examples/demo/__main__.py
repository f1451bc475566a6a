"""`make demo`: the core scenario end to end.

Writes records, reads them with another client, kills the broker and checks that nothing is lost; then a consumer
group, a transaction, five protocols on one log, a cluster of three brokers, and a Spark pipeline.
"""

from __future__ import annotations

import logging
import sys

from shop import story

from demo import cluster, doors, durability, groups, transactions
from demo.stage import Stage


def main() -> int:
    """Run all scenarios; the exit code is 0 if all checks passed."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # it warns about brokers that the demo kills
    stage = Stage()
    acts = [durability.play, groups.play, transactions.play, doors.play, cluster.play, story.play]
    outcomes = [act(stage) for act in acts]
    held = all(outcomes)
    stage.curtain(held)
    return 0 if held else 1


sys.exit(main())
