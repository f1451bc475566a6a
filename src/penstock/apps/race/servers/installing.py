"""Fetches what a runner needs, once, into a cache outside the tree. Never leaves a half-made directory behind."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

INSTALL_S_MAX = 900
PATIENTLY = ("-o", "DPkg::Lock::Timeout=300")
"""Another apt may be at work, such as that of unattended upgrades."""
POLICY = Path("/usr/sbin/policy-rc.d")
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>penstock.race</groupId><artifactId>{name}</artifactId><version>1</version>
  <dependencies>{dependencies}</dependencies>
</project>
"""


class Missing(Exception):
    """A runner cannot be had here; the words say why."""


def cache_dir() -> Path:
    chosen = os.environ.get("PENSTOCK_CACHE_DIR")
    return (Path(chosen) if chosen else Path.home() / ".cache" / "penstock") / "race"


def run(*words: str, cwd: Path | None = None) -> None:
    """One step of an installation. Raises Missing with the end of what it printed."""
    try:
        done = subprocess.run(
            words,
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=INSTALL_S_MAX,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"{words[0]}: {error}") from error
    if done.returncode:
        raise Missing(
            f"{' '.join(words[:4])} … left with {done.returncode}: {(done.stdout + done.stderr)[-300:].strip()}"
        )


def prepared(name: str, key: str, build: Callable[[Path], None]) -> Path:
    """The directory that `build` fills, made once for each `key`."""
    target = cache_dir() / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=target.parent))
    try:
        build(scratch)
        scratch.rename(target)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    return target


def from_maven(name: str, artifacts: Sequence[str]) -> Path:
    """A directory with the jars of `group:artifact:version` and all they need."""
    mvn = shutil.which("mvn")
    if mvn is None:
        raise Missing("mvn is not installed")
    rows = []
    for artifact in artifacts:
        group, single, version = artifact.split(":")
        rows.append(
            f"<dependency><groupId>{group}</groupId><artifactId>{single}</artifactId><version>{version}</version></dependency>"
        )
    pom = POM.format(name=name, dependencies="".join(rows))

    def build(room: Path) -> None:
        (room / "pom.xml").write_text(pom)
        run(mvn, "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib", cwd=room)

    return prepared(name, pom, build) / "lib"


def from_pip(name: str, packages: Sequence[str]) -> Path:
    """A directory that holds the packages, to put on a path."""

    def build(room: Path) -> None:
        run(*pip_command(), "-q", "--target", str(room), *packages)

    return prepared(name, " ".join([*packages, sys.version]), build)


def pip_command() -> list[str]:
    """`pip install` for this Python. An environment that uv made has no pip of its own. Raises Missing."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install"]
    uv = shutil.which("uv")
    if uv is not None:
        return [uv, "pip", "install", "--python", sys.executable]
    for name in ("python3", "python"):
        # The Python that the environment was made of: the same version, so that it installs the same wheels.
        python = Path(sys.base_prefix) / "bin" / name
        if (
            python.exists()
            and not subprocess.run([python, "-c", "import pip"], capture_output=True).returncode
        ):
            return [str(python), "-m", "pip", "install"]
    raise Missing(f"{sys.executable} has no pip, and there is no uv: install one of them")


def from_debian(program: str, package: str) -> str:
    """The path of a program, installed by apt if it is missing; its service is not started."""
    found = shutil.which(program)
    if found is not None:
        return found
    if os.geteuid():
        raise Missing(f"{program} is not installed, and only root may: apt-get install {package}")
    is_ours = not POLICY.exists()
    if is_ours:
        POLICY.write_text("#!/bin/sh\nexit 101\n")
        POLICY.chmod(0o755)
    try:
        run("apt-get", "update", "-qq")
        run(
            "env",
            "DEBIAN_FRONTEND=noninteractive",
            "apt-get",
            *PATIENTLY,
            "install",
            "-y",
            "-qq",
            "--no-install-recommends",
            package,
        )
    finally:
        if is_ours:
            POLICY.unlink()
    found = shutil.which(program)
    if found is None:
        raise Missing(f"{package} is installed, but there is no {program}")
    return found
