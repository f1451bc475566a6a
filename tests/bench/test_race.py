"""Parts of the comparison: when a ratio is refused, what a broken lap or row leaves, resuming, pages and charts."""

from __future__ import annotations

import importlib.machinery
import io
import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from penstock.apps.race import chart, contest, outcome, result, tables
from penstock.apps.race.course import Course
from penstock.apps.race.entrants import ENTRANTS, Entrant
from penstock.apps.race.lanes.kafka import KafkaLane
from penstock.apps.race.lanes.lane import ack_times_us, end_to_end_us, fan_out_rate, ingest_rate, replay_rate
from penstock.apps.race.lanes.nats import Lines, new_inbox
from penstock.apps.race.lanes.pace import Pace, best_percentile
from penstock.apps.race.payload import payload
from penstock.apps.race.servers.installing import Missing, pip_command, prepared, run
from penstock.apps.race.servers.process import ServerProcess
from penstock.apps.race.servers.runner import Promise
from penstock.apps.race.standing import Standing
from penstock.testing import Broker, running_broker

FACTS = {"date": "today"}


def of_rows(*standings: Standing, **more: dict[str, str]) -> outcome.Outcome:
    found = outcome.Outcome(dict(FACTS), **more)
    found.rows["a-row"] = outcome.RowResult("today", list(standings))
    return found


def standing(ours: list[float], theirs: list[float], *, more: bool = True, target: float = 1.0) -> Standing:
    samples = {"Penstock": ours, "Kafka": [1.0, 1.0], "Redis": theirs}
    return Standing("1", "a row", "msg/s", samples, more, target, {"NATS": "it has no such thing"})


def test_a_ratio_is_ours_to_the_best_of_the_others() -> None:
    assert standing([30, 30], [20, 20]).ratio == 1.5
    assert standing([30, 30], [20, 20]).best_peer == "Redis"
    assert standing([2, 2], [4, 4], more=False).best_peer == "Kafka"
    assert standing([2, 2], [4, 4], more=False).ratio == 0.5


def test_a_ratio_is_refused_when_laps_lie_too_far_apart() -> None:
    one = standing([30, 50], [20, 20])
    assert one.ratio is None
    assert one.noisy == ["Penstock"]
    assert "refused: laps of Penstock" in tables.verdict(one)
    assert standing([30, 31], [20, 30]).noisy == ["Redis"]


def test_what_is_sure_is_told_even_when_laps_lie_too_far_apart() -> None:
    assert tables.verdict(standing([30, 50], [20, 10])).endswith(
        "; our worst lap is 1.50 × the best of Redis"
    )
    assert "our worst lap" not in tables.verdict(standing([30, 50], [20, 40]))
    less = standing([2, 3], [4, 9], more=False)
    assert less.least_ratio_to("Redis") == 4 / 3


def test_the_quickest_piece_of_a_lap_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock_s = iter([0, 1, 3, 4])
    monkeypatch.setattr("time.perf_counter_ns", lambda: next(clock_s) * 1_000_000_000)
    pace = Pace(50)
    for done in (5, 10, 12, 30, 41):
        pace.reached(done)
    assert pace.best_rate == 11, "10 in one second, 20 in two, 11 in one"


def test_a_percentile_is_that_of_the_quietest_piece() -> None:
    times = [9.0] * 20 + [5.0] * 18 + [7.0, 8.0] + [6.0] * 60
    assert best_percentile(times, 0.5) == 5
    assert best_percentile(times, 0.99) == 6
    assert best_percentile([4.0, 3.0], 0.5) == 3


def test_a_target_that_is_not_met_is_said() -> None:
    assert tables.verdict(standing([10, 10], [20, 20], target=0.7)) == "0.50 × Redis, NOT met (≥ 0.7)"
    assert tables.verdict(standing([16, 16], [20, 20], target=0.7)) == "0.80 × Redis, met (≥ 0.7)"
    assert tables.verdict(standing([16], [20], target=0.7)) == "0.80 × Redis (one lap), met (≥ 0.7)"


def test_the_page_names_everybody_who_ran_and_who_did_not() -> None:
    missing, broken = {"RabbitMQ": "only root may install it"}, {"replay": "no disk"}
    page = tables.markdown(of_rows(standing([30, 30], [20, 20]), missing=missing, broken=broken))
    assert "| # | row | unit | Penstock | Kafka | Redis | ours ÷ best |" in page
    assert "**RabbitMQ is missing**: only root may install it" in page
    assert "**replay could not be run**: no disk" in page
    assert "Row 1, NATS: it has no such thing" in page


