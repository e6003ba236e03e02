"""Copies the pages of the site to a folder that Sphinx reads, with their links as the site has them.

The pages stay where readers of the repository look for them. A `README.md` becomes the `index.md` of its folder, a link
to a folder of pages leads to its index, and a link to any other file of the repository to a copy of that file.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from tools.package_metadata import CODE, LINK
from tools.site.guides import with_api_line
from tools.site.navigation import DECISION_CHAPTERS, DECISIONS, NAVIGATION, ROOT, pages
from tools.site.reference import REFERENCE, write_reference


def stage(folder: Path) -> None:
    """Writes every page of the site below `folder`, which must be empty or absent."""
    for page in pages():
        write(folder, page, page_text(page, folder))
    write_reference(folder / "reference")


def write(folder: Path, page: Path, text: str) -> None:
    target = folder / staged(page)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")


def staged(page: Path) -> Path:
    """The page's place on the site."""
    name = page.relative_to(ROOT)
    return name.with_name("index.md") if name.name == "README.md" else name


def page_text(page: Path, folder: Path) -> str:
    name = page.relative_to(ROOT).as_posix()
    parts = CODE.split(with_api_line(name, page.read_text(encoding="utf-8")))
    parts[::2] = [LINK.sub(lambda found: link(found, page, folder), part) for part in parts[::2]]
    text = "".join(parts)
    if page == ROOT / "README.md":
        return text + navigation()
    if page == ROOT / "examples" / "README.md":
        return text + toctree("", [f"{path.parent.name}/index" for path in sorted(page.parent.glob("*/README.md"))])
    if page == DECISIONS / "README.md":
        return text + toctree("", [path.stem for path in DECISION_CHAPTERS])
    if page.parent.parent == ROOT / "examples":
        return text + scripts(page, folder)
    return text


def link(found: re.Match[str], page: Path, folder: Path) -> str:
    label, target, anchor = found[1], found[2], found[3] or ""
    if "://" in target:
        return found[0]
    path = (page.parent / target).resolve()
    if path.is_dir():
        if not (path / "README.md").exists():
            return label[1:-1]
        path /= "README.md"
    if path.suffix != ".md":
        copy = folder / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
        return found[0]
    return f"{label}({relative(staged(page), staged(path))}{anchor})"


def relative(page: Path, target: Path) -> str:
    return Path(os.path.relpath(target, page.parent)).as_posix()


def toctree(caption: str, names: list[str]) -> str:
    title = f":caption: {caption}\n" if caption else ""
    return "\n\n```{toctree}\n:hidden:\n" + title + "\n" + "\n".join(names) + "\n```\n"


def navigation() -> str:
    """The tables of contents that the side of every page shows."""
    trees = []
    for caption, names in NAVIGATION:
        entries = [staged(ROOT / name).with_suffix("").as_posix() for name in names if name != "README.md"]
        if caption == "Start":
            entries = [*entries, "docs/index"]
        if caption == "How it works":
            entries = [*entries, "docs/decisions/index"]
        trees += [toctree(caption, entries)] if entries else []
    trees.append(toctree("Reference", [f"reference/{name}" for name in REFERENCE]))
    return "".join(trees)


def scripts(page: Path, folder: Path) -> str:
    """The scripts of an example below its text."""
    shown = []
    for script in sorted(page.parent.glob("*.py")):
        copy = folder / script.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(script, copy)
        shown.append(f"\n## {script.name}\n\n```{{literalinclude}} {script.name}\n:language: python\n```\n")
    return "".join(shown)
