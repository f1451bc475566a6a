"""Prints the machine-readable output of commands: JSON, or the same content as YAML. Tables are `tables`."""

from __future__ import annotations

import json
from typing import Any

from penstock.apps.cli.terminal import say

TABLE, JSON, YAML = OUTPUTS = ("table", "json", "yaml")


def say_content(content: Any, output: str, *, indent: int | None = None) -> None:
    """Print one object or list as JSON or YAML."""
    say(json.dumps(content, indent=indent) if output == JSON else yaml_text(content).rstrip("\n"))


def say_next(content: Any, output: str) -> None:
    """Print one of several objects: a line of JSON, or a YAML document of its own."""
    say(json.dumps(content) if output == JSON else "---\n" + yaml_text(content).rstrip("\n"))


def yaml_text(content: Any) -> str:
    """Content as YAML, with the values that JSON would have."""
    import yaml

    text: str = yaml.safe_dump(json.loads(json.dumps(content)), sort_keys=False, width=120)
    return text