def test_some_must_be_beaten_besides_the_best_and_some_bounds_are_ours_alone() -> None:
    one = replace(standing([10, 10], [20, 20], target=0.7), over={"Kafka": 5.0})
    assert tables.verdict(one) == "0.50 × Redis, NOT met (≥ 0.7); 10.00 × Kafka, met (≥ 5)"
    assert tables.verdict(replace(one, bound_max=9.0)) == "NOT met (≤ 9)"
    assert tables.verdict(replace(one, bound_max=10.0)) == "met (≤ 10)"


def test_one_lap_of_five_that_went_wrong_does_not_make_the_others_worthless() -> None:
    assert standing([30, 31, 32, 33, 3], [20] * 5).ratio == 31 / 20
    assert standing([30, 31, 32, 3, 3], [20] * 5).noisy == ["Penstock"]


def test_a_row_that_breaks_does_not_end_the_race(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_course: Course) -> list[Standing]:
        raise Missing("no such package")

    monkeypatch.setitem(contest.ROWS, "replay", broken)
    monkeypatch.setitem(contest.ROWS, "fan-out", lambda _course: [standing([30, 30], [20, 20])])
    told = io.StringIO()
    seen: list[int] = []
    found = contest.hold_race(
        Console(file=told, width=200), ["replay", "fan-out"], "", lambda out: seen.append(len(out.standings)),
        is_quick=True,
    )  # fmt: skip
    assert found.broken == {"replay": "Missing: no such package"}
    assert seen == [0, 1], "there is a result after every row"
    assert "replay broke: Missing: no such package" in told.getvalue()
    assert "1.50 × Redis, met (≥ 1)" in told.getvalue()


