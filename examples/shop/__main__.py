"""`PYTHONPATH=examples python -m shop`: the story by itself. Exits 0 if everything held."""

from __future__ import annotations

import sys

from demo.stage import Stage

from shop.story import play

stage = Stage()
held = play(stage)
stage.curtain(held)
sys.exit(0 if held else 1)
