"""The pages of the documentation: their order, titles, links and anchors. Never writes a file.

The site (`doc_site.py`) and the tests of the pages use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import yaml

ROOT = Path(__file__).resolve().parent.parent
ORDER = "docs/order.yaml"
OTHER_SECTION = "More"
FENCE = re.compile(r"^ {0,3}(```+|~~~+)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$")
_CODE_SPAN = re.compile(r"(`+)(?:(?!\1).)+?\1")
_LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(\s*<?([^\s)>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)


class Link(NamedTuple):
    """A link of a page to a place in the repository; `path` is empty for a link within the page."""

    line: int
    path: str
    anchor: str


class Section(NamedTuple):
    """One group of pages in the navigation, as paths relative to the repository."""

    title: str
    pages: tuple[str, ...]


def all_pages(root: Path = ROOT) -> list[str]:
    """Every page: those of docs/, the ones at the top of the repository, and README files of client programs."""
    found = [*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("clients/*/README.md")]
    return sorted(page.relative_to(root).as_posix() for page in found)


def sections(root: Path = ROOT) -> list[Section]:
    """All pages, each once, in the order of `docs/order.yaml`. Raises ValueError for a name that matches no page."""
    left = dict.fromkeys(all_pages(root))
    chosen: list[tuple[str, list[str]]] = []
    for title, patterns in yaml.safe_load((root / ORDER).read_text("utf-8")).items():
        pages: list[str] = []
        for pattern in patterns:
            named = {file.relative_to(root).as_posix() for file in root.glob(pattern)}
            matching = [page for page in left if page in named]
            if not matching:
                raise ValueError(f"{ORDER}: {title} lists {pattern}, but no page that is left has this name")
            pages += matching
            for page in matching:
                del left[page]
        chosen.append((title, pages))
    others = sorted(left, key=lambda page: title_of(root, page).casefold())
    return [
        Section(title, (*pages, *others) if title == OTHER_SECTION else tuple(pages))
        for title, pages in chosen
        if pages or (title == OTHER_SECTION and others)
    ]


def title_of(root: Path, page: str) -> str:
    """The first heading of a page, without markup."""
    for _, line in prose_lines((root / page).read_text("utf-8")):
        if found := _HEADING.match(line):
            return _plain(found[1])
    raise ValueError(f"{page} has no heading")


def prose_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines outside of code blocks, with their numbers."""
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        found = FENCE.match(line)
        if fence:
            if found and found[1].startswith(fence):
                fence = ""
        elif found:
            fence = found[1]
        else:
            yield number, line


def links(text: str) -> list[Link]:
    """Links to files and anchors of the repository; those to other sites are left out."""
    lines = dict(prose_lines(text))
    prose = "\n".join(lines.get(number, "") for number in range(1, text.count("\n") + 2))
    prose = _CODE_SPAN.sub(_blank, prose)
    found = []
    for match in _LINK.finditer(prose):
        if not _SCHEME.match(match[1]):
            path, _, anchor = match[1].partition("#")
            number = prose.count("\n", 0, match.start()) + 1
            found.append(Link(number, unquote(path), unquote(anchor)))
    return found


@cache
def anchors(page: Path) -> frozenset[str]:
    """Anchors of the headings of a page, as GitHub and the site name them.

    If a heading repeats, only its first anchor counts: GitHub and the site number the others differently.
    """
    lines = prose_lines(page.read_text("utf-8"))
    return frozenset(slug(_plain(found[1])) for _, line in lines if (found := _HEADING.match(line)))


def slug(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")


def broken_links(root: Path, page: str) -> list[str]:
    """Every link of a page that leads nowhere, with the reason."""
    found = []
    for link in links((root / page).read_text("utf-8")):
        target = ((root / page).parent / link.path).resolve() if link.path else root / page
        where = f"{page}:{link.line}: {link.path}{'#' if link.anchor else ''}{link.anchor}"
        if not target.is_relative_to(root):
            found.append(f"{where}: outside of the repository")
        elif not target.exists():
            found.append(f"{where}: no such file")
        elif link.anchor and (target.suffix != ".md" or link.anchor not in anchors(target)):
            found.append(f"{where}: no such heading")
    return found


def _blank(span: re.Match[str]) -> str:
    """A code span of the same length without brackets, so that code in a link's text remains part of it."""
    return re.sub(r"[\[\]()]", " ", span[0])


def _plain(title: str) -> str:
    """A heading without links, code marks and emphasis."""
    return re.sub(r"[`*]", "", re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", title)).strip()
