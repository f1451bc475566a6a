"""mypy knows the fields of Kafka's messages: a misspelled field is an error, and so is a value of another type."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tidy.sources import ROOT

SNIPPET = """
from penstock.client.raw.cluster import Cluster
from penstock.wire.kafka import ApiKey, messages

def right(request: messages.ProduceRequest, cluster: Cluster) -> messages.ProduceResponse:
    answer = messages.ProduceResponse.TopicProduceResponse(name=request.topic_data[0].name)
    leaders = [one.leader_id for topic in found(cluster).topics for one in topic.partitions]
    return messages.ProduceResponse(responses=[answer], throttle_time_ms=leaders[0])

def found(cluster: Cluster) -> messages.MetadataResponse:
    return cluster.ask(ApiKey.METADATA, messages.MetadataRequest(topics=None))

def wrong(request: messages.ProduceRequest, cluster: Cluster) -> None:
    request.akcs                                  # attr-defined
    request.topic_data[0].partition_data[0].ix    # attr-defined
    request.acks = "all"                          # assignment
    request.transactional_id.upper()              # union-attr
    messages.ProdcueRequest                       # attr-defined
    messages.ProduceRequest(akcs=1)               # call-arg
    messages.ProduceRequest(acks="all")           # arg-type
    found(cluster).topcis                         # attr-defined
"""


def test_wrong_fields_are_errors(tmp_path: Path) -> None:
    snippet = tmp_path / "snippet.py"
    snippet.write_text(SNIPPET)
    checked = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--config-file",
            "pyproject.toml",
            "--cache-dir",
            tmp_path / "cache",
            snippet,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    found = [
        (int(match[1]), match[2])
        for match in re.finditer(r"snippet\.py:(\d+): error: .* \[([a-z-]+)\]$", checked.stdout, re.MULTILINE)
    ]
    expected = [
        (number, line.split("# ")[1]) for number, line in enumerate(SNIPPET.splitlines(), 1) if "# " in line
    ]
    assert found == expected, checked.stdout + checked.stderr
