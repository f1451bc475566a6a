"""The documentation site, up to the program that renders it: pages, navigation, and what a page may load."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from doc_pages import ROOT, all_pages, broken_links, links, title_of
from doc_site import SETTINGS, navigation, remote_loads, site_markdown, stage


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    target = tmp_path_factory.mktemp("site")
    return target, stage(ROOT, target)


def test_every_page_is_staged_and_its_links_hold_there(staged: tuple[Path, list[str]]) -> None:
    target, indexes = staged
    for page in [*all_pages(), *indexes]:
        assert broken_links(target, page) == []
        for link in links((target / page).read_text("utf-8")):
            assert not ((target / page).parent / link.path).is_dir() or not link.path, (
                "the site has no directories"
            )
    assert "docs/adr/README.md" in indexes


def test_the_navigation_has_every_page(staged: tuple[Path, list[str]]) -> None:
    listed: list[str] = []

    def walk(entry: object) -> None:
        if isinstance(entry, str):
            listed.append(entry)
        elif isinstance(entry, dict):
            walk(list(entry.values()))
        else:
            assert isinstance(entry, list)
            for one in entry:
                walk(one)

    nav = navigation(ROOT, staged[1])
    walk(nav)
    assert sorted(listed) == sorted([*all_pages(), "docs/adr/README.md"])
    assert nav[0] == {"Start": [{"Penstock": "README.md"}]}
    assert title_of(ROOT, "docs/spark.md") == "Spark"


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("Text:\n- one\n- two\n  goes on\n- three\n", "Text:\n\n- one\n- two\n  goes on\n- three\n"),
        ("Text:\n1. one\n2. two\n", "Text:\n\n1. one\n2. two\n"),
        ("Text:\n| a |\n|---|\n| b |\nMore.\n", "Text:\n\n| a |\n|---|\n| b |\n\nMore.\n"),
        ("```\nx\n- y\n| z |\n```\n", "```\nx\n- y\n| z |\n```\n"),
        ("- one\n\n```\na\n```\n- two\n", "- one\n\n```\na\n```\n\n- two\n"),
    ],
    ids=["list", "numbers", "table", "code", "after code"],
)
def test_lists_and_tables_have_empty_lines_around_them(ours: str, theirs: str) -> None:
    assert site_markdown(ours) == theirs


def test_what_comes_from_another_host_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<link rel="stylesheet" href="https://fonts.example/x.css"><link rel="canonical" href="https://a.example">'
        '<script src="//cdn.example/x.js"></script><a href="https://fine.example">x</a><img src="x.svg">'
    )
    (tmp_path / "b.css").write_text("a{background:url(data:x)} b{background:url('https://c.example/y.png')}")
    assert list(remote_loads(tmp_path)) == [
        "a.html: https://fonts.example/x.css",
        "a.html: //cdn.example/x.js",
        "b.css: https://c.example/y.png",
    ]


def test_the_settings_are_strict_and_load_no_fonts() -> None:
    class Loader(yaml.SafeLoader):
        pass

    Loader.add_multi_constructor("", lambda loader, suffix, node: suffix)
    settings = yaml.load(SETTINGS.read_text("utf-8"), Loader)
    assert settings["strict"] is True
    assert {settings["validation"][name] for name in ("not_found", "anchors", "unrecognized_links")} == {
        "warn"
    }
    assert settings["theme"]["font"] is False
    assert {one.get("scheme") for one in settings["theme"]["palette"]} == {None, "default", "slate"}
