"""The pictures of the documentation are what the topologies do now, and can be read."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest

from tools.timelines.drawing import draw
from tools.timelines.picture import Dot, DotKind, Lane, LaneKind, Picture, Span
from tools.timelines.pictures import FOLDER, SCENES, STRIPS, pictures
from tools.timelines.sheet import COLOURS, FONT, MARGIN, WIDTH
from tools.timelines.strip import Chip, ChipKind, Panel, Strip, draw_strip
from tools.timelines.svg import text_width

TITLE = 18
"""The size of a title in pixels, with what bold letters take besides."""
PICTURE = re.compile(r"!\[([^\]]*)\]\(pictures/([\w-]+)\.svg\)")
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(name="drawn", scope="module")
def drawn_fixture() -> dict[str, str]:
    return pictures()


def test_the_pictures_are_drawn_by_the_command(drawn: dict[str, str]) -> None:
    """Byte by byte; else run `make pictures`, look at them, and check them in."""
    there = {path.stem: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.svg")}
    assert sorted(there) == sorted(drawn)
    assert [name for name in drawn if drawn[name] != there[name]] == []


def test_each_picture_is_shown_on_a_page() -> None:
    """With a text for readers who do not see it."""
    text = "".join(page.read_text() for page in FOLDER.parent.glob("*.md"))
    shown = {name for words, name in PICTURE.findall(text) if len(words.split()) > 5}
    assert [name for name in (*SCENES, *STRIPS) if name not in shown] == []


@pytest.mark.parametrize("name", [*SCENES, *STRIPS])
def test_a_picture_is_described_and_nothing_is_outside_of_it(name: str, drawn: dict[str, str]) -> None:
    root = ElementTree.fromstring(drawn[name])
    assert root.get("role") == "img"
    for part in ("title", "desc"):
        assert (root.findtext(f"{SVG}{part}") or "").strip()
    height = int(root.get("height") or 0)
    for element in root.iter(f"{SVG}text"):
        words, x, y = " ".join(element.itertext()).strip(), float(element.get("x", "")), float(element.get("y", ""))
        width = text_width(words, TITLE if element.get("class") == "title" else FONT)
        start = x - {"middle": width / 2, "end": width}.get(element.get("text-anchor", ""), 0)
        assert start >= 0, words
        assert start + width <= WIDTH, words
        assert 0 < y < height, words


@pytest.mark.parametrize("side", [0, 1], ids=["light", "dark"])
def test_texts_stand_out_from_what_is_behind_them(side: int) -> None:
    """By the ratio of WCAG 2.1, which asks for 4.5."""
    colours = {name: pair[side] for name, pair in COLOURS.items()} | {"white": "#ffffff"}
    pairs = [("ink", ground) for ground in ("paper", "window", "grace", "version")]
    pairs += [("faint", "paper"), ("bad", "paper"), ("white", "dot")]
    weak = {pair: ratio for pair in pairs if (ratio := contrast(*(colours[name] for name in pair))) < 4.5}
    assert weak == {}


def contrast(one: str, other: str) -> float:
    brighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("name", STRIPS)
def test_the_chips_of_a_strip_hold_their_texts_and_do_not_overlap(name: str, drawn: dict[str, str]) -> None:
    root = ElementTree.fromstring(drawn[name])
    chips = [rect for rect in root.iter(f"{SVG}rect") if rect.get("rx") == "4"]
    assert len(chips) > 5
    places = [tuple(float(rect.get(part, "")) for part in ("x", "y", "width", "height")) for rect in chips]
    for number, (x, y, width, height) in enumerate(places):
        assert MARGIN <= x <= x + width <= WIDTH - MARGIN
        for other_x, other_y, other_width, other_height in places[:number]:
            apart = x >= other_x + other_width or other_x >= x + width
            assert apart or y >= other_y + other_height or other_y >= y + height
    written = [text for text in root.iter(f"{SVG}text") if text.find(f"{SVG}tspan") is not None]
    assert len(written) == len(chips)
    for text, (x, _, width, _) in zip(written, places, strict=True):
        needed = text_width("".join(text.itertext()).replace("\n", ""), FONT)
        assert needed < width
        assert float(text.get("x", "")) == pytest.approx(x + width / 2, abs=1)


def test_a_strip_shows_what_happens_to_each_record() -> None:
    rows = (((Chip("ann", "1"),), "dropped"), ((Chip("bob", None),), (Chip("bob", "2 < 3", ChipKind.RESULT, "late"),)))
    strip = Strip("A title", (Panel("filter", "some", ("record", "result"), rows),))
    assert strip.description == (
        "filter, some: record ann: 1, result dropped; record bob: null, result bob: 2 < 3 (late)."
    )
    found = draw_strip(strip)
    assert re.findall(r'<rect class="(\w+)" x="\d+" y="(\d+)"', found)[:3] == [
        ("record", "116"),
        ("deletion", "147"),
        ("result", "147"),
    ]
    assert "2 &lt; 3" in found
    assert "in a store" not in found, "the legend has only kinds that the strip shows"


def test_things_lie_where_their_times_are() -> None:
    lanes = (
        Lane("records", LaneKind.RECORDS, (Dot(0, number=1), Dot(5_000, number=2), Dot(10_000, number=3))),
        Lane("window", LaneKind.SPANS, spans=(Span(5_000, None),)),
        Lane(
            "results", LaneKind.RESULTS, (Dot(4_000, DotKind.RESULT, text="one"), Dot(4_100, DotKind.RESULT, text="<"))
        ),
    )
    found = draw(Picture("A title", "All of it", lanes))
    centres = [int(x) for x in re.findall(r'class="record" cx="(\d+)" cy="\d+" r="10"', found)]
    assert centres[1] - centres[0] == centres[2] - centres[1] > 0
    start, width = re.findall(r'class="window" x="(\d+)" y="\d+" width="(\d+)"', found)[-1]  # the first is the legend's
    assert (int(start), int(start) + int(width)) == (centres[1], centres[2])
    rows = re.findall(r'class="result" d="M\d+ (\d+)', found)
    assert len(set(rows)) == 3, "two results whose texts would overlap, and the legend"
    assert "&lt;" in found
