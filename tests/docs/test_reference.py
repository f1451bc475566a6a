"""The pages that derive from the code are up to date: every setting and every command is documented."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.apps.cli.main import cli
from penstock.apps.cli.reference import PAGES
from penstock.node.settings import DEFINITIONS

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("name", sorted(PAGES))
def test_page_is_what_the_code_says(name: str) -> None:
    assert (DOCS / name).read_text("utf-8") == PAGES[name](), "run: make docs"


def test_every_setting_has_its_row() -> None:
    page = (DOCS / "settings.md").read_text("utf-8")
    assert [d.name for d in DEFINITIONS if f"| `{d.name}` |" not in page] == []


def test_every_command_has_its_section() -> None:
    page = (DOCS / "cli.md").read_text("utf-8")
    assert [name for name in cli.lazy if f"## `penstock {name}`" not in page] == []


def test_every_flag_of_start_comes_from_a_setting() -> None:
    page = (DOCS / "cli.md").read_text("utf-8")
    assert [d.flag for d in DEFINITIONS if f"\n  {d.flag} " not in page] == []
