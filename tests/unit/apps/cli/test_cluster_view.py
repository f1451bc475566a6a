"""What a command that starts a whole system tells its user."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.apps.cli import cluster_view
from penstock.apps.cli.cluster_view import ClusterShow, run_local_cluster
from penstock.apps.control.cluster_plan import ClusterPlan
from penstock.apps.control.system_settings import SystemSettings
from penstock.node.settings_loader import load_settings


@pytest.mark.parametrize("is_detached", [False, True])
def test_without_the_packages_of_the_services_brokers_start_alone(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    is_detached: bool,
) -> None:
    plans: list[ClusterPlan] = []

    def run_cluster(plan: ClusterPlan, *_: object, **__: object) -> int:
        plans.append(plan)
        return 0

    def run_detached(_: Path, run: Any) -> str:
        return str(run(lambda report: None))

    monkeypatch.setattr(cluster_view, "_SERVICE_PACKAGES", ("no_such_package",))
    monkeypatch.setattr(cluster_view, "run_cluster", run_cluster)
    monkeypatch.setattr(cluster_view, "run_detached", run_detached)
    loaded = load_settings(None, {}, {"data_dir": str(tmp_path), "port": 0})
    code = run_local_cluster(loaded, 2, ClusterShow(None), system=SystemSettings(), is_detached=is_detached)
    assert code == 0
    assert [len(plan.brokers) for plan in plans] == [2] and plans[0].services == ()
    told = capsys.readouterr().err
    assert "without the producer and consumer services, because no_such_package is not installed" in told
    assert "pip install '.[grpc]'" in told