def test_a_run_that_is_terminated_ends_its_servers_and_keeps_the_rows_before(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    processes: list[ServerProcess] = []

    def ended(course: Course) -> list[Standing]:
        course.fleet.choose(Promise.OS)
        server, _ = course.fleet.take(course.entrants[0])
        processes.append(server.process)
        course.fleet.pause_all()
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("SIGTERM came first")

    rows = {"one": lambda _course: [standing([30, 30], [20, 20])], "two": ended}
    monkeypatch.setattr(contest, "ROWS", rows)
    monkeypatch.setattr(contest, "loader_ceiling", lambda _course: "")
    with pytest.raises(SystemExit):
        contest.hold_race(
            Console(file=io.StringIO()), [], "", lambda out: result.write_files(tmp_path, out), is_quick=True
        )
    assert [one.is_running for one in processes] == [False]
    found = outcome.read(tmp_path / "race.json")
    assert found is not None and list(found.rows) == ["one"]


def test_a_run_is_resumed_and_single_rows_are_merged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ran: list[str] = []

    def measure(name: str) -> contest.Measure:
        def run(_course: Course) -> list[Standing]:
            ran.append(name)
            return [standing([30, 30], [20, 20])]

        return run

    monkeypatch.setattr(contest, "ROWS", {name: measure(name) for name in ("one", "two", "three")})
    monkeypatch.setattr(contest, "loader_ceiling", lambda _course: "")

    def hold(*rows: str, resumed: bool = False, quick: bool = False) -> outcome.Outcome:
        before = outcome.read(tmp_path / "race.json")
        return contest.hold_race(
            Console(file=io.StringIO()), rows, "", lambda out: result.write_files(tmp_path, out),
            is_quick=quick, before=before, is_resumed=resumed,
        )  # fmt: skip

    hold("two")
    assert list(hold(resumed=True).rows) == ["two", "one", "three"]
    assert ran == ["two", "one", "three"]
    assert list(hold("three").rows) == ["two", "one", "three"], "the rows that were not named stay"
    assert ran == ["two", "one", "three", "three"]
    assert list(hold("one", quick=True).rows) == ["one"], "a quick run does not mix with a full one"


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    one = replace(standing([30, 30], [20, 20]), cold={"Kafka": 1.0}, cpu_us={"Kafka": [2.0]}, size_bytes=100)
    found = of_rows(one)
    found.peers = {"Kafka": outcome.Peer("4", {"heap": "6g"})}
    result.write_data(tmp_path, found)
    assert outcome.read(tmp_path / "race.json") == found
    assert outcome.read(tmp_path / "no.json") is None
    (tmp_path / "race.json").write_text('{"rows": []}')
    assert outcome.read(tmp_path / "race.json") is None, "an older form"


def test_the_page_shows_losses_costs_cold_laps_and_settings() -> None:
    one = replace(
        standing([10, 10], [20, 20]), cold={"Penstock": 5.0, "Redis": 4.0}, size_bytes=100, why="Python is slow.",
        cpu_us={"Penstock": [7.0], "Redis": [2.0]},
    )  # fmt: skip
    found = of_rows(one)
    found.peers = {"Redis": outcome.Peer("7", {"appendonly yes": "its log"})}
    page = tables.markdown(found)
    assert (
        "- **Row 1, a row**: 0.50 × Redis, NOT met (≥ 1). Python is slow. CPU time per message in this run:"
        in page
    )
    assert "| 1 | a row | msg/s | 5 → 10 | – | 4 → 20 |" in page
    assert "| 1 | a row | 7 µs, 70 s | – | 2 µs, 20 s |" in page
    assert "| Redis | 7 | `appendonly yes` | its log |" in page
    refused = tables.markdown(of_rows(standing([30, 50], [20, 20])))
    assert "- **Refused by the rule of spread**: rows 1." in refused


def test_the_result_has_its_place_in_a_page_and_leaves_the_rest_alone(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    page.write_text("# By hand\n<!-- race: begin -->\nold\n<!-- race: end -->\n\n## Why\n")
    found = of_rows(standing([30, 30], [20, 20]))
    for _ in range(2):
        result.write_page(page, found)
    text = page.read_text()
    assert text.startswith("# By hand\n<!-- race: begin -->\nRun of today.\n")
    assert text.endswith("<!-- race: end -->\n\n## Why\n")
    assert "\nold\n" not in text
    assert text.count("| 1 | a row | msg/s | 30 ±0%") == 1
    data = json.loads((tmp_path / "benchmarks" / "race.json").read_text())
    assert data["rows"][0]["standings"][0]["derived"]["ratio"] == 1.5
    written = sorted(one.name for one in (tmp_path / "benchmarks").iterdir())
    assert written == ["race-full.svg", "race.json", "race.svg"]
    page.write_text("no marks")
    with pytest.raises(result.NoPlace, match="has no place for the result"):
        result.write_page(page, found)


def bars(drawn: str) -> list[ElementTree.Element]:
    rects = ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}rect")
    return [one for one in rects if str(one.get("class")).startswith("bar ")]


def test_the_best_of_a_row_has_the_longest_bar() -> None:
    widths = [
        int(str(one.get("width"))) for one in bars(chart.svg([standing([30, 30], [60, 60])], "a <race>"))
    ]
    assert len(widths) == 3
    assert widths[2] == max(widths) == chart.BAR_PX
    assert widths[0] == pytest.approx(chart.BAR_PX / 2, abs=1)


def test_texts_lie_inside_the_chart_and_beside_the_bars() -> None:
    long = replace(standing([8_352_772.0] * 2, [60, 60]), row="x" * 60)
    drawn = chart.svg([long], "a race")
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


def test_peers_have_colors_of_their_own_in_light_and_dark() -> None:
    names = {one.runner.name for one in ENTRANTS}
    assert set(chart.COLORS) == names
    for scheme in (0, 1):
        assert len({colors[scheme] for colors in chart.COLORS.values()}) == len(names)
    assert "@media (prefers-color-scheme: dark)" in chart.svg([standing([1], [2])], "")


def test_the_short_chart_has_the_chosen_rows_in_its_own_order() -> None:
    rows = [replace(standing([1], [2]), number=number) for number in ("1", "3", "13", "14b", "8")]
    assert [one.number for one in chart.selected(rows)] == ["13", "3", "8"]


def test_every_reader_of_nats_has_an_inbox_of_its_own() -> None:
    assert len({new_inbox() for _ in range(8)}) == 8


def test_lines_are_counted_wherever_they_are_cut() -> None:
    content = b"MSG a 1 3\r\nxyz\r\n" * 20 + b"PING\r\n" + b"MSG a 1 3\r\nxyz\r\n" * 30
    for cut in range(1, 40):
        lines = Lines()
        pieces = [content[at : at + cut] for at in range(0, len(content), cut)]
        assert sum(lines.messages(memoryview(piece)) for piece in pieces) == 50


def test_a_payload_is_the_same_for_all_and_holds_no_line_end() -> None:
    assert payload(1024) == payload(1024)
    assert len(payload(100)) == 100
    assert payload(1 << 16).isalnum()


def test_a_step_of_installing_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Missing, match="no-such-program"):
        run("no-such-program")
    with pytest.raises(Missing, match="left with 3: not today"):
        run("sh", "-c", "echo not today; exit 3")
    monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(tmp_path))

    def fail(room: Path) -> None:
        (room / "half").touch()
        raise Missing("half way")

    with pytest.raises(Missing, match="half way"):
        prepared("thing", "1", fail)
    assert list((tmp_path / "race").iterdir()) == []
    made = prepared("thing", "1", lambda room: (room / "whole").touch())
    assert prepared("thing", "1", fail) == made


