"""The files that a person has who copies the blocks of a page."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from docs_support.blocks import BLOCK

FILE = re.compile(r"`([\w-]+\.(?:py|jsonl|csv|toml))`")
LANGUAGES = {".py": "python", ".jsonl": "json", ".csv": "csv", ".toml": "toml"}
MAIN = "topology"
"""New functions and classes of an application go above the function of this name."""


@dataclass(frozen=True)
class Part:
    """A statement of a script with its decorators, or all imports of the script."""

    name: str
    text: str
    is_name: bool = False
    """Whether it gives a name a value, as settings do."""


def steps(page: Path) -> list[tuple[str, str, str]]:
    """Returns the blocks of a page: the paragraph before, the language and the text."""
    text = page.read_text()
    found = []
    for block in BLOCK.finditer(text):
        before = re.sub(r"^```.*?^```$", "", text[: block.start()], flags=re.MULTILINE | re.DOTALL)
        found.append((before.rstrip().rpartition("\n\n")[2], block[2], block[3]))
    return found


def is_file(paragraph: str) -> bool:
    """Returns whether a paragraph names a file for the block below it."""
    return FILE.search(paragraph) is not None


def copy_block(folder: Path, paragraph: str, language: str, text: str) -> Path:
    """Copies a block to the file that the paragraph before it names last.

    "Save ... as" makes a new file, and "In `shop.py`" changes one.
    """
    named = FILE.findall(paragraph)
    assert named, f"the text does not say which file this is:\n{paragraph}\n\n{text}"
    file = folder / named[-1]
    assert LANGUAGES[file.suffix] == language, f"{file.name} as a block of {language}"
    if re.search(rf"\b[Ii]n `{re.escape(file.name)}`", paragraph):
        text = changed(file.read_text(), text)
    else:
        assert not file.exists(), f"{file.name} is there already, and the text does not say that this replaces it"
    file.write_text(text)
    return file


def copy_files(folder: Path, pages: list[Path]) -> None:
    """Copies the files of whole pages."""
    for page in pages:
        for paragraph, language, text in steps(page):
            if language in LANGUAGES.values() and is_file(paragraph):
                copy_block(folder, paragraph, language, text)


def changed(script: str, block: str) -> str:
    """Returns a script with the statements of a block, as the second page of the tutorial explains it.

    A statement replaces the one of the same name, and the imports of the block replace all imports. New names go below
    the imports, new functions and classes above the topology, or to the end of a file of tests.
    """
    parts = list(parts_of(script))
    for part in parts_of(block):
        names = [old.name for old in parts]
        if part.name in names:
            parts[names.index(part.name)] = part
        elif part.is_name:
            parts.insert(1 + max(i for i, old in enumerate(parts) if i == 0 or old.is_name), part)
        else:
            parts.insert(names.index(MAIN) if MAIN in names else len(parts), part)
    return "".join(f"{between(before, part)}{part.text}\n" for before, part in zip([None, *parts], parts, strict=False))


def between(before: Part | None, part: Part) -> str:
    """Returns the empty lines between two parts."""
    if before is None:
        return ""
    return "\n" if part.is_name else "\n\n"


def parts_of(script: str) -> Iterator[Part]:
    """Yields the imports of a script as one part, then its other statements."""
    lines = script.splitlines()
    imports: list[ast.stmt] = []
    for statement in ast.parse(script).body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            imports.append(statement)
            continue
        if imports:
            yield Part("imports", "\n".join(lines[imports[0].lineno - 1 : imports[-1].end_lineno]))
            imports = []
        decorators = getattr(statement, "decorator_list", [])
        first = min([statement.lineno, *(one.lineno for one in decorators)])
        name, is_name = name_of(statement)
        yield Part(name, "\n".join(lines[first - 1 : statement.end_lineno]), is_name)


def name_of(statement: ast.stmt) -> tuple[str, bool]:
    """Returns the name that a statement defines, and whether it assigns it."""
    match statement:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return name, False
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name, True
        case ast.If():
            return "__main__", False
    raise AssertionError(f"a block may not have this between its functions: {ast.unparse(statement)}")
