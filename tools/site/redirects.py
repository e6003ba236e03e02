"""Redirects from the addresses of pages that were merged or renamed, so that old links still work."""

from __future__ import annotations

import json
import os
from html import escape
from pathlib import Path

from tools.site.navigation import ROOT
from tools.site.stage import staged

REDIRECTS: dict[str, str] = {}
"""The current page of each page that was merged or renamed, with the heading where its text is now.

Keys and values are paths in the repository. A key with an anchor, such as `docs/old.md#heading`, gives one heading of
an old page its own target. A value is never an old page.
"""

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Page moved</title>
<script>
const targets = {targets};
location.replace(targets[decodeURIComponent(location.hash.slice(1))] ?? {default});
</script>
<noscript><meta http-equiv="refresh" content="0; url={target}"></noscript>
</head>
<body>
<p>This page has moved:</p>
<ul>
{links}
</ul>
</body>
</html>
"""


def address(path: str) -> str:
    """Returns the address on the site for a path in the repository, which may end with an anchor."""
    page, mark, anchor = path.partition("#")
    return staged(ROOT / page).with_suffix(".html").as_posix() + mark + anchor


def redirect_page(page: str, redirects: dict[str, str]) -> str:
    """Returns the HTML that leads from an old page to its current one, and from its headings to theirs."""
    folder = Path(address(page)).parent

    def relative(path: str) -> str:
        place, mark, anchor = address(path).partition("#")
        return Path(os.path.relpath(place, folder)).as_posix() + mark + anchor

    target = relative(redirects[page])
    of_headings = {old.partition("#")[2]: relative(new) for old, new in redirects.items() if old.startswith(f"{page}#")}
    links = [
        f'<li><a href="{escape(link)}">{escape(link)}</a></li>'
        for link in dict.fromkeys([target, *of_headings.values()])
    ]
    return PAGE.format(
        target=escape(target), targets=json.dumps(of_headings), default=json.dumps(target), links="\n".join(links)
    )


def write_redirects(folder: Path, redirects: dict[str, str] = REDIRECTS) -> None:
    """Writes a page that redirects for each old page to the built site in `folder`."""
    for page in (path for path in redirects if "#" not in path):
        file = folder / address(page)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(redirect_page(page, redirects), encoding="utf-8")
