"""Makes the Java, Node and Go clients runnable: fetches libraries once into a cache, compiles what must be.

Processes that need the same thing at the same time wait for the one that makes it. Never writes into the source tree:
the cache is `.cache/` of the repository, or $PENSTOCK_CACHE_DIR.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from compat.vocabulary import MissingRuntime

HERE = Path(__file__).resolve().parent
FETCH_S_MAX = 280
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m")
"""A Java for a short life: it compiles quickly, and leaves the cores to others."""
ARCHIVED = ("org/apache/kafka/clients/", "org/apache/kafka/common/", "com/fasterxml/jackson/", "org/slf4j/")
"""Packages whose classes are archived: what every program loads."""
GO_PLUGINS = {
    "go": "google.golang.org/protobuf/cmd/protoc-gen-go",
    "go-grpc": "google.golang.org/grpc/cmd/protoc-gen-go-grpc",
}
"""Plugins of protoc that write Go; their versions are in go_grpc/go.mod."""


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
    with target.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            scratch = Path(tempfile.mkdtemp(prefix=f"{kind}-", dir=target.parent))
            try:
                build(scratch)
                scratch.rename(target)
            except BaseException:
                shutil.rmtree(scratch, ignore_errors=True)
                raise
    return target


def maven_jars(pom: Path) -> Path:
    """All jars that a pom names, in one directory."""
    mvn = _program("mvn", "maven")

    def build(room: Path) -> None:
        shutil.copy(pom, room / "pom.xml")
        _run(mvn, "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={room / 'lib'}", cwd=room)

    return _prepared("jars", [pom], build) / "lib"


def _archived(pom: Path) -> tuple[list[str], str]:
    """The flag that lets Java map the classes of a pom's jars into memory from an archive, and the path of the jars.

    A program that appends to that path starts in half the time: worth it for what is started over and over. Java goes
    on without an archive that is missing or does not fit.
    """
    java = Path(_program("java", "default-jdk-headless")).resolve()
    jars = sorted(maven_jars(pom).glob("*.jar"))
    path = os.pathsep.join(map(str, jars))
    own = java.parents[1] / "lib" / "classlist"

    def build(room: Path) -> None:
        named = [name for jar in jars for name in zipfile.ZipFile(jar).namelist()]
        classes = [
            name.removesuffix(".class")
            for name in named
            if name.startswith(ARCHIVED) and name.endswith(".class") and not name.endswith("-info.class")
        ]
        listed = room / "classes.txt"
        listed.write_text("\n".join([*(own.read_text().splitlines() if own.exists() else []), *classes]))
        to = [f"-XX:SharedClassListFile={listed}", f"-XX:SharedArchiveFile={room / 'classes.jsa'}"]
        dump = [str(java), "-XX:+UseSerialGC", "-Xshare:dump", *to, "-cp", path]
        subprocess.run(dump, cwd=room, capture_output=True, timeout=FETCH_S_MAX, check=False)

    archive = _prepared(f"archive-{java.parents[1].name}", [pom], build) / "classes.jsa"
    return [f"-XX:SharedArchiveFile={archive}"], path


def java_command(*arguments: str, program: str = "Driver", home: str = "java") -> list[str]:
    """The command that runs a Java program of ours, by default the driver, which wants the broker's address."""
    java, javac = _program("java", "default-jdk-headless"), _program("javac", "default-jdk-headless")
    pom, source = HERE / home / "pom.xml", HERE / home / f"{program}.java"
    archived, jars = _archived(pom) if home == "java" else ([], f"{maven_jars(pom)}/*")
    classes = _prepared(
        "classes",
        [pom, source],
        lambda room: _run(javac, "-nowarn", "-cp", jars, "-d", str(room), str(source), cwd=room),
    )
    quiet = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-Xlog:disable"]
    path = f"{jars}{os.pathsep}{classes}"
    return [java, *QUICK, *archived, *quiet, "-cp", path, program, *arguments]


def node_program() -> str:
    """Node itself."""
    return _program("node", "nodejs")


def npm_packages(source: Path) -> Path:
    """A directory with the packages that the lock file of a directory names, in `node_modules`."""
    npm = _program("npm", "npm")
    files = [source / name for name in ("package.json", "package-lock.json")]

    def build(room: Path) -> None:
        for path in files:
            shutil.copy(path, room)
        _run(npm, "ci", "--no-audit", "--no-fund", cwd=room)

    return _prepared(source.name, files, build)


def node_command(bootstrap: str, *arguments: str, program: str = "driver") -> list[str]:
    """The command that runs a Node program of ours, by default the driver, against a broker."""
    script = str(HERE / "node" / f"{program}.mjs")
    return [node_program(), script, bootstrap, str(npm_packages(HERE / "node")), *arguments]


def go_command(*arguments: str, program: str) -> list[str]:
    """The command that runs a Go program of ours."""
    go = _program("go", "golang-go")
    files = [HERE / "go" / name for name in ("go.mod", "go.sum", f"{program}.go")]

    def build(room: Path) -> None:
        for path in files:
            shutil.copy(path, room)
        _run(go, "build", "-o", program, ".", cwd=room)

    return [str(_prepared("go", files, build) / program), *arguments]


def go_grpc_command(*arguments: str) -> list[str]:
    """The command that runs our Go client of the gRPC services, with stubs generated from proto/."""
    go = _program("go", "golang-go")
    files = sorted((HERE / "go_grpc").iterdir())
    protocol = sorted((HERE.parents[1] / "proto").rglob("*.proto"))

    def build(room: Path) -> None:
        for path in files:
            shutil.copy(path, room)
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{HERE.parents[1] / 'proto'}"]
        for name, package in GO_PLUGINS.items():
            _run(go, "build", "-o", f"protoc-gen-{name}", package, cwd=room)
            command += [f"--plugin={room / f'protoc-gen-{name}'}", f"--{name}_out={room}"]
            command += [f"--{name}_opt=module=penstock"]
        _run(*command, *map(str, protocol), cwd=room)
        _run(go, "build", "-o", "services", ".", cwd=room)

    return [str(_prepared("go-grpc", [*files, *protocol], build) / "services"), *arguments]
