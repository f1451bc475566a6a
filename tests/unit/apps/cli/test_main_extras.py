"""A plain install has no extras: a command that needs one says which, and shows no traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.client.extras import EXTRAS

BLOCKED = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
from penstock.apps.cli.main import main
main()
"""


def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    blocked = EXTRAS.keys() - {"google"}  # shared with packages that every install has
    return subprocess.run(
        [sys.executable, "-c", BLOCKED.format(blocked=blocked), *words],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=cwd,
    )


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (("sql", "select 1"), "spark"),
        (("pipeline", "run", "--once"), "spark"),
        (("pipeline", "validate", "--offline"), "spark"),
        (("pipeline", "compact", "orders-lake"), "spark"),
        (("pipeline", "list"), "spark"),
        (("sub", "orders", "--avro", "pipelines.avsc"), "avro"),
    ],
    ids=str,
)
def test_one_line_names_the_extra(words: tuple[str, ...], extra: str, tmp_path: Path) -> None:
    if words[0] == "pipeline":
        assert run("pipeline", "init", str(tmp_path), cwd=tmp_path).returncode == 0
    (tmp_path / "pipelines.avsc").write_text('"string"')
    ran = run(*words, cwd=tmp_path)
    assert ran.returncode == 1 and "Traceback" not in ran.stderr, ran.stderr
    assert f"[{extra}]'" in ran.stderr and len(ran.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "words", [("--help",), ("start", "--help"), ("pipeline", "--help"), ("bench", "--help")]
)
def test_help_needs_no_extra(words: tuple[str, ...], tmp_path: Path) -> None:
    ran = run(*words, cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
