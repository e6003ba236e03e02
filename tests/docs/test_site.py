"""The site has every page and every public name, its links hold, and it loads nothing from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.public_names import public_names
from tools.site.build import build
from tools.site.check import problems_of
from tools.site.guides import GUIDES
from tools.site.navigation import DECISION_CHAPTERS, DECISIONS, DOCS, NAVIGATION, ROOT, pages
from tools.site.redirects import REDIRECTS, write_redirects
from tools.site.reference import REFERENCE, pages_of, shown
from tools.site.stage import LINK, stage

HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


@pytest.fixture(name="staged", scope="module")
def staged_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    stage(folder)
    return folder


def slugs(page: Path) -> list[str]:
    """The anchors of a page's headings."""
    titles = HEADING.findall(page.read_text())
    return [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]


def test_every_page_is_in_the_navigation_once() -> None:
    listed = [name for _, names in NAVIGATION for name in names]
    assert len(listed) == len(set(listed))
    there = {path.relative_to(ROOT).as_posix() for path in DOCS.glob("*.md")} - {"docs/README.md"}
    assert sorted(name for name in listed if name.startswith("docs/")) == sorted(there)
    chapters = set(DECISIONS.glob("*.md")) - {DECISIONS / "README.md"}
    assert sorted(DECISION_CHAPTERS) == sorted(chapters)
    assert {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "examples/README.md"} <= set(listed)


def test_every_public_name_is_in_the_reference() -> None:
    """With the members of classes; inherited ones are named there, and shown at the class that has them."""
    found = shown()
    assert sorted(set(public_names()) - set().union(*found.values())) == []
    assert found["streams.StreamsError.made_at"] > {"streams.StreamsError.made_at", "streams.TopologyError.made_at"}
    text = "".join(text for page, group in REFERENCE.items() for text in pages_of(page, group).values())
    for name in ("streams.KafkaStreams", "streams.serdes.serde_of", "streams.engines.register_engine"):
        assert re.search(rf"(auto\w+:: |``){re.escape(name)}\b", text), name


def test_a_name_that_two_modules_give_to_different_classes_has_two_pages() -> None:
    texts = {name: text for page, group in REFERENCE.items() for name, text in pages_of(page, group).items()}
    assert "from_bytes" in texts["streams.Position"]
    assert "from_json" in texts["streams.spark.Position"]
    assert "The same as :py:obj:`streams.Position`" not in texts["spark"]


def test_links_between_the_pages_of_the_site_hold(staged: Path) -> None:
    checked = 0
    for page in staged.rglob("*.md"):
        for _, target, anchor in LINK.findall(page.read_text()):
            if "://" in target:
                continue
            checked += 1
            found = page.parent / target
            assert found.exists(), f"{page.relative_to(staged)}: {target}"
            if anchor and found.suffix == ".md":
                assert anchor[1:] in slugs(found), f"{page.relative_to(staged)}: {target}{anchor}"
    assert checked > 300


def test_old_pages_redirect_to_pages_and_headings_that_exist() -> None:
    on_site = {path.relative_to(ROOT).as_posix() for path in pages()}
    for old, new in REDIRECTS.items():
        page, _, heading = old.partition("#")
        assert page in REDIRECTS, f"{old}: its page does not redirect"
        assert page not in on_site, f"{old}: the page still exists"
        assert heading or page.endswith(".md"), old
        target, mark, anchor = new.partition("#")
        assert target in on_site, f"{old} redirects to {new}, which does not exist"
        assert not mark or anchor in slugs(ROOT / target), f"{old} redirects to {new}, which has no such heading"


