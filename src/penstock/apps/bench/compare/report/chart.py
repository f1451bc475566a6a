"""The result as an SVG chart for light and dark pages: every server of a row as a share of the best one."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from penstock.apps.bench.compare.report.tables import names_of
from penstock.apps.bench.compare.runs.contenders import OURS
from penstock.apps.bench.compare.runs.line_result import LineResult
from penstock.apps.bench.harness.samples import format_number, middle_spread

SELECTED = ("13", "14", "3", "5", "6", "8", "10")
"""Rows of the short chart in the README; the full chart has all rows."""
COLORS = {
    "Penstock": ("#0b7285", "#3bc9db"),
    "Kafka": ("#d9480f", "#ff922b"),
    "NATS": ("#2b8a3e", "#69db7c"),
    "Redis": ("#a61e4d", "#f783ac"),
    "RabbitMQ": ("#5f3dc4", "#b197fc"),
    "Baseline": ("#868e96", "#adb5bd"),
}
"""On a light and on a dark page."""
WIDTH_PX, MARGIN_PX = 760, 16
NAME_PX, VALUE_PX = 84, 150
BAR_PX = WIDTH_PX - 2 * MARGIN_PX - NAME_PX - VALUE_PX
BAR_HEIGHT_PX, BAR_STEP_PX, TITLE_STEP_PX, GAP_PX = 14, 20, 24, 12
BASELINE_PX = 12
STYLE = """\
text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328; }
.page { fill: #ffffff; } .rail { fill: #f1f3f5; } .title, .ours { font-weight: 600; } .title { font-size: 15px; }
.row { font-weight: 600; } .note { fill: #59636e; font-size: 12px; }
"""
DARK_STYLE = (
    "text { fill: #e6edf3; } .page { fill: #0d1117; } .rail { fill: #21262d; } .note { fill: #9198a1; }"
)


def selected(results: Sequence[LineResult]) -> list[LineResult]:
    """The rows of the short chart in its order; all rows if none of these was measured."""
    found = {one.number: one for one in results}
    return [found[number] for number in SELECTED if number in found] or list(results)


def svg(results: Sequence[LineResult], title: str) -> str:
    """The best server of a row gets a full bar, whether more or less is better."""
    pieces = [_text(MARGIN_PX, 26, title, "title"), _text(MARGIN_PX, 46, _note(results), "note")]
    top = 66
    for one in results:
        direction = "more is better" if one.is_more_better else "less is better"
        heading = f'{escape(one.row)} <tspan class="note">{escape(one.unit)}, {direction}</tspan>'
        pieces.append(f'<text x="{MARGIN_PX}" y="{top + BASELINE_PX}" class="row">{heading}</text>')
        top += TITLE_STEP_PX
        for name in names_of([one]):
            if one.samples.get(name):
                pieces += _bar(one, name, top)
                top += BAR_STEP_PX
        top += GAP_PX
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH_PX} {top}" width="{WIDTH_PX}"'
            f' height="{top}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>\n{STYLE}{_colors(0)}",
            f"@media (prefers-color-scheme: dark) {{ {DARK_STYLE} {_colors(1)} }}\n</style>",
            '<rect class="page" width="100%" height="100%"/>',
            *pieces,
            "</svg>\n",
        ]
    )


def _note(results: Sequence[LineResult]) -> str:
    cold = "warm servers; " if any(one.cold for one in results) else ""
    return f"{cold}median of the runs ± half the interquartile range; longer bars are better"


def _colors(scheme: int) -> str:
    return " ".join(f".{name.lower()} {{ fill: {colors[scheme]}; }}" for name, colors in COLORS.items())


def _bar(one: LineResult, name: str, top: int) -> list[str]:
    value = one.value(name) or 0.0
    values = [found for each in one.samples if (found := one.value(each)) is not None]
    best = max(values) if one.is_more_better else min(values)
    share = 1.0 if value == best else value / best if one.is_more_better else best / value
    runs = one.samples[name]
    text = format_number(value)
    if len(runs) > 1 and not one.is_worst:
        text += f" ±{middle_spread(runs) / 2:.0%}"
    left, weight = MARGIN_PX + NAME_PX, "ours" if name == OURS else ""
    length = max(2, round(share * BAR_PX))
    return [
        _text(MARGIN_PX, top + BASELINE_PX, name, weight),
        f'<rect class="rail" x="{left}" y="{top}" width="{BAR_PX}" height="{BAR_HEIGHT_PX}" rx="2"/>',
        f'<rect class="bar {name.lower()}" x="{left}" y="{top}" width="{length}" height="{BAR_HEIGHT_PX}" rx="2"/>',
        _text(left + BAR_PX + 10, top + BASELINE_PX, text, weight),
    ]


def _text(x: int, y: int, content: str, style: str) -> str:
    named = f' class="{style}"' if style else ""
    return f'<text x="{x}" y="{y}"{named}>{escape(content)}</text>'
