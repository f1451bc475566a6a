"""The HTTP door against third-party clients: httpx, websockets, curl, and schemathesis."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from penstock.testing import Broker, running_broker

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CASES = 12
"""Requests that schemathesis makes up for each operation, besides those at the edges of its schema."""

ANSWER_S_MAX = 60
"""For as long a request that creates or moves 10,000 partitions may take on a busy machine."""
SEED = 4
SEMANTIC = ["2xx", "404", "409", "416", "422"]
"""What may be said to a request of the right shape: the topic or the setting it names may still not be there."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker(storage="memory") as running:
        yield running


@pytest.fixture
def url(broker: Broker) -> str:
    return f"http://{broker.host}:{broker.http_port}"


def test_the_description_is_true(broker: Broker, url: str, tmp_path: Path) -> None:
    """Whatever fits the description is taken, whatever does not is refused, and every answer is as described."""
    httpx.post(f"{url}/api/v1/messages", json={"topic": "0", "value": "x"}).raise_for_status()
    settings = tmp_path / "schemathesis.toml"
    settings.write_text(f"[checks.positive_data_acceptance]\nexpected-statuses = {json.dumps(SEMANTIC)}\n")
    words = ["--max-examples", str(CASES), "--seed", str(SEED), "--phases", "examples,coverage,fuzzing"]
    words += ["--exclude-operation-id", "tail", "--no-color", "--generation-database", "none"]
    words += ["--request-timeout", str(ANSWER_S_MAX)]
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "schemathesis.cli",
            "--config-file",
            str(settings),
            "run",
            *words,
            f"{url}/openapi.json",
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-6_000:] + ran.stderr[-2_000:]
    assert "Tested: 33" in ran.stdout
    assert "defect" not in broker.output()


def test_httpx_keeps_its_connection_and_sends_in_chunks(url: str) -> None:
    def parts() -> Iterator[bytes]:
        yield b'{"topic": "chunks",'
        yield b'"value": "in parts"}'

    with httpx.Client(base_url=url) as client:
        before = _opened(client)
        for number in range(20):
            answer = client.post("/api/v1/messages", json={"topic": "chunks", "value": number})
            assert answer.json()["offset"] == number
        answer = client.post(
            "/api/v1/messages", content=parts(), headers={"Content-Type": "application/json"}
        )
        assert answer.json()["offset"] == 20
        read = client.get("/api/v1/topics/chunks/partitions/0/messages", params={"offset": 19}).json()
        assert [one["value"] for one in read["messages"]] == ["19", "in parts"]
        assert _opened(client) == before, "one connection served all of it"


def _opened(client: httpx.Client) -> float:
    (line,) = [
        line
        for line in client.get("/metrics").text.splitlines()
        if line.startswith('penstock_connections_opened_total{door="http"}')
    ]
    return float(line.split()[-1])


def test_a_websocket_client_tails_a_topic(broker: Broker, url: str) -> None:
    httpx.post(f"{url}/api/v1/topics", json={"name": "live", "partitions": 2}).raise_for_status()
    tail = f"ws://{broker.host}:{broker.http_port}/api/v1/topics/live/tail"
    with connect(f"{tail}?json=level:error") as errors, connect(tail) as everything:
        messages = [
            {"value": {"level": "error" if n % 10 == 0 else "info", "n": n}, "key": str(n)}
            for n in range(100)
        ]
        httpx.post(
            f"{url}/api/v1/messages/batch", json={"topic": "live", "messages": messages}
        ).raise_for_status()
        seen = [json.loads(everything.recv(timeout=30)) for _ in range(100)]
        assert sorted(one["value"]["n"] for one in seen) == list(range(100))
        for partition in (0, 1):
            offsets = [one["offset"] for one in seen if one["partition"] == partition]
            assert offsets == list(range(len(offsets))) and offsets
        found = [json.loads(errors.recv(timeout=30))["value"]["n"] for _ in range(10)]
        assert sorted(found) == list(range(0, 100, 10))
    with pytest.raises(InvalidStatus) as refused, connect(tail.replace("live", "absent")):
        pass
    assert refused.value.response.status_code == 404


def test_the_examples_run(broker: Broker) -> None:
    environment = {**os.environ, "PENSTOCK_HTTP": f"{broker.host}:{broker.http_port}"}

    def run(*words: str) -> list[str]:
        ran = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=True)
        return ran.stdout.splitlines()

    published = run(str(EXAMPLES / "http_publish.sh"), "examples")
    assert [one["offset"] for one in json.loads(published[-1])["messages"]] == [0, 1, 2]
    words = (sys.executable, str(EXAMPLES / "http_tail.py"), "examples", "offset=earliest&contains=o", "3")
    assert [json.loads(line)["value"] for line in run(*words)] == [{"action": "login"}, "one", "two"]
    refused = subprocess.run(
        [*words[:2], "nowhere"], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert refused.returncode == 1 and "UnknownTopic" in refused.stderr


def test_curl_asks_before_it_sends_much(url: str, tmp_path: Path) -> None:
    body = tmp_path / "body.json"
    body.write_text(json.dumps({"topic": "curl", "messages": [{"value": "x" * 1_000}] * 2_000}))
    headers = ["-H", "Content-Type: application/json", "-H", "Expect: 100-continue"]
    ran = subprocess.run(
        ["curl", "-sv", *headers, "--data-binary", f"@{body}", f"{url}/api/v1/messages/batch"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "100 Continue" in ran.stderr
    assert json.loads(ran.stdout)["failed"] == 0
