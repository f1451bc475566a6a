"""A new user: installs Penstock from a clone as README says, starts it, publishes and reads."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from conditions import until
from pages import ROOT, commands, fences

INSTALL_S_MAX = 900
COMMAND_S_MAX = 120


def clone(target: Path) -> None:
    """The files that a clone would have, also those that are not committed yet."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)


@pytest.mark.slow
@pytest.mark.timeout(INSTALL_S_MAX + 300)
def test_install_start_publish_and_read(tmp_path: Path) -> None:
    home = tmp_path / "clone"
    clone(home)
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    variables |= {"PIP_CONSTRAINT": str(ROOT / "constraints.txt"), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    variables |= {f"PENSTOCK_{door}PORT": "0" for door in ("", "QUEUE_", "TEXT_", "JSON_", "HTTP_")}

    def type_in(script: str, seconds_max: float = COMMAND_S_MAX) -> str:
        ran = subprocess.run(
            ["bash", "-euc", script],
            cwd=home,
            env=variables,
            capture_output=True,
            text=True,
            timeout=seconds_max,
        )
        assert ran.returncode == 0, f"{script}\n{ran.stdout[-3000:]}{ran.stderr[-3000:]}"
        return ran.stdout

    install, start = (block for language, block in fences("README.md")[:2] if language == "bash")
    version = type_in(install, INSTALL_S_MAX).splitlines()[-1]
    assert re.search(r"\d+\.\d+\.\d+", version), version
    activate = "source .venv/bin/activate\n"
    ready = tmp_path / "ready.json"
    started = f"{activate}exec {start.strip()} --ready-file {ready}"
    broker = subprocess.Popen(["bash", "-euc", started], cwd=home, env=variables)
    try:
        until(lambda: ready.exists() or broker.poll() is not None, "the broker does not get ready")
        variables["PENSTOCK_BOOTSTRAP"] = f"127.0.0.1:{json.loads(ready.read_text())['port']}"
        for command, expected in commands("README.md", "Start in 60 seconds"):
            printed = type_in(activate + command)
            assert not expected or printed == expected, command
        broker.send_signal(signal.SIGINT)
        assert broker.wait(COMMAND_S_MAX) == 0
        assert (home / "penstock-data").is_dir()
    finally:
        broker.kill()
        broker.wait()
