"""The files for containers and services: valid by their schemas, and their commands run, outside of containers.

There is no container engine in the tests: each service of a compose file runs as a process with the command and the
environment that the file and the image give it; only ports, names of hosts and directories are replaced.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from conditions import WAIT_S_MAX, until
from etcd_cluster import free_addresses
from penstock.apps.bench.harness.process import free_port, is_listening
from penstock.node.settings_loader import load_settings

ROOT = Path(__file__).resolve().parents[2]
SINGLE, CLUSTER = ROOT / "docker-compose.yml", ROOT / "deploy" / "docker-compose.cluster.yml"
UNIT = ROOT / "deploy" / "systemd" / "penstock.service"
PORT, HTTP_PORT = "9092", "9080"


class Image:
    """What the Dockerfile says about the image of a stage, with the stages that it builds on."""

    def __init__(self, target: str | None = None) -> None:
        text = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text())
        self.lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        stages: dict[str, list[str]] = {}
        name = ""
        for line in self.lines:
            if line.startswith("FROM "):
                _, base, *alias = line.split()
                name = alias[1] if alias else "last"
                stages[name] = list(stages.get(base, []))
            stages[name].append(line)
        self.stage = stages[target or name]
        self.stages = stages

    def last(self, word: str) -> str:
        return [line.removeprefix(f"{word} ") for line in self.stage if line.startswith(f"{word} ")][-1]

    @property
    def environment(self) -> dict[str, str]:
        return dict(pair.split("=", 1) for pair in shlex.split(self.last("ENV")))

    def words(self, word: str) -> list[str]:
        found: list[str] = json.loads(self.last(word))
        return found

    @property
    def health(self) -> list[str]:
        found: list[str] = json.loads(self.last("HEALTHCHECK").partition(" CMD ")[2])
        return found


class Service:
    """A service of a compose file as a process; `places` maps what is written in the files to what a test may use."""

    def __init__(self, described: Mapping[str, Any], home: Path, places: Mapping[str, str]) -> None:
        image = Image(described.get("build", {}).get("target") if "cluster" in described["image"] else None)
        self._places = {"/data": str(home), "/examples": str(ROOT / "examples"), **places}
        entrypoint = described.get("entrypoint") or image.words("ENTRYPOINT")
        command = described.get("command") or ([] if "entrypoint" in described else image.words("CMD"))
        self._words = self._placed([*entrypoint, *command])
        self._health = self._placed(image.health)
        own = {**image.environment, **described.get("environment", {})}
        own = {name: value for name, value in own.items() if name.startswith("PENSTOCK_")}
        self.environment = {name: self._place(value) for name, value in own.items()}
        self.log = home.with_suffix(".log")
        self.home = home
        self.process: subprocess.Popen[bytes] | None = None

    def _place(self, text: str) -> str:
        longest_first = sorted(self._places, key=len, reverse=True)
        pattern = "|".join(map(re.escape, longest_first))
        return re.sub(pattern, lambda found: self._places[found[0]], text)

    def _placed(self, words: list[str]) -> list[str]:
        program, *rest = words
        start = [sys.executable] if program == "python" else [sys.executable, "-m", program]
        assert program in ("python", "penstock")
        return [*start, *map(self._place, rest)]

    def _everything(self, ports: Mapping[str, str]) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
        return {**inherited, "PYTHONUNBUFFERED": "1", **self.environment, **ports}

    @contextmanager
    def running(self, ports: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
        with self.log.open("wb") as log:
            process = subprocess.Popen(
                self._words, env=self._everything(ports), stdout=log, stderr=log, cwd=self.home.parent
            )
        self.process = process
        try:
            yield process
        finally:
            process.terminate()
            assert process.wait(WAIT_S_MAX) is not None

    def is_healthy(self, ports: Mapping[str, str]) -> bool:
        ran = subprocess.run(
            self._health, env=self._everything(ports), capture_output=True, cwd=self.home.parent
        )
        return ran.returncode == 0

    def run(self) -> str:
        ran = subprocess.run(
            self._words, env=self._everything({}), capture_output=True, text=True, timeout=WAIT_S_MAX
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout


def doors(port: int) -> dict[str, str]:
    """The ports of a broker in a test."""
    shut = {f"PENSTOCK_{door}_PORT": "off" for door in ("TEXT", "JSON", "QUEUE")}
    return {"PENSTOCK_PORT": str(port), "PENSTOCK_HTTP_PORT": str(free_port()), **shut}


def await_healthy(broker: Service, ports: Mapping[str, str]) -> None:
    """What the engine does with the health check of the image, but only once there is somebody to ask."""
    process = broker.process
    assert process is not None
    until(
        lambda: (
            process.poll() is not None
            or (is_listening(int(ports["PENSTOCK_HTTP_PORT"])) and broker.is_healthy(ports))
        ),
        "the broker is not healthy",
    )
    assert process.poll() is None, broker.log.read_text()


def described(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(file.read_text())
    return found


@pytest.mark.parametrize("file", [SINGLE, CLUSTER], ids=lambda file: file.name)
def test_compose_files_fit_their_schema(file: Path) -> None:
    schema = json.loads((files("check_jsonschema") / "builtin_schemas/vendor/compose-spec.json").read_text())
    content = described(file)
    errors = [
        f"{list(one.instance_path)}: {one.message}"
        for one in jsonschema_rs.validator_for(schema).iter_errors(content)
    ]
    assert errors == []
    services = content["services"]
    for one in services.values():
        for needed in one.get("depends_on", {}):
            assert needed in services
        for volume in one.get("volumes", ()):
            source = volume.partition(":")[0]
            assert source in content["volumes"] or (file.parent / source).exists(), volume
        if "build" in one:
            build = {"context": one["build"]} if isinstance(one["build"], str) else one["build"]
            assert (file.parent / build["context"] / "Dockerfile").exists()
            assert "target" not in build or build["target"] in Image().stages


def test_the_image_runs_as_nobody_special_and_copies_what_is_there() -> None:
    image = Image()
    assert image.last("USER") == Image("cluster").last("USER") == "penstock"
    assert image.words("ENTRYPOINT") + image.words("CMD") == ["penstock", "start"]
    assert image.health == ["penstock", "health"]
    allowed = (ROOT / ".dockerignore").read_text().splitlines()
    for line in image.stages["build"]:
        if line.startswith("COPY "):
            for source in line.split()[1:-1]:
                assert (ROOT / source).exists() and f"!{source}" in allowed, source


def message_count(consumer: Service) -> int:
    """The messages that the consumer has printed, each on a line that begins with its offset."""
    return sum(line[:1].isdigit() for line in consumer.log.read_text().splitlines())


def test_one_broker_with_producer_and_consumer(tmp_path: Path) -> None:
    services = described(SINGLE)["services"]
    assert services.keys() == {"broker", "producer", "consumer"}
    assert all(services[one]["network_mode"] == "service:broker" for one in ("producer", "consumer"))
    ports = doors(free_port())
    places = {f"localhost:{PORT}": f"localhost:{ports['PENSTOCK_PORT']}"}
    broker = Service(services["broker"], tmp_path / "data", {})
    with broker.running(ports) as process:
        await_healthy(broker, ports)
        consumer = Service(services["consumer"], tmp_path / "consumer", places)
        with consumer.running({}):
            sent = Service(services["producer"], tmp_path / "producer", places).run().splitlines()
            assert len(sent) == 100
            until(lambda: message_count(consumer) == 100, "the consumer did not get them")
    assert process.returncode == 0, broker.log.read_text()
    assert not broker.is_healthy(ports)


@pytest.mark.skipif(shutil.which("etcd") is None, reason="needs etcd")
def test_three_brokers_with_etcd(tmp_path: Path) -> None:
    services = described(CLUSTER)["services"]
    names = [name for name in services if name.startswith("broker-")]
    members = dict(zip(names, free_addresses(3), strict=True))
    ports = {name: doors(free_port()) for name in names}
    places = {f"@{name}": f"@{address}" for name, address in members.items()}
    places |= {f"{name}:{PORT}": f"127.0.0.1:{ports[name]['PENSTOCK_PORT']}" for name in names}
    places |= dict.fromkeys(names, "127.0.0.1")
    with ExitStack() as running:
        brokers = {name: Service(services[name], tmp_path / name, places) for name in names}
        for name, broker in brokers.items():
            running.enter_context(broker.running(ports[name]))
        for name, broker in brokers.items():
            await_healthy(broker, ports[name])
        consumer = Service(services["consumer"], tmp_path / "consumer", places)
        running.enter_context(consumer.running({}))
        assert len(Service(services["producer"], tmp_path / "producer", places).run().splitlines()) == 100
        until(lambda: message_count(consumer) == 100, "the consumer did not get them")
        for one in (consumer, *brokers.values()):  # together, so that none waits for a majority of the others
            assert one.process is not None
            one.process.terminate()


def test_the_sample_settings_load(tmp_path: Path) -> None:
    loaded = load_settings(str(ROOT / "deploy" / "penstock.yaml"))
    assert (loaded.settings.data_dir, loaded.settings.port) == ("/var/lib/penstock", 9092)
    assert loaded.settings.text_port is None and loaded.notes == ()
    text = (ROOT / "deploy" / "penstock.yaml").read_text()
    every = tmp_path / "every.yaml"
    every.write_text(re.sub(r"^( *)# (\w+: )", r"\1\2", text, flags=re.MULTILINE))
    proposed = load_settings(str(every)).settings
    assert (proposed.advertised_host, proposed.node_id) == ("broker.example.internal", 1)


def test_the_unit_starts_the_broker_with_the_sample() -> None:
    unit = UNIT.read_text()
    (command,) = re.findall(r"^ExecStart=(.*)$", unit, flags=re.MULTILINE)
    program, *words = command.split()
    assert Path(program).name == "penstock"
    assert words == ["start", "--config", "/etc/penstock/penstock.yaml"]
    (state,) = re.findall(r"^StateDirectory=(.*)$", unit, flags=re.MULTILINE)
    assert load_settings(str(ROOT / "deploy" / "penstock.yaml")).settings.data_dir == f"/var/lib/{state}"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_the_unit_is_valid_and_hardened(tmp_path: Path) -> None:
    """Verified with programs and users that this machine has."""
    unit = tmp_path / "penstock.service"
    text = UNIT.read_text().replace("/opt/penstock/bin/penstock", sys.executable)
    unit.write_text(text.replace("User=penstock", "User=daemon").replace("Group=penstock", "Group=daemon"))
    ran = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True)
    told = [line for line in ran.stderr.splitlines() if unit.name in line]
    assert (ran.returncode, told) == (0, []), ran.stderr
    rated = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=25", "--no-pager", str(unit)],
        capture_output=True,
        text=True,
    )
    assert rated.returncode == 0, rated.stdout + rated.stderr