def test_links_to_old_pages_are_followed_on_the_built_site(tmp_path: Path) -> None:
    """The check of the site follows them, so a redirect that leads nowhere is a problem of the site."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "new.html").write_text('<p id="part"><p id="other">')
    redirects = {
        "docs/old.md": "docs/new.md#part",
        "docs/old.md#its-heading": "docs/new.md#other",
        "docs/attic/README.md": "docs/new.md",
    }
    write_redirects(tmp_path, redirects)
    old = (tmp_path / "docs" / "old.html").read_text()
    assert 'const targets = {"its-heading": "new.html#other"};' in old
    assert '?? "new.html#part"' in old
    assert '<meta http-equiv="refresh" content="0; url=new.html#part">' in old
    assert 'href="../new.html"' in (tmp_path / "docs" / "attic" / "index.html").read_text()
    assert problems_of(tmp_path) == []
    write_redirects(tmp_path, {"docs/old.md": "docs/gone.md"})
    assert problems_of(tmp_path) == ["docs/old.html: links to gone.html, which is not there"]


def test_readers_of_the_site_find_every_page(staged: Path) -> None:
    """A page is in a table of contents: that of the site, of the examples, or of the decisions."""
    assert len(list(staged.rglob("*.md"))) == len(pages())
    trees = re.findall(
        r"```\{toctree\}\n:hidden:\n(?::caption: .*\n)?\n((?:\S+\n)+)```", (staged / "index.md").read_text()
    )
    entries = {entry for tree in trees for entry in tree.split()}
    below = {f"examples/{path.parent.name}/index" for path in staged.glob("examples/*/index.md")}
    below |= {chapter.relative_to(ROOT).with_suffix("").as_posix() for chapter in DECISION_CHAPTERS}
    for page in staged.rglob("*.md"):
        name = page.relative_to(staged).with_suffix("").as_posix()
        assert name == "index" or name in entries | below, name


@pytest.mark.parametrize(
    ("html", "problem"),
    [
        ('<a href="b.html#there">b</a><a href="https://kafka.apache.org">k</a><img src="a.svg">', None),
        ('<a href="c.html">c</a>', "index.html: links to c.html, which is not there"),
        ('<a href="b.html#gone">b</a>', "index.html: links to b.html#gone, which has no such anchor"),
        ('<a href="#gone">b</a>', "index.html: links to #gone, which has no such anchor"),
        ('<script src="https://cdn.example/x.js"></script>', "index.html: loads https://cdn.example/x.js"),
        ('<link rel="stylesheet" href="//fonts.example/f">', "index.html: loads //fonts.example/f"),
        ('<img src="none.svg">', "index.html: loads none.svg, which is not there"),
        ("<style>@import 'https://fonts.example/f'</style>", "index.html: loads @import 'https://fonts.example/f"),
        ("<script>import('https://cdn.example/x')</script>", "index.html: loads import('https://cdn.example/x"),
    ],
)
def test_what_is_wrong_with_a_site_is_found(tmp_path: Path, html: str, problem: str | None) -> None:
    (tmp_path / "index.html").write_text(html)
    (tmp_path / "b.html").write_text('<p id="there">')
    (tmp_path / "a.svg").write_text("<svg/>")
    assert problems_of(tmp_path) == ([problem] if problem else [])


def test_a_style_sheet_that_loads_from_elsewhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("")
    (tmp_path / "a.css").write_text("@font-face { src: url(https://fonts.example/a) } a { background: url(b.svg) }")
    assert problems_of(tmp_path) == ["a.css: loads url(https://fonts.example/a"]


def test_an_empty_site_is_a_problem(tmp_path: Path) -> None:
    assert problems_of(tmp_path) == [f"{tmp_path} has no pages"]


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    """Every public name has its place in the built reference, and every page is found by the search."""
    pytest.importorskip("sphinx", reason="`make docs` installs it")
    inventory = pytest.importorskip("sphinx.util.inventory")
    folder = tmp_path / "site"
    assert build(folder) == []
    found = inventory.InventoryFile.loads((folder / "objects.inv").read_bytes(), uri="").data
    objects = {name for kind, names in found.items() if kind.startswith("py:") for name in names}
    assert sorted(shown().keys() - objects) == []
    index = (folder / "searchindex.js").read_text()
    assert [name for _, names in NAVIGATION for name in names if f'"{index_name(name)}"' not in index] == []


def index_name(name: str) -> str:
    """The name of a page in the index of the search."""
    return name.removesuffix(".md").replace("README", "index")


def test_no_paragraph_begins_in_lower_case() -> None:
    """A paragraph behind a block of code is a sentence of its own; decisions may begin with the name of a library."""
    for page in (page for page in pages() if page.parent != DECISIONS):
        text = re.sub(r"^```.*?^```$", "\n", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        begun = [one[:60] for one in re.split(r"\n\s*\n", text) if re.match(r"\s{0,3}[a-z]", one.strip("\n"))]
        assert begun == [], page


def test_each_class_has_a_page_of_the_reference() -> None:
    texts = {name: text for page, group in REFERENCE.items() for name, text in pages_of(page, group).items()}
    assert texts["streams.KafkaStreams"].count(".. autoclass::") == 1
    assert (
        "``from streams import KafkaStreams``; one of :doc:`Applications and settings <application>`."
        in texts["streams.KafkaStreams"]
    )
    assert all(".. autoclass::" not in texts[page] for page in REFERENCE)
    assert ":doc:`KafkaStreams <streams.KafkaStreams>`: " in texts["application"]
    assert len(texts) > 200


def test_pages_that_the_search_puts_behind_others_exist() -> None:
    scorer = (ROOT / "tools" / "site" / "static" / "scorer.js").read_text()
    named = set(re.findall(r'"((?:docs/\w+|[A-Z]\w+))"', scorer))
    assert "CHANGELOG" in named
    assert named <= {page.relative_to(ROOT).with_suffix("").as_posix() for page in pages()}
    assert f'"docs/{DECISIONS.name}/"' in scorer


def test_guides_link_to_the_reference_and_back(staged: Path) -> None:
    """Below the first paragraph of a guide, and on the page of the class, or of the class that has the member."""
    sections = dict(NAVIGATION)
    assert {*sections["Write"], *sections["State"], "docs/testing.md"} <= GUIDES.keys()
    known, classes = shown().keys(), {path.stem for path in (staged / "reference").glob("*.rst")}
    for page, names in GUIDES.items():
        assert [name for name in names if name not in known] == [], page
        line = (staged / page).read_text().split("\n\n")[2]
        assert re.findall(r"\{py:obj\}`[\w.]+ <([\w.]+)>`", line) == list(names), page
        link = f"</{page.removesuffix('.md')}>`"
        for name in names:
            home = next((one for one in (name, name.rpartition(".")[0]) if one in classes), None)
            assert home is None or link in (staged / "reference" / f"{home}.rst").read_text(), (page, name)
    assert "{py:obj}`KTable.join <streams.KTable.join>`" in (staged / "docs" / "joins.md").read_text()
    functions = (staged / "reference" / "serdes.rst").read_text()
    assert "serde_of\n--------\n\nGuide: :doc:`Serdes </docs/serdes>`.\n" in functions
