"""The record of proofs names every rule of replication, and tests and plants that exist."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs/adr/0042-proofs-of-replication.md"
RULES = [*(f"L{number}" for number in range(1, 16)), *(f"M{number}" for number in range(1, 30))]


def lines() -> dict[str, str]:
    """The proof of each rule."""
    found = re.findall(r"^\| ([LM]\d+) \|[^|]*\| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    assert len(found) == len(dict(found)), "a rule has two lines"
    return dict(found)


def test_every_rule_is_proved_by_a_test_or_a_plant() -> None:
    assert list(lines()) == RULES
    for rule, proof in lines().items():
        assert "::" in proof, rule


def test_what_is_named_exists() -> None:
    for rule, proof in lines().items():
        for path, name in re.findall(r"`([\w/]+\.py)::(\w+)`", proof):
            assert re.search(rf"def {name}\(", (TESTS / path).read_text()), f"{rule}: {path} has no {name}"


def test_plants_are_planted() -> None:
    """A plant is a function that is in the list of one of the tests of its file, and not only defined."""
    for rule, proof in lines().items():
        for path, name in re.findall(r"`(sim/test_\w+_bugs\.py)::(\w+)`", proof):
            listed = rf"^ +\(\s*{name},\s"
            assert re.search(listed, (TESTS / path).read_text(), re.MULTILINE), (
                f"{rule}: {name} is not planted"
            )
