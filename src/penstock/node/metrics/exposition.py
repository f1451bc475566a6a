"""Metrics in Prometheus text format, in pieces, so that the caller can yield between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.core.printable import escape
from penstock.node.broker import Broker
from penstock.node.metrics.families import FAMILIES
from penstock.node.metrics.family import Family
from penstock.node.runtime.meters import Histogram

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
LINES_PER_PIECE = 500

_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def render(broker: Broker, families: Sequence[Family] = FAMILIES) -> Iterator[bytes]:
    """All metrics, read when each piece is rendered. A topic deleted meanwhile is left out."""
    lines: list[str] = []
    looked_at = 0
    for family in families:
        lines += (
            f"# HELP {family.name} {family.meaning}",
            f"# TYPE {family.name} {family.kind}",
        )
        for labels, value in family.samples(broker):
            looked_at += 1
            if value is None:
                pass
            elif isinstance(value, Histogram):
                lines += _histogram(family, labels, value)
            else:
                lines.append(f"{family.name}{_braces(family.labels, labels)} {value}")
            if len(lines) >= LINES_PER_PIECE or looked_at >= LINES_PER_PIECE:
                yield _piece(lines)
                lines.clear()
                looked_at = 0
    yield _piece(lines)


def _piece(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _histogram(family: Family, labels: tuple[str, ...], histogram: Histogram) -> Iterator[str]:
    names = (*family.labels, "le")
    below = 0
    bounds = [*(format(bound, "g") for bound in histogram.bounds_s), "+Inf"]
    for bound, count in zip(bounds, histogram.counts, strict=True):
        below += count
        yield f"{family.name}_bucket{_braces(names, (*labels, bound))} {below}"
    own = _braces(family.labels, labels)
    yield f"{family.name}_sum{own} {histogram.sum_s}"
    yield f"{family.name}_count{own} {below}"


def _braces(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    if not names:
        return ""
    pairs = ",".join(f'{name}="{_label(value)}"' for name, value in zip(names, values, strict=True))
    return f"{{{pairs}}}"


def _label(value: str) -> str:
    """Escapes a label value: unprintable characters first, then the three that the format reserves."""
    if not value.isprintable():
        value = "\n".join(map(escape, value.split("\n")))
    return value.translate(_ESCAPED)
