"""The environment chooses the loops, and is told when it asks in vain."""

from __future__ import annotations

import pytest

from penstock.client.errors import BadArgument
from penstock.client.raw.loops import VARIABLE, chosen_loops
from penstock.core.records import columns_loops


def test_interpreted_is_always_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "interpreted")
    assert chosen_loops() is columns_loops


def test_auto_gives_one_of_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "auto")
    assert chosen_loops().__name__.rpartition("_")[2] in ("compiled", "loops")


def test_another_word_is_refused_with_the_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "fast")
    with pytest.raises(BadArgument, match="auto, compiled, interpreted"):
        chosen_loops()
