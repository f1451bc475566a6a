"""Links and anchors of all pages resolve; the order of the pages is complete."""

from __future__ import annotations

from pathlib import Path

import pytest

from doc_pages import OTHER_SECTION, ROOT, all_pages, anchors, broken_links, links, sections


@pytest.mark.parametrize("page", all_pages())
def test_links_of_a_page_resolve(page: str) -> None:
    assert broken_links(ROOT, page) == []


def test_there_are_links_to_check() -> None:
    """A parser that finds nothing would find nothing broken."""
    found = [link for page in all_pages() for link in links((ROOT / page).read_text("utf-8"))]
    assert len(found) > 80
    assert len([link for link in found if link.anchor]) > 15


def test_every_page_is_in_the_navigation_once() -> None:
    listed = [page for section in sections() for page in section.pages]
    assert sorted(listed) == all_pages()
    assert listed[0] == "README.md"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "order.yaml").write_text(f"Start: [README.md]\n{OTHER_SECTION}: []\n")
    (tmp_path / "README.md").write_text("# Home\n")
    return tmp_path


def test_broken_links_are_found(tree: Path) -> None:
    first = "[`code [0]`](other.md) [up](../../secret) [here](#a-page) [gone](#nothing)"
    (tree / "docs" / "page.md").write_text(f"# A page\n{first}\n[over two\nlines](../README.md#home)\n")
    assert broken_links(tree, "docs/page.md") == [
        "docs/page.md:2: other.md: no such file",
        "docs/page.md:2: ../../secret: outside of the repository",
        "docs/page.md:2: #nothing: no such heading",
    ]


def test_code_is_not_a_link(tree: Path) -> None:
    (tree / "docs" / "page.md").write_text(
        "# A\n```\n[x](nowhere.md)\n# not a heading\n```\n`[x](nowhere.md)`\n"
    )
    assert broken_links(tree, "docs/page.md") == []
    assert anchors(tree / "docs" / "page.md") == {"a"}


def test_a_page_that_is_not_listed_is_in_the_navigation(tree: Path) -> None:
    (tree / "docs" / "zebra.md").write_text("# A zebra\n")
    (tree / "docs" / "ape.md").write_text("# The ape\n")
    assert sections(tree)[1:] == [(OTHER_SECTION, ("docs/zebra.md", "docs/ape.md"))]


def test_a_listed_page_that_is_missing_is_an_error(tree: Path) -> None:
    (tree / "docs" / "order.yaml").write_text("Start: [README.md, docs/gone.md]\n")
    with pytest.raises(ValueError, match=r"docs/gone\.md"):
        sections(tree)
