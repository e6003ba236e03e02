"""The site's two files for language models: `llms.txt` lists the pages, `llms-full.txt` teaches to write code.

Both are generated: from the pages in their order, from the code as the reference is, and from `llms-guide.md`.
"""

from __future__ import annotations

import re
from pathlib import Path

from tools.package_metadata import CODE
from tools.site.api_text import SENTENCE, api
from tools.site.navigation import NAVIGATION, ROOT
from tools.site.redirects import address
from tools.site.reference import REFERENCE

GUIDE = Path(__file__).with_name("llms-guide.md")
OPTIONAL = "How it works"
"""Pages that a reader with little room can skip; `llms.txt` has a section of this meaning."""
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
PICTURE = re.compile(r"^!\[[^\]]*\]\([^)]*\)\n+", re.MULTILINE)
CODE_OR_HEADING = re.compile(r"(^```.*?^```$)|^#+ ", re.MULTILINE | re.DOTALL)


def write_llms(folder: Path) -> None:
    """Writes `llms.txt` and `llms-full.txt` to the site in `folder`."""
    (folder / "llms.txt").write_text(short(), encoding="utf-8")
    (folder / "llms-full.txt").write_text(full(), encoding="utf-8")


def short() -> str:
    """Returns the text of `llms.txt`: a list of pages with a sentence for each."""
    lines = [*head(), "", "[All of it in one file](llms-full.txt): concepts, common mistakes, and the public API.", ""]
    sections = sorted(NAVIGATION, key=lambda section: section[0] == OPTIONAL)  # The optional pages come last.
    for caption, names in sections[:-1]:
        lines += [f"## {caption}", "", *(page_line(name) for name in names), ""]
    lines += ["## Reference", ""]
    lines += [f"- [{group.title}](reference/{page}.html): `{group.module}`" for page, group in REFERENCE.items()]
    optional = [*sections[-1][1], "docs/decisions/README.md"]
    lines += ["", "## Optional", "", *(page_line(name) for name in optional)]
    return "\n".join(lines) + "\n"


def full() -> str:
    """Returns the text of `llms-full.txt`."""
    concepts = (ROOT / "docs" / "concepts.md").read_text(encoding="utf-8")
    parts = [
        "\n".join(head()),
        "## Ten lines\n\n" + plain(section((ROOT / "README.md").read_text(encoding="utf-8"), "Ten lines")),
        "## Concepts\n\n" + plain(deeper(concepts.partition("\n## ")[2].partition("\n## Glossary")[0])),
        GUIDE.read_text(encoding="utf-8").strip(),
        "## Public API\n\nEvery public name, by the module from which you import it.",
        *(part for group in REFERENCE.values() for part in api(group)),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def head() -> list[str]:
    """The title, and a quotation that says what the library is: the first paragraph of the README."""
    paragraph = (ROOT / "README.md").read_text(encoding="utf-8").split("\n\n")[1]
    return ["# streams", "", "> " + " ".join(paragraph.replace("**", "").split())]


def page_line(name: str) -> str:
    text = (ROOT / name).read_text(encoding="utf-8")
    title = text.partition("\n")[0].removeprefix("# ").strip()
    return f"- [{title}]({address(name)}): {first_sentence(text)}"


def first_sentence(text: str) -> str:
    """Returns the first sentence of a page's prose, without links and marks."""
    without_code = CODE.sub("", text)
    paragraphs = (part.strip() for part in without_code.split("\n\n")[1:])
    prose = next(part for part in paragraphs if part and part[0] not in "#|!<")
    flow = LINK.sub(r"\1", " ".join(prose.split())).replace("**", "")
    return (SENTENCE.match(flow) or [flow])[0].rstrip(".:") + "."


def section(text: str, title: str) -> str:
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0].strip()


def deeper(text: str) -> str:
    """A page's sections, as parts of a section of another text."""
    return CODE_OR_HEADING.sub(lambda found: found[1] or "#" + found[0], "## " + text)


def plain(text: str) -> str:
    """The text without pictures, and with the words of its links alone."""
    parts = CODE.split(PICTURE.sub("", text))
    parts[::2] = [LINK.sub(r"\1", part) for part in parts[::2]]
    return "".join(parts)
