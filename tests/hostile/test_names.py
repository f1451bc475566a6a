"""Names that clients chose, on the terminal of whoever looks at the broker."""

from __future__ import annotations

import json
import subprocess
import sys
from urllib.request import urlopen

from confluent_kafka import Consumer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from penstock.client.rdkafka.producer import Producer
from penstock.testing import Broker, running_broker

EVIL = 'evil\x1b]0;owned\x07\x1b[2J\x9b31m"\\'


def run(broker: Broker, *words: str) -> str:
    command = [sys.executable, "-m", "penstock", *words, "--bootstrap", broker.bootstrap]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def is_harmless(text: str) -> bool:
    return all(line.isprintable() for line in text.splitlines())


def test_names_of_groups_and_clients_are_escaped_and_json_is_exact() -> None:
    with running_broker(storage="memory") as broker:
        with Producer(bootstrap=broker.bootstrap) as producer:
            producer.send("orders", b"x").result(30)
        settings = {"bootstrap.servers": broker.bootstrap, "group.id": EVIL, "client.id": EVIL}
        member = Consumer(settings)
        member.subscribe(["orders"])
        while not member.assignment():
            member.poll(0.1)
        member.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
        for words in (("group", "list"), ("group", "describe", EVIL), ("group", "lag", EVIL)):
            shown = run(broker, *words)
            assert r"evil\x1b]0;owned\x07\x1b[2J\x9b31m" in shown and is_harmless(shown), words
        assert [one["group"] for one in json.loads(run(broker, "group", "list", "-o", "json"))] == [EVIL]
        metrics = urlopen(f"http://127.0.0.1:{broker.http_port}/metrics", timeout=30).read().decode()
        assert is_harmless(metrics)
        labels = {
            sample.labels["group"]
            for family in text_string_to_metric_families(metrics)
            for sample in family.samples
            if "group" in sample.labels
        }
        assert labels == {r'evil\x1b]0;owned\x07\x1b[2J\x9b31m"' + "\\"}
        member.close()
