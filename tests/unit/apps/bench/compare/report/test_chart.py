"""The charts."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from penstock.apps.bench.compare.report import chart
from penstock.apps.bench.compare.runs.contenders import BASELINE, CONTENDERS
from unit.apps.bench.compare.sample_results import line_result


def bars(drawn: str) -> list[ElementTree.Element]:
    rects = ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}rect")
    return [one for one in rects if str(one.get("class")).startswith("bar ")]


def test_the_best_of_a_row_has_the_longest_bar() -> None:
    widths = [
        int(str(one.get("width"))) for one in bars(chart.svg([line_result([30, 30], [60, 60])], "a <chart>"))
    ]
    assert len(widths) == 3
    assert widths[2] == max(widths) == chart.BAR_PX
    assert widths[0] == pytest.approx(chart.BAR_PX / 2, abs=1)


def test_nothing_is_the_best_where_less_is_better() -> None:
    drawn = chart.svg([line_result([0, 0], [5, 5], more=False)], "a chart")
    widths = [int(str(one.get("width"))) for one in bars(drawn)]
    assert widths[0] == chart.BAR_PX and widths[2] < 5


def test_texts_fit_into_the_chart_and_do_not_overlap_the_bars() -> None:
    long = replace(line_result([8_352_772.0] * 2, [60, 60]), row="x" * 60)
    drawn = chart.svg([long], "a chart")
    texts = list(ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text"))
    glyph_px = 9
    for one in texts:
        right_px = int(str(one.get("x"))) + glyph_px * len(one.text or "")
        assert right_px <= chart.WIDTH_PX or one.get("class") == "note", one.text
    ends = {int(str(one.get("x"))) + int(str(one.get("width"))) for one in bars(drawn)}
    values = [
        int(str(one.get("x"))) for one in texts if "±" in (one.text or "") and one.get("class") != "note"
    ]
    assert max(ends) < min(values)


def test_servers_have_different_colors_in_light_and_dark() -> None:
    names = {one.launcher.name for one in CONTENDERS} | {BASELINE}
    assert set(chart.COLORS) == names
    for scheme in (0, 1):
        assert len({colors[scheme] for colors in chart.COLORS.values()}) == len(names)
    assert "@media (prefers-color-scheme: dark)" in chart.svg([line_result([1], [2])], "")


def test_the_short_chart_has_the_chosen_rows_in_its_own_order() -> None:
    rows = [replace(line_result([1], [2]), number=number) for number in ("1", "3", "13", "14b", "8")]
    assert [one.number for one in chart.selected(rows)] == ["13", "3", "8"]
