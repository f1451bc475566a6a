"""`make demo`.

The main job end to end, by itself: write, read back with another client, kill -9, and nothing is lost; a group, a
transaction, five doors to one log, and a data pipeline on Spark.
"""

from __future__ import annotations

import sys

from shop import story

from demo import doors, durability, groups, transactions
from demo.stage import Stage


def main() -> int:
    """Play every act; the exit code says whether all of them held."""
    stage = Stage()
    acts = [durability.play, groups.play, transactions.play, doors.play, story.play]
    outcomes = [act(stage) for act in acts]
    held = all(outcomes)
    stage.curtain(held)
    return 0 if held else 1


sys.exit(main())
