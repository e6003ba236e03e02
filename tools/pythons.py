"""Runs the tests that need no broker on every supported Python of this machine: ``python -m tools.pythons``.

The supported versions are those of the classifiers. An interpreter is looked for as ``python3.N`` on the search path
and among the versions of pyenv, and gets a virtual environment of its own, ``.venv-3.N``, with what ``constraints.txt``
says. Nothing is compiled: a version for which a dependency has no wheel is reported and not tested. The same holds for
a version that is not on this machine. It fails if tests do, or if none ran.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.environments import MISSING, ROOT, install, make, report, say, tested, version_of

__all__ = ["find", "main", "supported"]

CLASSIFIER = re.compile(r"Programming Language :: Python :: (3\.\d+)")
CONSTRAINTS = ROOT / "constraints.txt"
TESTS = ("-m", "not integration and not slow")


def supported(root: Path = ROOT) -> list[str]:
    """Returns the versions of Python that the classifiers name, such as ``3.11``."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [found[1] for each in project["classifiers"] if (found := CLASSIFIER.fullmatch(each))]


def find(version: str, path: str | None = None) -> Path | None:
    """Returns an interpreter of this version that runs, the newest of pyenv's where it has several; ``None`` if there
    is none.

    :param path: the search path; that of this process if not given.
    """
    return next((each for each in _candidates(version, path) if version_of(each) == version), None)


def _candidates(version: str, path: str | None) -> Iterator[Path]:
    if on_path := shutil.which(f"python{version}", path=path):
        yield Path(on_path)
    if pyenv := shutil.which("pyenv", path=path):
        root = subprocess.run([pyenv, "root"], capture_output=True, text=True, check=False).stdout.strip()
        versions = [
            each for each in Path(root, "versions").glob(f"{version}.*") if each.name.replace(".", "").isdigit()
        ]
        newest_first = sorted(versions, key=lambda each: [int(part) for part in each.name.split(".")], reverse=True)
        yield from (each / "bin" / "python" for each in newest_first)


def _tested(version: str, arguments: Sequence[str]) -> tuple[str, str]:
    """Tests a version, and returns its outcome and the words for it."""
    interpreter = find(version)
    if interpreter is None:
        return MISSING, f"neither python{version} on the path nor {version} in pyenv"
    say(f"== Python {version}: {interpreter}")
    python = make(version, interpreter)
    extras = os.environ.get("EXTRAS", "dev,json,parquet")
    return install(python, CONSTRAINTS, extras) or tested(python, [*TESTS, *arguments])


def main(arguments: Sequence[str]) -> int:
    """Tests each version in turn; prints and returns as `report`.

    :param arguments: for pytest.
    """
    return report("Python", {version: _tested(version, arguments) for version in supported()})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
