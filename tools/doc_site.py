"""Builds the documentation site from the pages of the repository into build/site/html. Never changes a page.

    build/site/.venv/bin/python tools/doc_site.py

`make site` installs what it needs first. Pages are copied to build/site/pages with the layout of the repository, so
that links between README, docs/ and examples hold there as they do on GitHub. A link that leads nowhere, and anything
that a page would load from another host, fails the build.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import yaml

from doc_pages import FENCE, ROOT, all_pages, broken_links, links, sections, title_of

BUILD = ROOT / "build" / "site"
SETTINGS = ROOT / "tools" / "mkdocs.yml"
INDEX = "README.md"
DIRECTORY_TITLES = {"docs/adr": "Decision records"}
"""Titles of directories that pages link to; others are named by their path."""
_ITEM = re.compile(r"^([-*+]|\d+\.) ")
_LOADING = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
_LINK_NOT_LOADED = {"canonical", "alternate", "next", "prev", "license"}
_REMOTE = re.compile(r"^(?:https?:)?//")
_REMOTE_STYLE = re.compile(r"(?:url\(\s*['\"]?|@import\s+['\"])((?:https?:)?//[^'\")]+)")


def site_markdown(text: str) -> str:
    """A page as Python-Markdown reads it: unlike GitHub, it wants an empty line around lists and tables."""
    lines: list[str] = []
    fence = ""
    for line in text.splitlines():
        found = FENCE.match(line)
        if not fence and lines and _needs_gap(lines[-1], line):
            lines.append("")
        if found and not fence:
            fence = found[1]
        elif found and found[1].startswith(fence):
            fence = ""
        lines.append(line)
    return "\n".join(lines) + "\n"


def _needs_gap(before: str, line: str) -> bool:
    if not before.strip() or not line.strip():
        return False
    starts_table = line.startswith("|") and not before.startswith("|")
    ends_table = before.startswith("|") and not line.startswith("|")
    starts_list = bool(_ITEM.match(line)) and not _ITEM.match(before) and not before.startswith(" ")
    return starts_table or ends_table or starts_list


def stage(root: Path, target: Path) -> list[str]:
    """Copy all pages and everything they link to; returns the index pages that were made for directories."""
    pages = set(all_pages(root))
    made: dict[str, None] = {}
    for page in sorted(pages):
        text = (root / page).read_text("utf-8")
        for link in links(text):
            goal = ((root / page).parent / link.path).resolve() if link.path else root / page
            name = goal.relative_to(root).as_posix()
            if goal.is_dir():
                index = f"{name}/{INDEX}"
                if index not in pages:
                    made[index] = None
                text = text.replace(f"]({link.path})", f"]({link.path.rstrip('/')}/{INDEX})")
            elif name not in pages:
                _copy(root, target, name)
        _write(target / page, site_markdown(text))
    for index in made:
        _stage_directory(root, target, index)
    return list(made)


def _stage_directory(root: Path, target: Path, index: str) -> None:
    """An index page: the titles of the pages in a directory, the names of other files."""
    directory = (root / index).parent
    lines = [f"# {directory_title(index)}", ""]
    for file in sorted(one for one in directory.iterdir() if one.is_file()):
        name = file.relative_to(root).as_posix()
        if file.suffix == ".md":
            lines.append(f"- [{title_of(root, name)}]({file.name})")
        else:
            lines.append(f"- [{file.name}]({file.name})")
            _copy(root, target, name)
    _write(target / index, "\n".join(lines) + "\n")


def directory_title(index: str) -> str:
    directory = Path(index).parent.as_posix()
    return DIRECTORY_TITLES.get(directory, directory)


def _copy(root: Path, target: Path, name: str) -> None:
    (target / name).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(root / name, target / name)


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")


def navigation(root: Path, indexes: list[str]) -> list[dict[str, object]]:
    """MkDocs' nav. An index page stands in front of the pages of its directory, which form a group below it."""
    nav: list[dict[str, object]] = []
    for section in sections(root):
        entries: list[object] = []
        groups: dict[str, list[object]] = {}
        for page in section.pages:
            index = f"{Path(page).parent.as_posix()}/{INDEX}"
            entry = {title_of(root, page): page}
            if index not in indexes:
                entries.append(entry)
            elif index in groups:
                groups[index].append(entry)
            else:
                groups[index] = [index, entry]
                entries.append({directory_title(index): groups[index]})
        nav.append({section.title: entries})
    return nav


class _Loads(HTMLParser):
    """Collects what a page loads from another host by itself; links that a reader follows are fine."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "link" and given.get("rel") in _LINK_NOT_LOADED:
            return
        address = given.get(_LOADING.get(tag, ""))
        if address and _REMOTE.match(address):
            self.found.append(address)


def remote_loads(site: Path) -> Iterator[str]:
    """Everything that pages and style sheets load from another host."""
    for file in sorted(site.rglob("*")):
        if file.suffix == ".html":
            page = _Loads()
            page.feed(file.read_text("utf-8"))
            yield from (f"{file.relative_to(site)}: {address}" for address in page.found)
        elif file.suffix in {".css", ".svg"}:
            found = _REMOTE_STYLE.findall(file.read_text("utf-8"))
            yield from (f"{file.relative_to(site)}: {address}" for address in found)


def main() -> int:
    broken = [one for page in all_pages() for one in broken_links(ROOT, page)]
    if broken:
        sys.stderr.write("\n".join(["site: links lead nowhere:", *broken, ""]))
        return 1
    pages, site, settings = BUILD / "pages", BUILD / "html", BUILD / "mkdocs.yml"
    shutil.rmtree(pages, ignore_errors=True)
    nav = navigation(ROOT, stage(ROOT, pages))
    chosen = {
        "INHERIT": os.path.relpath(SETTINGS, BUILD),
        "docs_dir": "pages",
        "site_dir": "html",
        "nav": nav,
    }
    settings.write_text(yaml.safe_dump(chosen, allow_unicode=True, sort_keys=False), "utf-8")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--clean", "--config-file", str(settings)]
    # Not --quiet: MkDocs would not count the warnings that --strict turns into a failure.
    built = subprocess.run(command, env=environment, capture_output=True, text=True)
    if built.returncode:
        told = (built.stdout + built.stderr).splitlines(keepends=True)
        marked = [line for line in told if line.startswith(("WARNING", "ERROR", "Aborted"))]
        sys.stderr.writelines(marked or told)
        return built.returncode
    remote = list(remote_loads(site))
    for one in remote:
        sys.stderr.write(f"site: loads from another host: {one}\n")
    if remote:
        return 1
    count = sum(1 for _ in site.rglob("*.html"))
    here = site.relative_to(ROOT)
    sys.stdout.write(
        f"site: {count} pages in {here}; to read it: python3 -m http.server --directory {here}\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
