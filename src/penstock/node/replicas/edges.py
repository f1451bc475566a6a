"""Special positions and bounds of partitions. Values only."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Edge(Enum):
    """A special position."""

    EARLIEST = "earliest"
    """The first available record."""
    LATEST = "latest"
    """After the last record visible to the reader."""
    NEWEST = "newest"
    """The first record that has the highest timestamp."""


class Bounds(NamedTuple):
    """The start and end offset of one partition."""

    start_offset: int
    end_offset: int
