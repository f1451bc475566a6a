"""MirrorMaker 2 between two brokers: topics, records and settings arrive, and settings follow changes."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from compat.plain_calls import ask
from compat.questions import SET, TOPIC
from compat.raw import POLL_S, RawConnection, batch
from compat.roster import do_without
from compat.runtimes import HERE, maven_jars
from compat.vocabulary import MissingRuntime
from penstock.testing import running_broker
from penstock.wire.kafka import ApiKey

ARRIVES_S_MAX = 150.0
STOP_S_MAX = 20.0
SETTINGS = """\
clusters=a,b
a.bootstrap.servers={source}
b.bootstrap.servers={target}
a->b.enabled=true
a->b.topics=orders
b->a.enabled=false
b->a.emit.heartbeats.enabled=false
replication.factor=1
checkpoints.topic.replication.factor=1
heartbeats.topic.replication.factor=1
offset-syncs.topic.replication.factor=1
config.storage.replication.factor=1
offset.storage.replication.factor=1
offset.storage.partitions=1
status.storage.replication.factor=1
status.storage.partitions=1
refresh.topics.interval.seconds=1
sync.topic.configs.interval.seconds=1
tasks.max=1
"""


@contextmanager
def mirroring(source: str, target: str, directory: Path) -> Iterator[Path]:
    """The log of a MirrorMaker that copies `orders` as long as the block lasts."""
    settings, log = directory / "mirror.properties", directory / "mirror.log"
    settings.write_text(SETTINGS.format(source=source, target=target))
    jars = f"{maven_jars(HERE / 'tools' / 'pom.xml')}/*"
    quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx384m"]
    command = ["java", *quick, "-cp", jars, "org.apache.kafka.connect.mirror.MirrorMaker", str(settings)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        yield log
    finally:
        process.terminate()
        try:
            process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def settings_of(raw: RawConnection, topic: str) -> dict[str, str]:
    """The settings that a topic has of its own; none while it does not exist."""
    resource = {"resource_type": TOPIC, "resource_name": topic, "configuration_keys": None}
    (result,) = ask(raw, ApiKey.DESCRIBE_CONFIGS, 4, {"resources": [resource]})["results"]
    return {one["name"]: one["value"] for one in result["configs"] if one["config_source"] == 1}


def await_settings(raw: RawConnection, topic: str, wanted: dict[str, str], log: Path) -> None:
    deadline = time.monotonic() + ARRIVES_S_MAX
    while (found := settings_of(raw, topic)) != found | wanted:
        assert time.monotonic() < deadline, f"{found}\n{log.read_text()[-4000:]}"
        time.sleep(POLL_S)


@pytest.mark.timeout(400)
def test_settings_of_topics_are_mirrored_and_follow_changes(tmp_path: Path) -> None:
    with (
        running_broker() as here,
        running_broker() as there,
        RawConnection(here.bootstrap) as source,
        RawConnection(there.bootstrap) as target,
    ):
        source.create_topic("orders", 1, retention_ms="12345678")
        source.produce("orders", batch(b"a", b"b"))
        try:
            with mirroring(here.bootstrap, there.bootstrap, tmp_path) as log:
                await_settings(target, "a.orders", {"retention.ms": "12345678"}, log)
                changed = {"name": "max.message.bytes", "config_operation": SET, "value": "54321"}
                resource = {"resource_type": TOPIC, "resource_name": "orders", "configs": [changed]}
                ask(source, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [resource]})
                await_settings(target, "a.orders", {"max.message.bytes": "54321"}, log)
                target.await_end("a.orders", 2)
                said = log.read_text()
        except MissingRuntime as missing:
            do_without(missing)
    assert "SecurityDisabledException" not in said or "No ACL authorizer is configured" in said
    assert "Could not incrementally alter" not in said and "UnsupportedVersionException" not in said