ADDRESSES = re.compile(
    r"listen|stream\.listen|advertised|controller\.(quorum|listener)|node\.id|log\.dirs|store_dir"
    r"|(bind|port|queue-port|dir|data-dir|ready-file)$"
)
"""Where a server listens and keeps its data, and its name there: nothing that changes a figure."""


@pytest.mark.parametrize("entrant", ENTRANTS, ids=lambda one: one.runner.name)
def test_every_setting_of_a_server_is_in_the_result(
    entrant: Entrant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: set[str] = set()

    class Noted:
        def __init__(self, words: list[object], home: Path, *_: object, **__: object) -> None:
            given.update(re.findall(r"--([a-z-]+)", " ".join(map(str, words))))
            self._home = home

        def await_ready(self, _is_ready: object) -> None:
            (self._home / "ready.json").write_text("{}")

    module = sys.modules[type(entrant.runner).__module__]
    monkeypatch.setattr(module, "ServerProcess", Noted)
    for name in ("from_debian", "from_pip", "from_maven", "_formatted"):
        monkeypatch.setattr(module, name, lambda *_: tmp_path / "cache", raising=False)
    (tmp_path / "cache" / "data").mkdir(parents=True)
    for promise in Promise:
        home = tmp_path / promise
        home.mkdir()
        entrant.runner.start(home, 0, promise)
        for file in (*home.glob("*.conf"), *home.glob("*.properties")):
            given.update(re.findall(r"[a-z][a-z_.]+(?=: | ?=|\.1 =)", file.read_text()))
    told = " ".join(entrant.runner.settings)
    assert given
    assert [name for name in sorted(given) if name not in told and not ADDRESSES.match(name)] == []


def test_packages_are_installed_with_whatever_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`make setup` uses uv where there is one, and leaves no pip in the environment then."""
    found = {"pip": importlib.machinery.ModuleSpec("pip", None)}
    monkeypatch.setattr("importlib.util.find_spec", found.get)
    assert pip_command() == [sys.executable, "-m", "pip", "install"]
    found.clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.base_prefix", str(tmp_path))
    with pytest.raises(Missing, match="has no pip, and there is no uv"):
        pip_command()
    base = tmp_path / "bin" / "python3"
    base.parent.mkdir()
    base.write_text("#!/bin/sh\nexit 0\n")
    base.chmod(0o755)
    assert pip_command() == [str(base), "-m", "pip", "install"]
    (tmp_path / "uv").write_text("")
    (tmp_path / "uv").chmod(0o755)
    assert pip_command() == [str(tmp_path / "uv"), "pip", "install", "--python", sys.executable]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker(storage="memory") as running:
        yield running


def test_what_is_sent_over_the_lane_is_counted(broker: Broker) -> None:
    lane = KafkaLane((broker.host, broker.port), 100, "race")
    lane.make_stream()
    feed = lane.feed()
    load = feed.load(50)
    assert ingest_rate(feed, load, 2_000, 500) > 0
    assert len(ack_times_us(feed, 20)) == 20
    assert replay_rate(lane.tail(from_start=True), 2_020) > 0
    tails = [lane.tail(from_start=False) for _ in range(3)]
    assert fan_out_rate(feed, tails, feed.load(50), 1_000, 200) > 0
    times_us = end_to_end_us(feed, lane.tail(from_start=False), 200, 2_000)
    assert len(times_us) == 200
    assert min(times_us) > 0
