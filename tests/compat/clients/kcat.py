"""kcat in the suite's vocabulary: one short process per act. Has no admin calls at all."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from confluent_kafka import KafkaError
from kio.schema.errors import ErrorCode

from compat.vocabulary import (
    EARLIEST,
    FETCH_WAIT_MS,
    LATEST,
    WAIT_S,
    Got,
    Header,
    KafkaRefused,
    MissingRuntime,
    Sent,
    error_name,
)

# Everything that can hold any byte comes after its own length; a null has length -1.
LAYOUT = "%o %T %K %S %h\n%k%s\n"
QUERY_TIMES = {EARLIEST: -2, LATEST: -1}
REPORTED = re.compile(r"Broker: [^\n\"]+?(?=\"|\n|: terminating|$)")


@cache
def _name_by_text() -> dict[str, str]:
    """librdkafka's sentence for an error -> Kafka's name: kcat prints only the sentence."""
    return {KafkaError(code.value).str(): error_name(code.value) for code in ErrorCode if code.value > 0}


def _refusal(text: str) -> KafkaRefused | None:
    for sentence in REPORTED.findall(text):
        if (name := _name_by_text().get(sentence.strip())) is not None:
            return KafkaRefused(name, sentence)
    return None


def _headers(text: str) -> tuple[Header, ...]:
    pairs = (item.partition("=") for item in text.split(",") if item)
    return tuple((name, None if value == "NULL" else value.encode()) for name, _, value in pairs)


def _parse(output: bytes) -> list[Got]:
    got: list[Got] = []
    position = 0
    while position < len(output):
        end = output.index(b"\n", position)
        offset, time_ms, key_bytes, value_bytes, headers = output[position:end].decode().split(" ", 4)
        position = end + 1
        parts: list[bytes | None] = []
        for size in (int(key_bytes), int(value_bytes)):
            parts.append(None if size < 0 else output[position : position + size])
            position += max(size, 0)
        got.append(Got(int(offset), parts[0], parts[1], _headers(headers), int(time_ms), None))
        position += 1
    return got


class KcatClient:
    """Runs the program; a non-zero exit becomes the refusal that its text names."""

    def __init__(self, bootstrap: str) -> None:
        program = shutil.which("kcat") or shutil.which("kafkacat")
        if program is None:
            raise MissingRuntime("kcat is not installed: `apt install kcat`")
        self._program = program
        self._bootstrap = bootstrap

    def _run(self, *words: str) -> bytes:
        command = [self._program, "-b", self._bootstrap, "-X", "client.id=compat-kcat", *words]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=WAIT_S, check=False
        )
        text = done.stderr.decode(errors="replace")
        if (refusal := _refusal(text)) is not None:
            raise refusal
        if done.returncode != 0:
            raise RuntimeError(f"kcat left with {done.returncode}: {text}")
        return done.stdout

    def produce(
        self,
        topic: str,
        records: list[Sent],
        *,
        partition: int = 0,
        acks: str = "all",
        codec: str = "none",
        idempotent: bool = False,
    ) -> list[int]:
        """One file per record: kcat takes one key and one set of headers per run, so those must be equal."""
        (key,) = {record.key for record in records}
        (headers,) = {record.headers for record in records}
        assert all(record.timestamp_ms is None and record.value for record in records), "kcat cannot"
        words = ["-P", "-t", topic, "-p", str(partition), "-z", codec, "-X", f"acks={acks}"]
        words += ["-X", f"enable.idempotence={str(idempotent).lower()}", "-X", "message.timeout.ms=15000"]
        words += ["-X", "message.max.bytes=4000000"]
        words += [] if key is None else ["-k", key.decode()]
        for name, value in headers:
            words += ["-H", name if value is None else f"{name}={value.decode()}"]
        with tempfile.TemporaryDirectory() as scratch:
            paths = [Path(scratch) / str(number) for number in range(len(records))]
            for path, record in zip(paths, records, strict=True):
                path.write_bytes(record.value or b"")
            self._run(*words, *map(str, paths))
        return [-1] * len(records)

    def fetch(self, topic: str, partition: int, offset: int, count: int) -> list[Got]:
        words = ["-C", "-q", "-u", "-t", topic, "-p", str(partition), "-o", str(offset), "-c", str(count)]
        words += ["-X", f"fetch.wait.max.ms={FETCH_WAIT_MS}", "-X", "auto.offset.reset=error", "-f", LAYOUT]
        got = _parse(self._run(*words))
        if len(got) < count:
            raise TimeoutError(f"{len(got)} of {count} records of {topic}")
        return got

    def offset_of(self, topic: str, partition: int, spec: str | int) -> int:
        time_ms = QUERY_TIMES[spec] if isinstance(spec, str) else spec
        answer = self._run("-Q", "-t", f"{topic}:{partition}:{time_ms}").decode()
        return int(answer.rsplit(" ", 1)[-1])

    def partitions_of(self, topic: str) -> int:
        (described,) = self._described("-t", topic)["topics"]
        if "error" in described:
            raise _refusal(described["error"]) or KafkaRefused("UNKNOWN_SERVER_ERROR", described["error"])
        return len(described["partitions"])

    def broker_ids(self) -> list[int]:
        return [int(broker["id"]) for broker in self._described()["brokers"]]

    def _described(self, *words: str) -> dict[str, list[dict[str, str]]]:
        described: dict[str, list[dict[str, str]]] = json.loads(self._run("-L", "-J", *words))
        return described

    def close(self) -> None:
        """Nothing stays open between acts."""
