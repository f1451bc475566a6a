"""Transactional producers as processes, and readers of what they wrote. Never knows what is right."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from compat.roster import AIOKAFKA, CONFLUENT, JAVA, KAFKA_PYTHON, KAFKAJS
from compat.runtimes import java_command, node_command
from compat.vocabulary import WAIT_S

ANSWER_S_MAX = 45.0
TESTS_DIR = Path(__file__).resolve().parent.parent
CLIENTS = (CONFLUENT, AIOKAFKA, KAFKA_PYTHON, KAFKAJS, JAVA)


class TransactionRefused(Exception):
    """The client reported an error; `word` is its own name for it."""

    def __init__(self, word: str, detail: str) -> None:
        super().__init__(f"{word}: {detail}")
        self.word = word


class Transactor:
    """One producer in a process of its own, so that it can be killed."""

    def __init__(self, client: str, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        options = json.dumps({"id": transactional_id, "timeout_ms": timeout_ms})
        self.process = subprocess.Popen(
            _command(client, bootstrap, options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=TESTS_DIR,
        )

    def ask(self, op: str, **request: Any) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps({"op": op, **request}).encode() + b"\n")
        self.process.stdin.flush()
        if not select.select([self.process.stdout], [], [], ANSWER_S_MAX)[0]:
            raise TimeoutError(f"{op} was not answered")
        answer = json.loads(self.process.stdout.readline())
        if "refused" in answer:
            raise TransactionRefused(answer["refused"], answer["detail"])
        return answer["ok"]

    def send(self, topic: str, *values: str, partition: int = 0) -> list[int]:
        return list(self.ask("send", topic=topic, partition=partition, values=list(values)))

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def _command(client: str, bootstrap: str, options: str) -> list[str]:
    if client == JAVA:
        return java_command(bootstrap, options, program="Transactor")
    if client == KAFKAJS:
        return node_command(bootstrap, options, program="transactor")
    program = os.fspath(TESTS_DIR / "compat" / "clients" / "transactor.py")
    return [sys.executable, program, client, bootstrap, options]


def read_to_end(bootstrap: str, topic: str, partition: int = 0, *, committed: bool = True) -> list[str]:
    """Every value that a reader sees before the end of the partition, as of now."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "compat-reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
    )
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        values: list[str] = []
        while True:
            message = consumer.poll(WAIT_S)
            assert message is not None, f"no end of {topic} within {WAIT_S} s; so far {values}"
            if message.error() is not None:
                assert message.error().name() == "_PARTITION_EOF", message.error()
                return values
            values.append(message.value().decode())
    finally:
        consumer.close()
