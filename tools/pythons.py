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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

__all__ = ["find", "main", "report", "supported"]

ROOT = Path(__file__).resolve().parents[1]
CLASSIFIER = re.compile(r"Programming Language :: Python :: (3\.\d+)")
INSTALL = ("-m", "pip", "install", "-q", "-c", "constraints.txt", "--only-binary", ":all:", "--no-binary", "pyspark")
"""Spark is published as source only, which is a copy of files."""
NO_WHEEL = ("No matching distribution found", "ResolutionImpossible", "Could not find a version")
TESTS = ("-m", "pytest", "-q", "-m", "not integration and not slow", "-p", "no:cacheprovider")
PASSED, FAILED, NO_WHEELS, MISSING = "passed", "failed", "no wheels", "not on this machine"


def supported(root: Path = ROOT) -> list[str]:
    """Returns the versions of Python that the classifiers name, such as ``3.11``."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [found[1] for each in project["classifiers"] if (found := CLASSIFIER.fullmatch(each))]


def find(version: str, path: str | None = None) -> Path | None:
    """Returns an interpreter of this version that runs, the newest of pyenv's where it has several; ``None`` if there
    is none.

    :param path: the search path; that of this process if not given.
    """
    return next((each for each in _candidates(version, path) if _version_of(each) == version), None)


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


def _version_of(interpreter: Path) -> str | None:
    """Returns the version of an interpreter; ``None`` for one that does not run, such as pyenv's stand-in for one not
    chosen."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([interpreter, "-c", code], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _say(text: str) -> None:
    print(text, flush=True)


def _tested(version: str, arguments: Sequence[str]) -> tuple[str, str]:
    """Tests a version, and returns its outcome and the words for it."""
    interpreter = find(version)
    if interpreter is None:
        return MISSING, f"neither python{version} on the path nor {version} in pyenv"
    _say(f"== Python {version}: {interpreter}")
    environment = ROOT / f".venv-{version}"
    python = environment / "bin" / "python"
    if not python.exists() or _version_of(python) != version:
        subprocess.run([interpreter, "-m", "venv", "--clear", environment], check=True)
    project = f".[{os.environ.get('EXTRAS', 'dev,json,parquet')}]"
    for what in (["hatchling", "setuptools>=70.1"], ["--no-build-isolation", "-e", project]):
        done = subprocess.run([python, *INSTALL, *what], cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.strip() and "notice" not in line]
            lacks = [line for line in lines if any(words in line for words in NO_WHEEL)]
            return (NO_WHEELS, lacks[-1]) if lacks else (FAILED, "pip: " + (lines or ["no message"])[-1])
    tests = subprocess.run([python, *TESTS, *arguments], cwd=ROOT, check=False)
    return (PASSED, "") if tests.returncode == 0 else (FAILED, f"pytest ended with {tests.returncode}")


def report(outcomes: Mapping[str, tuple[str, str]]) -> int:
    """Prints the outcome of each version, in words.

    :returns: 0 if all that could be tested passed, and something could.
    """
    for version, (outcome, words) in outcomes.items():
        _say(f"Python {version}: {outcome}{words and ': ' + words}")
    became = [outcome for outcome, _ in outcomes.values()]
    return 0 if FAILED not in became and PASSED in became else 1


def main(arguments: Sequence[str]) -> int:
    """Tests each version in turn; prints and returns as `report`.

    :param arguments: for pytest.
    """
    return report({version: _tested(version, arguments) for version in supported()})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
