"""Makes the Java, Node and Go clients runnable: fetches libraries once into a cache, compiles what must be.

Never writes into the source tree: the cache is `.cache/` of the repository, or $PENSTOCK_CACHE_DIR.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from compat.vocabulary import MissingRuntime

HERE = Path(__file__).resolve().parent
FETCH_S_MAX = 280


def cache_dir() -> Path:
    return Path(os.environ.get("PENSTOCK_CACHE_DIR") or HERE.parents[1] / ".cache") / "compat"


def _program(name: str, package: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise MissingRuntime(f"{name} is not installed: `apt install {package}`")
    return found


def _run(*command: str, cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=FETCH_S_MAX, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} left with {done.returncode}\n{done.stdout}\n{done.stderr}")


def _prepared(kind: str, inputs: list[Path], build: Callable[[Path], None]) -> Path:
    """The directory that `build` fills, made once per content of `inputs`; complete or absent."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in inputs)).hexdigest()[:16]
    target = cache_dir() / f"{kind}-{digest}"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{kind}-", dir=target.parent) as scratch:
        build(Path(scratch))
        try:
            shutil.copytree(scratch, f"{scratch}.done")
            Path(f"{scratch}.done").rename(target)
        except OSError:
            shutil.rmtree(f"{scratch}.done", ignore_errors=True)
            if not target.exists():
                raise
    return target


def maven_jars(pom: Path) -> Path:
    """All jars that a pom names, in one directory."""
    mvn = _program("mvn", "maven")

    def build(room: Path) -> None:
        shutil.copy(pom, room / "pom.xml")
        _run(mvn, "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={room / 'lib'}", cwd=room)

    return _prepared("jars", [pom], build) / "lib"


def java_command(*arguments: str, program: str = "Driver", home: str = "java") -> list[str]:
    """The command that runs a Java program of ours, by default the driver, which wants the broker's address."""
    java, javac = _program("java", "default-jdk-headless"), _program("javac", "default-jdk-headless")
    pom, source = HERE / home / "pom.xml", HERE / home / f"{program}.java"
    jars = f"{maven_jars(pom)}/*"
    classes = _prepared(
        "classes",
        [pom, source],
        lambda room: _run(javac, "-nowarn", "-cp", jars, "-d", str(room), str(source), cwd=room),
    )
    quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m"]
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    return [java, *quick, quiet, "-cp", f"{classes}{os.pathsep}{jars}", program, *arguments]


def node_command(bootstrap: str, *arguments: str, program: str = "driver") -> list[str]:
    """The command that runs a Node program of ours, by default the driver, against a broker."""
    node, npm = _program("node", "nodejs"), _program("npm", "npm")
    files = [HERE / "node" / "package.json", HERE / "node" / "package-lock.json"]

    def build(room: Path) -> None:
        for path in files:
            shutil.copy(path, room)
        _run(npm, "ci", "--no-audit", "--no-fund", cwd=room)

    script = str(HERE / "node" / f"{program}.mjs")
    return [node, script, bootstrap, str(_prepared("node", files, build)), *arguments]


def go_command(*arguments: str, program: str) -> list[str]:
    """The command that runs a Go program of ours."""
    go = _program("go", "golang-go")
    files = [HERE / "go" / name for name in ("go.mod", "go.sum", f"{program}.go")]

    def build(room: Path) -> None:
        for path in files:
            shutil.copy(path, room)
        _run(go, "build", "-o", program, ".", cwd=room)

    return [str(_prepared("go", files, build) / program), *arguments]
