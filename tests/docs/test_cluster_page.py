"""The page about clusters: its commands run, its ports are those of the plan, its settings and flags exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from pages import commands, is_same, parsed
from penstock.apps.cli.cluster_status import VIEWS
from penstock.apps.cli.main import cli
from penstock.apps.cluster_plan import PORTS, plan_cluster
from penstock.node.metrics.families import FAMILIES
from penstock.node.settings import DEFINITIONS
from penstock.node.settings_loader import load_settings
from penstock.testing import running_cluster

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "cluster.md").read_text("utf-8")

SECONDS_MAX = 120


def test_the_commands_for_one_machine_run_as_printed(tmp_path: Path) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    typed = commands("docs/cluster.md")
    assert typed
    with running_cluster(3, tmp_path) as cluster:
        environment = {**os.environ, "PATH": path, "PENSTOCK_BOOTSTRAP": cluster.bootstrap}
        for command, expected in typed:
            ran = subprocess.run(
                ["bash", "-c", command], capture_output=True, text=True, timeout=SECONDS_MAX, env=environment
            )
            assert ran.returncode == 0, f"{command}\n{ran.stdout}{ran.stderr}"
            assert not expected or is_same(parsed(expected), parsed(ran.stdout)), f"{command}\n{ran.stdout}"


def test_the_table_of_ports_is_what_the_plan_says() -> None:
    rows = [
        tuple(map(int, row))
        for row in re.findall(r"^\| (\d) " + r"\| (\d+) " * len(PORTS) + r"\|$", PAGE, re.M)
    ]
    plan = plan_cluster(load_settings(), 3)
    assert rows == [(one.settings.node_id, *one.ports.values()) for one in plan.brokers]
    assert f"The coordinator listens on {plan.coordinator_port} " in PAGE


def test_every_setting_of_a_cluster_is_on_the_page() -> None:
    names = [definition.name for definition in DEFINITIONS if definition.section == "cluster"]
    assert [name for name in names if f"| `{name}` |" not in PAGE] == []


def test_every_flag_on_the_page_exists() -> None:
    context = cli.make_context("penstock", [], resilient_parsing=True)
    start, cluster = (cli.get_command(context, name) for name in ("start", "cluster"))
    commands = [start, *getattr(cluster, "commands").values()]  # noqa: B009
    params = [param for command in commands for param in command.params]
    known = {flag for param in params for flag in (*param.opts, *param.secondary_opts)}
    ours = re.sub(r"^(etcdctl|\$) .*$", "", PAGE, flags=re.M)  # another program's, and those that are run
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", ours)) <= known


def test_every_command_and_metric_on_the_page_exists() -> None:
    context = cli.make_context("penstock", [], resilient_parsing=True)
    known = set(getattr(cli.get_command(context, "cluster"), "commands"))  # noqa: B009
    assert set(re.findall(r"`penstock cluster ([a-z]+)", PAGE)) <= known
    assert {view.name for view in VIEWS} <= set(re.findall(r"`penstock cluster ([a-z]+)` \|", PAGE))
    metrics = set(re.findall(r"`(penstock_[a-z_]+)", PAGE))
    assert metrics and metrics <= {family.name for family in FAMILIES}
