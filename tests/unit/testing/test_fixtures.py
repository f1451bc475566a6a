"""The pytest plugin as a project has it: pytest in a process of its own, the plugin found by its entry point."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[3]
RUN_S_MAX = 120
OTHERS = ("schemathesis", "hypothesispytest", "anyio", "xdist", "cacheprovider")


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project next to an installed Penstock: the entry points are those of pyproject.toml."""
    entry_points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    installed = pytester.mkdir("installed")
    about = installed / "penstock_as_installed-0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: penstock-as-installed\nVersion: 0\n")
    rows = [f"{name} = {module}\n" for name, module in entry_points.items()]
    (about / "entry_points.txt").write_text("[pytest11]\n" + "".join(rows))
    monkeypatch.setenv("PYTHONPATH", f"{installed}:{ROOT / 'src'}")
    return pytester


def run(project: pytest.Pytester) -> pytest.RunResult:
    """The other plugins that happen to be installed are left out: they take seconds to load."""
    others = [word for name in OTHERS for word in ("-p", f"no:{name}")]
    return project.runpytest_subprocess(*others, timeout=RUN_S_MAX)


def test_fresh_brokers_factories_and_deaths(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import os, signal
        import pytest
        from penstock import Producer

        @pytest.mark.parametrize("turn", [1, 2])
        def test_a_broker_of_its_own_for_each_test(penstock, turn):
            with Producer(bootstrap=penstock.bootstrap) as producer:
                assert producer.send_and_wait("orders", b"hi").offset == 0

        def test_a_factory_for_more_than_one_and_for_restarts(penstock_factory, tmp_path):
            kept = penstock_factory(tmp_path, storage="disk", log_format="json")
            other = penstock_factory()
            assert kept.bootstrap != other.bootstrap
            kept.kill()
            kept.start()
            assert (tmp_path / "data" / "node.json").exists()

        def test_a_broker_that_died_is_an_error_of_the_test(penstock):
            os.kill(penstock.pid, signal.SIGKILL)
            os.waitid(os.P_PID, penstock.pid, os.WEXITED | os.WNOWAIT)
        """
    )
    ran = run(project)
    ran.assert_outcomes(passed=4, errors=1)
    ran.stdout.fnmatch_lines("*BrokerDied*")


def test_one_broker_for_a_module_on_disk(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\npenstock_scope = module\npenstock_storage = disk\n")
    project.makepyfile(
        """
        seen = []

        def test_first(penstock):
            assert (penstock.data_dir / "node.json").exists()
            seen.append(penstock.pid)

        def test_second(penstock):
            assert seen == [penstock.pid]
        """
    )
    run(project).assert_outcomes(passed=2)


def test_a_cluster_for_a_module(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\npenstock_scope = module\npenstock_brokers = 2\n")
    project.makepyfile(
        """
        seen = []

        def test_first(penstock_cluster):
            assert penstock_cluster.bootstrap.count(":") == 2
            penstock_cluster.broker(2).kill()
            penstock_cluster.broker(2).start()
            seen.append(penstock_cluster.coordinator.pid)

        def test_second(penstock_cluster):
            assert seen == [penstock_cluster.coordinator.pid]
        """
    )
    run(project).assert_outcomes(passed=2)


@pytest.mark.parametrize(
    "line",
    ["penstock_scope = week", "penstock_storage = tape", "penstock_brokers = 0", "penstock_brokers = few"],
)
def test_a_wrong_setting_is_one_sentence(project: pytest.Pytester, line: str) -> None:
    project.makeini(f"[pytest]\n{line}\n")
    ran = run(project)
    assert ran.ret is pytest.ExitCode.USAGE_ERROR
    name, value = line.split(" = ")
    ran.stderr.fnmatch_lines(f"*invalid {name} '{value}': expected *")
