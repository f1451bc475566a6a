"""Installs what a broker or client needs, once, into a cache outside the repository. Directories appear atomically."""

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
"""Unattended upgrades or another apt may hold the lock."""
POLICY = Path("/usr/sbin/policy-rc.d")
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>penstock.race</groupId><artifactId>{name}</artifactId><version>1</version>
  <dependencies>{dependencies}</dependencies>
</project>
"""


class CannotInstall(Exception):
    """A broker or client cannot be installed here; the message says why."""


def cache_dir() -> Path:
    """The name comes from `make race`; another one would discard existing downloads."""
    chosen = os.environ.get("PENSTOCK_CACHE_DIR")
    return (Path(chosen) if chosen else Path.home() / ".cache" / "penstock") / "race"


def run(*command: str, cwd: Path | None = None) -> None:
    """Run one step of an installation. Raises CannotInstall with the end of its output."""
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=INSTALL_S_MAX,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotInstall(f"{command[0]}: {error}") from error
    if done.returncode:
        raise CannotInstall(
            f"{' '.join(command[:4])} … exited with {done.returncode}: {(done.stdout + done.stderr)[-300:].strip()}"
        )


def prepared(name: str, key: str, build: Callable[[Path], None]) -> Path:
    """The directory that `build` fills, created once per `key`. Of several processes, the first one creates it."""
    target = cache_dir() / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=target.parent))
    try:
        build(scratch)
        try:
            scratch.rename(target)
        except OSError:
            if not target.exists():
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target


def from_maven(name: str, artifacts: Sequence[str]) -> Path:
    """A directory with the jars of `group:artifact:version` and their dependencies."""
    mvn = shutil.which("mvn")
    if mvn is None:
        raise CannotInstall("mvn is not installed")
    rows = []
    for artifact in artifacts:
        group, single, version = artifact.split(":")
        rows.append(
            f"<dependency><groupId>{group}</groupId><artifactId>{single}</artifactId><version>{version}</version></dependency>"
        )
    pom = POM.format(name=name, dependencies="".join(rows))

    def build(directory: Path) -> None:
        (directory / "pom.xml").write_text(pom)
        run(mvn, "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib", cwd=directory)

    return prepared(name, pom, build) / "lib"


def from_pip(name: str, packages: Sequence[str]) -> Path:
    """A directory with the packages, for the Python path."""

    def build(directory: Path) -> None:
        run(*pip_command(), "-q", "--target", str(directory), *packages)

    return prepared(name, " ".join([*packages, sys.version]), build)


def pip_command() -> list[str]:
    """`pip install` for this Python; environments created by uv do not contain pip. Raises CannotInstall."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install"]
    uv = shutil.which("uv")
    if uv is not None:
        return [uv, "pip", "install", "--python", sys.executable]
    for name in ("python3", "python"):
        # The base interpreter of the environment has the same version, so it installs the same wheels.
        python = Path(sys.base_prefix) / "bin" / name
        if (
            python.exists()
            and not subprocess.run([python, "-c", "import pip"], capture_output=True).returncode
        ):
            return [str(python), "-m", "pip", "install"]
    raise CannotInstall(f"{sys.executable} has no pip, and uv is not installed: install one of them")


def from_debian(program: str, package: str) -> str:
    """The path of a program, installed with apt if missing, without starting its service."""
    found = shutil.which(program)
    if found is not None:
        return found
    if os.geteuid():
        raise CannotInstall(f"{program} is not installed; run as root: apt-get install {package}")
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
        raise CannotInstall(f"{package} is installed, but {program} was not found")
    return found
