"""The contenders: another version of Penstock as a baseline."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from penstock import __version__
from penstock.apps.bench.compare.runs.contenders import BASELINE, CONTENDERS, baseline_contender
from penstock.apps.bench.compare.servers.install import CannotInstall
from penstock.apps.bench.compare.servers.penstock import Penstock


def test_the_baseline_is_penstock_from_another_interpreter(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.symlink_to(sys.executable)
    baseline = baseline_contender(python)
    assert baseline.launcher == Penstock(BASELINE, str(python))
    assert baseline._replace(launcher=CONTENDERS[0].launcher) == CONTENDERS[0], "with the same drivers"


def test_an_interpreter_without_penstock_is_reported(tmp_path: Path) -> None:
    assert Penstock(BASELINE, sys.executable).prepare() == __version__
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    with pytest.raises(CannotInstall, match="cannot import penstock"):
        Penstock(BASELINE, str(python)).prepare()
