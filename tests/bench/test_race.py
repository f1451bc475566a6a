"""Parts of the race: a ratio is told only where it may be, every byte is counted, who is missing is named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from bench.race import chart, tables
from bench.race.lanes.kafka import KafkaLane
from bench.race.lanes.lane import ack_times_us, end_to_end_us, fan_out_s, ingest_s, replay_s
from bench.race.lanes.nats import Lines
from bench.race.payload import payload
from bench.race.servers.installing import Missing, prepared, run
from bench.race.standing import Standing

from penstock.testing import Broker, running_broker

FACTS = {"date": "today"}


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


def test_a_target_that_is_not_met_is_said() -> None:
    assert tables.verdict(standing([10, 10], [20, 20], target=0.7)) == "0.50 × Redis, NOT met (≥ 0.7)"
    assert tables.verdict(standing([16, 16], [20, 20], target=0.7)) == "0.80 × Redis, met (≥ 0.7)"


def test_the_page_names_everybody_who_ran_and_who_did_not() -> None:
    page = tables.markdown([standing([30, 30], [20, 20])], FACTS, {"RabbitMQ": "only root may install it"})
    assert "| # | row | unit | Penstock | Kafka | Redis | ours ÷ best |" in page
    assert "**RabbitMQ is missing**: only root may install it" in page
    assert "NATS did not run: it has no such thing" in page


def test_the_best_of_a_row_has_the_longest_bar() -> None:
    drawn = ElementTree.fromstring(chart.svg([standing([30, 30], [60, 60])], "a <race>"))
    bars = [one for one in drawn.iter("{http://www.w3.org/2000/svg}rect") if one.get("fill") != "white"]
    widths = [int(str(one.get("width"))) for one in bars]
    assert len(widths) == 3
    assert widths[2] == max(widths) == chart.BAR_PX
    assert widths[0] == pytest.approx(chart.BAR_PX / 2, abs=1)


def test_lines_are_counted_wherever_they_are_cut() -> None:
    content = b"MSG a 1 3\r\nxyz\r\n" * 50
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


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker(storage="memory") as running:
        yield running


def test_what_is_sent_over_the_lane_is_counted(broker: Broker) -> None:
    lane = KafkaLane((broker.host, broker.port), 100)
    lane.make_stream()
    feed = lane.feed()
    load = feed.load(50)
    assert ingest_s(feed, load, 2_000, 500) > 0
    assert len(ack_times_us(feed, 20)) == 20
    assert replay_s(lane.tail(from_start=True), 2_020) > 0
    tails = [lane.tail(from_start=False) for _ in range(3)]
    assert fan_out_s(feed, tails, feed.load(50), 1_000, 200) > 0
    times_us = end_to_end_us(feed, lane.tail(from_start=False), 200, 2_000)
    assert len(times_us) == 200
    assert min(times_us) > 0
