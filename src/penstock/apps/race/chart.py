"""The race as a picture: for each row, everybody as a share of the best. Never measures."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from penstock.apps.race.entrants import OURS
from penstock.apps.race.standing import Standing
from penstock.apps.race.tables import names_of, number

COLORS = ("#0b7285", "#adb5bd", "#ced4da", "#868e96", "#dee2e6")
LABEL_PX, BAR_PX, BAR_HEIGHT_PX, GAP_PX, VALUE_PX = 290, 380, 14, 14, 130
TEXT_STYLE = 'font-family="system-ui, sans-serif" font-size="12"'


def svg(standings: Sequence[Standing], title: str) -> str:
    """Bars from worst to best: a full bar is the best of its row, whether more or less is better."""
    names = names_of(standings)
    pieces: list[str] = [f'<text x="10" y="22" {TEXT_STYLE} font-weight="bold">{escape(title)}</text>']
    top = 40
    for one in standings:
        ran = [name for name in names if one.samples.get(name)]
        pieces.append(f'<text x="10" y="{top + 11}" {TEXT_STYLE}>{escape(f"{one.number}  {one.row}")}</text>')
        for name in ran:
            pieces += _bar(one, name, COLORS[names.index(name) % len(COLORS)], top)
            top += BAR_HEIGHT_PX + 2
        top += GAP_PX
    width = LABEL_PX + BAR_PX + VALUE_PX
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top}" width="{width}" height="{top}">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(pieces) + "\n</svg>\n"
    )


def _bar(one: Standing, name: str, color: str, top: int) -> list[str]:
    value = one.value(name) or 0.0
    values = [found for each in one.samples if (found := one.value(each))]
    share = value / max(values) if one.is_more_better else min(values) / value
    weight = ' font-weight="bold"' if name == OURS else ""
    text = f"{name} {number(value)} {one.unit}"
    length = max(2, round(share * BAR_PX))
    return [
        f'<rect x="{LABEL_PX}" y="{top}" width="{length}" height="{BAR_HEIGHT_PX}" fill="{color}"/>',
        f'<text x="{LABEL_PX + length + 6}" y="{top + 11}" {TEXT_STYLE}{weight}>{escape(text)}</text>',
    ]
