"""The sheet that all pictures share: its size, fonts, light and dark colors, and the text for screen readers."""

from __future__ import annotations

from string import Template
from xml.sax.saxutils import escape

from tools.timelines.svg import element

__all__ = ["COLOURS", "FONT", "MARGIN", "WIDTH", "paper", "sheet"]

WIDTH = 840
MARGIN = 20
FONT = 13

COLOURS = {
    "paper": ("#ffffff", "#0d1117"),
    "ink": ("#1f2328", "#e6edf3"),
    "faint": ("#59636e", "#9da7b1"),
    "line": ("#d1d9e0", "#3d444d"),
    "window": ("#d6e7f8", "#173a5e"),
    "window_edge": ("#1f6fb5", "#6cb6ff"),
    "grace": ("#f7ebc8", "#4a3a10"),
    "grace_edge": ("#9a6700", "#d4a72c"),
    "version": ("#dcefe0", "#1c4428"),
    "version_edge": ("#1a7f37", "#56d364"),
    "dot": ("#1f5f9e", "#1f6fb5"),
    "bad": ("#b3261e", "#ff8b82"),
}
"""Each color on a light and on a dark ground."""


def sheet(title: str, description: str, height: int, body: list[str], fonts: str, paint: Template) -> str:
    """Returns an SVG of the width of a page; the same bytes each time.

    :param fonts: the part of the style that has no colors.
    :param paint: the part with colors, as ``$name``: written once for each ground, because some viewers cannot read
        variables of CSS.
    """
    light, dark = (paint.substitute({name: pair[side] for name, pair in COLOURS.items()}) for side in (0, 1))
    return element(
        "svg",
        element("title", escape(title), id="title"),
        element("desc", escape(description), id="desc"),
        element("style", f"{fonts}{light.lstrip()}@media (prefers-color-scheme: dark) {{{dark}}}\n"),
        *body,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {height}",
        width=WIDTH,
        height=height,
        role="img",
        aria_labelledby="title desc",
    )


def paper(height: int) -> str:
    """Returns the ground of a picture, which fills the sheet."""
    return element("rect", class_="paper", width=WIDTH, height=height)
