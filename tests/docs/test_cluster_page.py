"""The page about clusters: its commands run, its ports are those of the plan, its settings and flags exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from e2e.cluster_up import cluster_up
from pages import ROOT, commands, run_commands
from penstock.apps.cli.cluster_status import VIEWS
from penstock.apps.cli.main import cli
from penstock.apps.control.cluster_plan import PORTS, plan_cluster
from penstock.apps.control.system_settings import SystemSettings, load_system
from penstock.node.metrics.families import FAMILIES
from penstock.node.settings import DEFINITIONS
from penstock.node.settings_loader import load_settings

PAGE = (ROOT / "docs" / "cluster.md").read_text("utf-8")
OPERATIONS = (ROOT / "docs" / "operations.md").read_text("utf-8")


def test_the_commands_for_one_machine_run_as_printed(tmp_path: Path) -> None:
    with cluster_up(tmp_path, brokers=3) as up:
        readme = commands("README.md", "Several brokers")
        run_commands([*readme, *commands("docs/cluster.md")], up.ready["bootstrap"], tmp_path)


def test_the_table_of_ports_is_what_the_plan_says() -> None:
    rows = [
        tuple(map(int, row))
        for row in re.findall(r"^\| (\d) " + r"\| (\d+) " * len(PORTS) + r"\|$", PAGE, re.M)
    ]
    plan = plan_cluster(load_settings(), 3, system=SystemSettings())
    assert rows == [(one.settings.node_id, *one.ports.values()) for one in plan.brokers]
    assert f"| metadata process, on loopback only | {plan.coordinator_port} |" in PAGE
    for service in plan.services:
        assert f"| {service.name} service (gRPC) | {service.port} |" in PAGE
    assert f"loopback only | {plan.system.api_port}, {plan.system.console_port} |" in PAGE


def test_the_settings_file_on_the_page_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(re.findall(r"```yaml\n(.*?)```", PAGE, re.S)[0])
    loaded, system = load_system(str(tmp_path / "config.yaml"), {}, {})
    assert (system.broker_count, loaded.settings.default_replication_factor) == (5, 2)


def test_every_setting_of_a_cluster_is_on_the_page() -> None:
    names = [definition.name for definition in DEFINITIONS if definition.section == "cluster"]
    rows = " ".join(re.findall(r"^\| (`.*?`) \|", PAGE, re.M))
    assert [name for name in names if f"`{name}`" not in rows] == []


@pytest.mark.parametrize("page", [PAGE, OPERATIONS], ids=["cluster", "operations"])
def test_every_flag_on_the_page_exists(page: str) -> None:
    context = cli.make_context("penstock", [], resilient_parsing=True)
    start, *groups = (cli.get_command(context, name) for name in ("start", "cluster", "topic", "group"))
    commands = [start, *(one for group in groups for one in getattr(group, "commands").values())]  # noqa: B009
    params = [param for command in commands for param in command.params]
    known = {flag for param in params for flag in (*param.opts, *param.secondary_opts)}
    ours = re.sub(
        r"(`?etcdctl|^\$) .*\n(  .*\n)?", "", page, flags=re.M
    )  # another program's, and those that are run
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", ours)) <= known


@pytest.mark.parametrize("page", [PAGE, OPERATIONS], ids=["cluster", "operations"])
def test_every_command_and_metric_on_the_page_exists(page: str) -> None:
    context = cli.make_context("penstock", [], resilient_parsing=True)
    known = set(getattr(cli.get_command(context, "cluster"), "commands"))  # noqa: B009
    assert set(re.findall(r"`penstock cluster ([a-z]+)", page)) <= known
    metrics = set(re.findall(r"`(penstock_[a-z_]+)", page))
    assert metrics and metrics <= {family.name for family in FAMILIES}


def test_every_view_of_the_cluster_is_in_the_table() -> None:
    assert {view.name for view in VIEWS} <= set(re.findall(r"`penstock cluster ([a-z]+)` \|", PAGE))
