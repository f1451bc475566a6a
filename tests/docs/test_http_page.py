"""The commands in docs/protocols/http.md do what the page says, typed into a shell one after the other."""

from __future__ import annotations

import subprocess

from pages import RUN_S_MAX, commands, is_same, parsed
from penstock.testing import running_broker

PAGE = "docs/protocols/http.md"
ADDRESS = "localhost:9080"


def test_the_page_is_true() -> None:
    assert len(commands(PAGE)) >= 15
    with running_broker(storage="memory") as broker:
        for command, expected in commands(PAGE):
            ran = subprocess.run(
                ["bash", "-c", command.replace(ADDRESS, f"{broker.host}:{broker.http_port}")],
                capture_output=True,
                text=True,
                timeout=RUN_S_MAX,
                check=True,
            )
            assert is_same(parsed(expected), parsed(ran.stdout)), f"{command}\n{ran.stdout}"
