"""Kafka's own command-line tools, run in one Java machine. Never judges what they print."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

from compat.runtimes import java_command

CONFIGS = "kafka.admin.ConfigCommand"
_TOOLS = "org.apache.kafka.tools."
ACLS, FEATURES = f"{_TOOLS}AclCommand", f"{_TOOLS}FeatureCommand"
CLIENT_METRICS = f"{_TOOLS}ClientMetricsCommand"
DELETE_RECORDS, TOPICS = f"{_TOOLS}DeleteRecordsCommand", f"{_TOOLS}TopicCommand"
ELECTION, QUORUM = f"{_TOOLS}LeaderElectionCommand", f"{_TOOLS}MetadataQuorumCommand"
REASSIGN = f"{_TOOLS}reassign.ReassignPartitionsCommand"

RUN_S_MAX = 240
_START = "\x01"
_BOOTSTRAP = "--bootstrap-server"


class Printed(NamedTuple):
    """What a tool left behind: its exit code, and what it wrote to stdout and stderr."""

    code: int
    text: str

    @property
    def lines(self) -> list[str]:
        """Non-empty lines, sorted: most tools print the order of a hash table."""
        return sorted(line.strip() for line in self.text.splitlines() if line.strip())


def run_tools(bootstrap: str, commands: dict[str, tuple[str, ...]]) -> dict[str, Printed]:
    """What each command prints. A command is a tool's class and its arguments without the broker's address."""
    lines = ["\t".join((tool, _BOOTSTRAP, bootstrap, *words)) for tool, *words in commands.values()]
    done = subprocess.run(
        java_command(program="Tools", home="tools"),
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        timeout=RUN_S_MAX,
        check=True,
    )
    pieces = done.stdout.split(_START)[1:]
    assert len(pieces) == len(commands), done.stdout + done.stderr
    printed = (Printed(int(code), text) for code, _, text in (piece.partition("\n") for piece in pieces))
    return dict(zip(commands, printed, strict=True))


def offsets_file(directory: Path, topic: str, offset: int) -> str:
    """The input of the tool that deletes records."""
    path = directory / "offsets.json"
    path.write_text(
        f'{{"partitions": [{{"topic": "{topic}", "partition": 0, "offset": {offset}}}], "version": 1}}'
    )
    return str(path)
