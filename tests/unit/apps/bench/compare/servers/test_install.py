"""Installation of brokers and clients."""

from __future__ import annotations

import importlib.machinery
import sys
from pathlib import Path

import pytest

from penstock.apps.bench.compare.servers.install import CannotInstall, pip_command, prepared, run


def test_a_failed_step_of_an_installation_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CannotInstall, match="no-such-program"):
        run("no-such-program")
    with pytest.raises(CannotInstall, match="exited with 3: not today"):
        run("sh", "-c", "echo not today; exit 3")
    monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(tmp_path))

    def fail(directory: Path) -> None:
        (directory / "half").touch()
        raise CannotInstall("half way")

    with pytest.raises(CannotInstall, match="half way"):
        prepared("thing", "1", fail)
    assert list((tmp_path / "race").iterdir()) == []
    created = prepared("thing", "1", lambda directory: (directory / "whole").touch())
    assert prepared("thing", "1", fail) == created


def test_of_several_processes_that_prepare_a_directory_the_first_one_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(tmp_path))

    def build(directory: Path) -> None:
        (directory / "second").touch()
        prepared("thing", "1", lambda first: (first / "first").touch())

    created = prepared("thing", "1", build)
    assert [one.name for one in created.iterdir()] == ["first"]
    assert list((tmp_path / "race").iterdir()) == [created]


def test_packages_are_installed_with_pip_or_uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`make setup` uses uv where there is one, and leaves no pip in the environment then."""
    found = {"pip": importlib.machinery.ModuleSpec("pip", None)}
    monkeypatch.setattr("importlib.util.find_spec", found.get)
    assert pip_command() == [sys.executable, "-m", "pip", "install"]
    found.clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.base_prefix", str(tmp_path))
    with pytest.raises(CannotInstall, match="has no pip, and uv is not installed"):
        pip_command()
    base = tmp_path / "bin" / "python3"
    base.parent.mkdir()
    base.write_text("#!/bin/sh\nexit 0\n")
    base.chmod(0o755)
    assert pip_command() == [str(base), "-m", "pip", "install"]
    (tmp_path / "uv").write_text("")
    (tmp_path / "uv").chmod(0o755)
    assert pip_command() == [str(tmp_path / "uv"), "pip", "install", "--python", sys.executable]
