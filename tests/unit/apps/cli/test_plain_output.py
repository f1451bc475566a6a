"""JSON and YAML: the same content."""

from __future__ import annotations

import json

import pytest
import yaml

from penstock.apps.cli.plain_output import say_content, say_next
from penstock.core.log.inspect import Severity

CONTENT = {"a": [1, None, True, "x: y", "ü\x1b"], "severity": Severity.DAMAGED, "pair": (1, 2)}


def test_yaml_has_what_json_has(capsys: pytest.CaptureFixture[str]) -> None:
    say_content(CONTENT, "json")
    as_json = capsys.readouterr().out
    say_content(CONTENT, "yaml")
    as_yaml = capsys.readouterr().out
    assert yaml.safe_load(as_yaml) == json.loads(as_json) == json.loads(json.dumps(CONTENT))
    assert "\x1b" not in as_json + as_yaml


def test_several_objects_are_lines_or_documents(capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(2):
        say_next({"n": number}, "json")
    assert capsys.readouterr().out == '{"n": 0}\n{"n": 1}\n'
    for number in range(2):
        say_next({"n": number}, "yaml")
    assert list(yaml.safe_load_all(capsys.readouterr().out)) == [{"n": 0}, {"n": 1}]
