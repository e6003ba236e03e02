"""Redirects from the addresses of pages that were merged or renamed, so that old links still work."""

from __future__ import annotations

import json
import os
from html import escape
from pathlib import Path

from tools.site.navigation import ROOT
from tools.site.stage import staged

REDIRECTS: dict[str, str] = {
    "docs/from-bytewax.md": "docs/from-other-libraries.md#bytewax",
    "docs/from-faust.md": "docs/from-other-libraries.md#faust",
    "docs/from-quix.md": "docs/from-other-libraries.md#quix-streams",
    "docs/global-stores.md": "docs/stores.md#global-tables",
    "docs/global-stores.md#read-only-stores": "docs/stores.md#read-only-stores",
    "docs/migration.md": "docs/from-java.md#move-an-application",
    "docs/migration.md#from-kafka-streams-before-44": "docs/from-java.md#from-kafka-streams-before-44",
    "docs/migration.md#what-carries-over": "docs/from-java.md#what-moves",
    "docs/migration.md#what-does-not": "docs/from-java.md#what-moves",
    "docs/migration.md#with-avro-in-a-schema-registry": "docs/from-java.md#with-avro-in-a-schema-registry",
    "docs/suppression.md": "docs/windows.md#suppression",
    "docs/suppression.md#from-java": "docs/windows.md#from-java",
    "docs/table-joins.md": "docs/joins.md#a-table-with-a-table",
    "docs/table-joins.md#by-a-foreign-key": "docs/joins.md#a-table-with-a-table-by-foreign-key",
    "docs/table-joins.md#from-java": "docs/joins.md#from-java",
    "docs/time-to-live.md": "docs/beyond-java.md#rows-that-expire",
    "docs/time-to-live.md#expired-keys": "docs/beyond-java.md#expired-rows",
    "docs/time-to-live.md#the-start-of-the-time-to-live": "docs/beyond-java.md#start-of-the-time-to-live",
    "docs/time-to-live.md#turning-it-on-and-off": "docs/beyond-java.md#enable-and-disable",
    "docs/versioned-stores.md": "docs/stores.md#versioned-stores",
    "docs/versioned-stores.md#from-a-plain-store-to-a-versioned-one": "docs/stores.md#upgrades-of-a-store",
    "docs/versioned-stores.md#lru-maps-and-lists": "docs/stores.md#lru-maps-and-lists",
    "docs/versioned-stores.md#plain-timestamped-with-headers": "docs/stores.md#upgrades-of-a-store",
    "docs/versioned-stores.md#versioned-tables": "docs/tables.md#versioned-tables",
    "docs/versioned-tables.md": "docs/tables.md#versioned-tables",
    "docs/versioned-tables.md#from-java": "docs/tables.md#from-java",
    "docs/windows-and-sessions.md": "docs/stores.md#window-and-session-stores",
    "docs/windows-and-sessions.md#expiry": "docs/stores.md#expiry-of-windows",
    "docs/windows-and-sessions.md#from-plain-to-timestamped-and-to-headers": "docs/stores.md#upgrades-of-a-store",
    "docs/windows-and-sessions.md#headers": "docs/stores.md#headers-in-windows-and-sessions",
}
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
