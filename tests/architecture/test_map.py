"""docs/design.md maps the rooms that there are, and the import contracts list the same ones."""

import re
import tomllib
from pathlib import Path

from tools.house import PACKAGES

ROW = re.compile(r"^\| `([a-z_/]+)` \| (.+) \|$", re.MULTILINE)


def rooms(root: Path) -> set[str]:
    """The packages of the product, as paths."""
    files = (file for package in PACKAGES for file in (root / package).rglob("__init__.py"))
    return {file.parent.relative_to(root).as_posix() for file in files}


def test_each_room_is_on_the_map_once(root: Path) -> None:
    page = (root / "docs" / "design.md").read_text()
    mapped = [name for name, _ in ROW.findall(page[page.index("## Package map") : page.index("## Path of a record")])]
    assert len(mapped) == len(set(mapped))
    assert set(mapped) == rooms(root)


def test_the_picture_names_rooms_that_there_are(root: Path) -> None:
    page = (root / "docs" / "design.md").read_text()
    picture = page[page.index("```text\n a script") :].split("```")[1]
    named = set(re.findall(r"\b(?:streams|processor_api|dsl|state)(?:/[a-z_]+)*", picture))
    assert len(named) > 10
    assert named <= rooms(root) | {"dsl"}


def test_the_contracts_list_the_rooms_that_there_are(root: Path) -> None:
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    exhaustive = [each for each in contracts if each.get("exhaustive")]
    assert len(exhaustive) == 3
    for contract in exhaustive:
        (container,) = contract["containers"]
        listed = set(re.findall(r"\w+", " ".join(contract["layers"])))
        folder = root / container.replace(".", "/")
        there = {path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
        assert listed - {"__main__"} == there - {"__init__", "__main__"}
