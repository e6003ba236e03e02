"""Environments of their own for tests with other versions, and what became of them."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["FAILED", "MISSING", "NO_WHEELS", "PASSED", "install", "make", "report", "say", "tested", "version_of"]

ROOT = Path(__file__).resolve().parents[1]
INSTALL = ("-m", "pip", "install", "-q", "--only-binary", ":all:", "--no-binary", "pyspark")
"""Nothing is compiled. Spark is published as source only, which is a copy of files."""
NO_WHEEL = ("No matching distribution found", "ResolutionImpossible", "Could not find a version")
PASSED, FAILED, NO_WHEELS, MISSING = "passed", "failed", "no wheels", "not on this machine"


def say(text: str) -> None:
    """Prints a line at once, before what the next process prints."""
    print(text, flush=True)


def version_of(interpreter: Path) -> str | None:
    """Returns the version of an interpreter, such as ``3.11``; ``None`` for one that does not run, such as pyenv's
    stand-in for one not chosen."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([interpreter, "-c", code], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def make(name: str, interpreter: Path) -> Path:
    """Makes the virtual environment ``.venv-NAME`` if it is not there, and returns its Python."""
    environment = ROOT / f".venv-{name}"
    python = environment / "bin" / "python"
    if not python.exists() or version_of(python) != version_of(interpreter):
        subprocess.run([interpreter, "-m", "venv", "--clear", environment], check=True)
    return python


def install(python: Path, constraints: Path, extras: str, requirements: Sequence[str] = ()) -> tuple[str, str] | None:
    """Installs this library into an environment.

    :param constraints: the versions that are allowed.
    :param extras: those of the library, with commas.
    :param requirements: what goes in besides.
    :returns: what became of it, with the words for it, if that did not succeed.
    """
    for what in (["hatchling", "setuptools>=70.1"], ["--no-build-isolation", "-e", f".[{extras}]", *requirements]):
        arguments = [python, *INSTALL, "-c", constraints, *what]
        done = subprocess.run(arguments, cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.strip() and "notice" not in line]
            lacks = [line for line in lines if any(words in line for words in NO_WHEEL)]
            return (NO_WHEELS, lacks[-1]) if lacks else (FAILED, "pip: " + (lines or ["no message"])[-1])
    return None


def tested(python: Path, arguments: Sequence[str]) -> tuple[str, str]:
    """Runs pytest in an environment, and returns what became of it with the words for it."""
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    tests = subprocess.run(command, cwd=ROOT, check=False)
    return (PASSED, "") if tests.returncode == 0 else (FAILED, f"pytest ended with {tests.returncode}")


def report(what: str, outcomes: Mapping[str, tuple[str, str]]) -> int:
    """Prints the outcome of each version, in words.

    :param what: the thing that has versions.
    :returns: 0 if all that could be tested passed, and something could.
    """
    for version, (outcome, words) in outcomes.items():
        say(f"{what} {version}: {outcome}{words and ': ' + words}")
    became = [outcome for outcome, _ in outcomes.values()]
    return 0 if FAILED not in became and PASSED in became else 1
