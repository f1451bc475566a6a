"""What happens to a running or stopped broker whose data directory was tampered with."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

import pytest

from penstock.client.rdkafka.producer import Producer
from penstock.testing import Broker, BrokerDied, running_broker


def write(broker: Broker, *topics: str) -> None:
    with Producer(bootstrap=broker.bootstrap) as producer:
        for topic in topics:
            producer.send(topic, b"x").result(30)


def test_a_missing_topic_directory_does_not_keep_the_others_from_stopping(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        before = {path.name for path in (broker.data_dir / "topics").glob("*")}
        write(broker, "lost")
        (lost,) = {path.name for path in (broker.data_dir / "topics").glob("*")} - before
        write(broker, "whole")
        shutil.rmtree(broker.data_dir / "topics" / lost)
        assert broker.stop() == 0
        assert "Traceback" not in broker.output()
        assert "stopped; the next start must recover the logs" in broker.output()
        assert "lost" in broker.output() and "partition is offline" in broker.output()
        logged = len(broker.output())
        broker.start()
        told = broker.output()[logged:]
        assert "partition is offline" in told and "topic=lost" in told, "it does not pass for an empty topic"
        assert "topic=whole" not in told
        write(broker, "whole")


def test_all_topic_directories_may_be_missing(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        write(broker, "one")
        shutil.rmtree(broker.data_dir / "topics")
        assert broker.stop() == 0
        assert "Traceback" not in broker.output()
        broker.start()


def test_data_without_node_json_is_refused(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        write(broker, "one")
        broker.stop()
        identity = broker.data_dir / "node.json"
        saved = identity.read_bytes()
        identity.unlink()
        with pytest.raises(BrokerDied, match=r"node\.json is missing.*Restore"):
            broker.start()
        identity.write_bytes(saved)
        logged = len(broker.output())
        broker.start()
        assert "did not shut down cleanly" not in broker.output()[logged:], "the refusal changed nothing"


def test_everything_in_a_data_directory_is_private(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        write(broker, "one")
        broker.restart()
        found = [broker.data_dir, *broker.data_dir.rglob("*")]
        assert len(found) > 10
        for path in found:
            assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
