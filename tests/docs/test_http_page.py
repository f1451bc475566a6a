"""The commands in docs/protocols/http.md do what the page says, typed into a shell one after the other."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from penstock.testing import running_broker

PAGE = Path(__file__).resolve().parents[2] / "docs" / "protocols" / "http.md"
ADDRESS = "localhost:9080"
ANYTHING = "…"
SECONDS_MAX = 60


def commands() -> list[tuple[str, str]]:
    """Every command of the page and what it prints."""
    found: list[tuple[str, str]] = []
    for block in re.findall(r"^```console\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], ""))
            else:
                command, printed = found[-1]
                found[-1] = command, f"{printed}{line}\n"
    return found


def is_same(expected: Any, found: Any) -> bool:
    if expected == ANYTHING:
        return True
    if isinstance(expected, dict) and isinstance(found, dict):
        return expected.keys() == found.keys() and all(
            is_same(expected[name], found[name]) for name in expected
        )
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(map(is_same, expected, found))
    return bool(expected == found)


def parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text.strip()


def test_the_page_is_true() -> None:
    assert len(commands()) >= 15
    with running_broker(storage="memory") as broker:
        for command, expected in commands():
            ran = subprocess.run(
                ["bash", "-c", command.replace(ADDRESS, f"{broker.host}:{broker.http_port}")],
                capture_output=True,
                text=True,
                timeout=SECONDS_MAX,
                check=True,
            )
            assert is_same(parsed(expected), parsed(ran.stdout)), f"{command}\n{ran.stdout}"
