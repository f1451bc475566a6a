"""The gossip incarnation of this broker across restarts. Blocks on the disk: call it from a worker.

Incarnations are reserved in blocks, so that refuting a suspicion does not wait for the disk.
"""

from __future__ import annotations

import logging

from penstock.core.errors import TornSegment
from penstock.core.log import checksummed_file as checked
from penstock.core.ports import Files

INCARNATION_FILE = "gossip.json"
BLOCK = 1_000
"""Incarnations reserved at once. A peer uses one per restart and per refuted suspicion."""

_NEXT = "next_incarnation"

logger = logging.getLogger("penstock.gossip")


class IncarnationFile:
    """The first incarnation that no earlier run has used."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def reserve(self, least: int = 1) -> range:
        """A block that no run has used, from `least` on; durable on return. Raises Damaged."""
        first = max(least, self._stored())
        checked.write(self._files, INCARNATION_FILE, {_NEXT: first + BLOCK})
        return range(first, first + BLOCK)

    def _stored(self) -> int:
        """0 if it was lost: the other peers remember, and tell this one as soon as it joins."""
        try:
            content = checked.read(self._files, INCARNATION_FILE)
        except TornSegment as error:
            logger.warning("replacing the gossip incarnation, which other brokers remember: %s", error)
            content = None
        return 0 if content is None else int(content[_NEXT])
