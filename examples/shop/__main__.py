"""`PYTHONPATH=examples python -m shop`: the pipeline scenario alone. Exits 0 if all checks passed."""

from __future__ import annotations

import sys

from demo.stage import Stage

from shop.story import play

stage = Stage()
held = play(stage)
stage.curtain(held)
sys.exit(0 if held else 1)
