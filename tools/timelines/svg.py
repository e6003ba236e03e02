"""A small writer of SVG: elements with attributes in the order given, whole numbers, one element a line."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

__all__ = ["element", "text", "text_width"]

CHARACTER_WIDTH = 0.56
"""The width of a usual character of a sans-serif font, in parts of the font's size."""


def element(tag: str, *children: str, **attributes: object) -> str:
    """Returns an element; an underscore in the name of an attribute stands for a hyphen, one at its end for nothing."""
    given = "".join(
        f" {name.rstrip('_').replace('_', '-')}={quoteattr(str(value))}" for name, value in attributes.items()
    )
    if not children:
        return f"<{tag}{given}/>"
    if len(children) == 1 and not children[0].startswith("<"):
        return f"<{tag}{given}>{children[0]}</{tag}>"
    lines = "".join(f"{child}\n" for child in children)
    return f"<{tag}{given}>\n{lines}</{tag}>"


def text(x: float, y: float, words: str, class_: str = "", **attributes: object) -> str:
    """Returns a text whose baseline begins at a point, or ends there or has its middle there by ``text_anchor``."""
    named = {"class": class_} if class_ else {}
    return element("text", escape(words), x=round(x), y=round(y), **named, **attributes)


def text_width(words: str, size: int) -> float:
    """Returns about how wide a text is, in the units of the picture; every viewer has another font."""
    return len(words) * size * CHARACTER_WIDTH
