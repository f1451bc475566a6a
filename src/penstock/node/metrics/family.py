"""What a metric is: name, kind, labels, meaning, and how its values are read. `families` lists them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import NamedTuple

from penstock.node.broker import Broker
from penstock.node.runtime.meters import Histogram

Value = int | float | Histogram | None
Samples = Iterator[tuple[tuple[str, ...], Value]]
"""Label values, in the order of the family's labels, and the sample; None if there is no value."""


class MetricKind(StrEnum):
    """Prometheus metric types."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Family(NamedTuple):
    """One metric."""

    name: str
    kind: MetricKind
    labels: tuple[str, ...]
    meaning: str
    samples: Callable[[Broker], Samples]
