"""Checks the pages of the built site: links and anchors lead somewhere, and nothing is loaded from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADING = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href", "object": "data"}
"""Elements that a browser loads something for, and the attribute that says what."""
FOREIGN = re.compile(r"""(?:\b(?:url|fetch|import)\(\s*|@import\s+)["']?(?:https?:)?//[^)"'\s]+""")
"""Styles and scripts that load something from elsewhere."""


@dataclass
class Page(HTMLParser):
    """The addresses of a page: where it can be linked to, what it links to, and what it loads."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found[name] for name in ("id", "name") if found.get(name)}
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        if tag in LOADING and found.get(LOADING[tag]):
            self.loads.append(found[LOADING[tag]])


def problems_of(folder: Path) -> list[str]:
    """Returns the problems of the site in `folder`, a line for each."""
    pages = {path: Page() for path in sorted(folder.rglob("*.html"))}
    for path, page in pages.items():
        page.feed(path.read_text(encoding="utf-8"))
    found = [f"{path.relative_to(folder)}: {what}" for path in pages for what in wrong(path, pages)]
    for file in sorted(path for path in folder.rglob("*") if path.suffix in (".css", ".html", ".js", ".svg")):
        foreign = FOREIGN.findall(file.read_text(encoding="utf-8"))
        found += [f"{file.relative_to(folder)}: loads {one}" for one in foreign]
    return found if pages else [f"{folder} has no pages"]


def wrong(path: Path, pages: dict[Path, Page]) -> Iterator[str]:
    page = pages[path]
    for address in page.loads:
        if urlsplit(address).netloc:
            yield f"loads {address}"
        elif not (path.parent / unquote(urlsplit(address).path)).exists() and not address.startswith("data:"):
            yield f"loads {address}, which is not there"
    for address in page.links:
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if not target.exists():
            yield f"links to {address}, which is not there"
        elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
            yield f"links to {address}, which has no such anchor"
