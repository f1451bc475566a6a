"""The result as text."""

from __future__ import annotations

from dataclasses import replace

from penstock.apps.bench.compare.report import result, tables
from unit.apps.bench.compare.sample_results import line_result, of_rows


def test_a_missed_target_is_reported() -> None:
    assert tables.verdict(line_result([10, 10], [20, 20], target=0.7)) == "0.50 × Redis, NOT met (≥ 0.7)"
    assert tables.verdict(line_result([16, 16], [20, 20], target=0.7)) == "0.80 × Redis, met (≥ 0.7)"
    assert tables.verdict(line_result([16], [20], target=0.7)) == "0.80 × Redis (one run), met (≥ 0.7)"


def test_the_page_names_missing_servers_and_failed_rows() -> None:
    missing, broken = {"RabbitMQ": "only root may install it"}, {"replay": "no disk"}
    page = tables.markdown(of_rows(line_result([30, 30], [20, 20]), missing=missing, broken=broken))
    assert "| # | row | unit | Penstock | Kafka | Redis | Penstock ÷ best peer |" in page
    assert "**RabbitMQ is not available**: only root may install it" in page
    assert "**replay failed**: no disk" in page
    assert "Row 1, NATS: not supported" in page


def test_targets_may_name_single_peers_or_an_absolute_bound() -> None:
    one = replace(line_result([10, 10], [20, 20], target=0.7), over={"Kafka": 5.0})
    assert tables.verdict(one) == "0.50 × Redis, NOT met (≥ 0.7); 10.00 × Kafka, met (≥ 5)"
    assert tables.verdict(replace(one, bound_max=9.0, over={})) == "NOT met (≤ 9)"
    assert tables.verdict(replace(one, bound_max=10.0)) == "met (≤ 10); 10.00 × Kafka, met (≥ 5)"
    assert tables.verdict(replace(one, bound_min=10.0, over={})) == "met (≥ 10)"
    assert tables.verdict(replace(one, bound_min=11.0, over={"NATS": 1.0})) == "NOT met (≥ 11)"


def test_the_worst_run_counts_where_a_promise_holds_for_every_run() -> None:
    one = replace(
        line_result([1, 2, 9], [4, 4, 4], more=False), bound_max=3.0, is_worst=True, over={"Redis": 1.0}
    )
    assert tables.cell(one, "Penstock") == "9 (worst)"
    assert tables.verdict(one) == "NOT met (≤ 3); 0.44 × Redis, NOT met (≥ 1)", "never inconclusive"
    nothing = replace(line_result([0, 0], [0, 0], more=False), bound_max=0.0, is_worst=True)
    assert tables.verdict(nothing) == "met (≤ 0)"


def test_the_page_shows_losses_costs_cold_runs_and_settings() -> None:
    one = replace(
        line_result([10, 10], [20, 20]), cold={"Penstock": 5.0, "Redis": 4.0}, size_bytes=100, why="Python is slow.",
        cpu_us={"Penstock": [7.0], "Redis": [2.0]},
    )  # fmt: skip
    found = of_rows(one)
    found.peers = {"Redis": result.Peer("7", {"appendonly yes": "its log"})}
    page = tables.markdown(found)
    assert "- **Row 1, a row**: 0.50 × Redis, NOT met (≥ 1). Python is slow. CPU time per message:" in page
    assert "| 1 | a row | msg/s | 5 → 10 | – | 4 → 20 |" in page
    assert "| 1 | a row | 7 µs, 70 s | – | 2 µs, 20 s |" in page
    assert "| Redis | 7 | `appendonly yes` | its log |" in page
    inconclusive = tables.markdown(of_rows(line_result([30, 50], [20, 20])))
    assert "- **Inconclusive, since runs vary too much**: rows 1." in inconclusive
