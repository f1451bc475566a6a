"""`make demo`.

The core scenarios end to end: records that survive kill -9, a consumer group that loses a member, transactions, one log
through five protocols, and a data pipeline on Spark.
"""

from __future__ import annotations

import sys

from shop import story

from demo import doors, durability, groups, transactions
from demo.stage import Stage


def main() -> int:
    """Play every act; exit code 0 if all checks passed, else 1."""
    stage = Stage()
    acts = [durability.play, groups.play, transactions.play, doors.play, story.play]
    outcomes = [act(stage) for act in acts]
    held = all(outcomes)
    stage.curtain(held)
    return 0 if held else 1


sys.exit(main())
