"""Drawing a recording as SVG: a window of a terminal, in light and in dark colours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from string import Template

from tools.timelines.sheet import WIDTH, sheet
from tools.timelines.svg import element, text

__all__ = ["FONT", "crash_picture", "draw_terminal", "width_of"]

FONT = 12.5
CHARACTER = 7.6
"""The width of a character of most monospaced fonts of that size, a little more than it is."""
LINE = 19
LEFT = 24
BAR = 36
"""The height of the window's bar with its title."""

CODE = re.compile(r'(?P<string>f?"[^"]*")|(?P<word>\b(?:from|import|lambda)\b)')
MARKS = re.compile(
    r"(?P<bad>^Killed, as by kill -9)|(?P<good>\bequal$|^Nothing is lost and nothing is counted twice\.$)"
)

FONTS = f"""
text {{ font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: {FONT}px }}
.title {{ font-family: sans-serif; font-size: 12px; text-anchor: middle }}
.step, .prompt, .good, .bad {{ font-weight: bold }}
"""
PAINT = Template("""
text { fill: $ink }
.title { fill: $faint }
.window { fill: $paper; stroke: $line }
.rule { stroke: $line }
.word { fill: $bad }
.string { fill: $window_edge }
.good, .prompt { fill: $version_edge }
.bad { fill: $bad }
""")


def crash_picture(recording: str) -> str:
    """Returns the picture of the tour's crash; the same bytes for the same recording."""
    return draw_terminal(
        "streams demo: the last of its four steps",
        "A terminal. An application of three results is shown, in eleven lines of Python. Its process gets 1000 orders"
        " and is killed in the middle of them; another one goes on with its state, and all three results are equal to"
        " those that plain Python computes.",
        "streams demo",
        recording,
    )


def draw_terminal(title: str, description: str, command: str, shown: str) -> str:
    """Returns the SVG of a terminal that shows a command, and below it what it wrote."""
    lines = [f"$ {command}", "", *shown.rstrip("\n").splitlines()]
    height = BAR + LINE * len(lines) + 26
    body = [part for number, line in enumerate(lines) for part in _line(line, BAR + 26 + LINE * number)]
    frame = [
        element("rect", class_="window", x=1, y=1, width=WIDTH - 2, height=height - 2, rx=8),
        element("line", class_="rule", x1=1, y1=BAR, x2=WIDTH - 1, y2=BAR),
        text(WIDTH / 2, 23, title, "title"),
    ]
    return sheet(title, description, height, [*frame, *body], FONTS, PAINT)


def width_of(line: str) -> float:
    """Returns about how far a line reaches, in the units of the picture."""
    return LEFT + CHARACTER * len(line)


def _line(line: str, y: int) -> Iterator[str]:
    """Yields the pieces of a line, each at its place: viewers differ in what they make of several spaces."""
    pattern = CODE if line.startswith("    ") else MARKS
    if line.startswith("$ "):
        pattern = re.compile(r"(?P<prompt>^\$)")
    elif re.match(r"\d\. ", line):
        pattern = re.compile(r"(?P<step>^.*$)")
    start = 0
    for found in pattern.finditer(line):
        yield from _words(line, start, found.start(), "", y)
        yield from _words(line, found.start(), found.end(), found.lastgroup or "", y)
        start = found.end()
    yield from _words(line, start, len(line), "", y)


def _words(line: str, start: int, end: int, class_: str, y: int) -> Iterator[str]:
    """Yields the texts of a piece, cut where there is more than one space."""
    for found in re.finditer(r"\S+(?: \S+)*", line[start:end]):
        place = start + found.start()
        length = CHARACTER * len(found[0])
        yield text(
            width_of(line[:place]), y, found[0], class_, textLength=round(length), lengthAdjust="spacingAndGlyphs"
        )
