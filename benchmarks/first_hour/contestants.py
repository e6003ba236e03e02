"""The two libraries that are compared: how each is installed, started and asked for its counts."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["QUIX", "Contestant", "environment", "ours", "quix"]

APPLICATIONS = Path(__file__).parent / "applications"
QUIX = "quixstreams==3.28.1"


@dataclass(frozen=True)
class Contestant:
    """A library with its word count."""

    name: str
    file: Path
    """The application, as a newcomer writes it."""
    python: str
    """The interpreter of the environment in which the library is installed."""
    run: tuple[str, ...]
    """The command that runs the application in the folder of its file, after the name of the interpreter."""
    source: str
    sink: str
    makes_topics: bool
    """Whether running the application makes the topics that it reads and writes."""
    commands: frozenset[str] = frozenset()
    """The commands of ``streams`` that this version has."""

    def lines(self) -> int:
        """Counts the lines of the application that are not blank."""
        return sum(bool(line.strip()) for line in self.file.read_text().splitlines())

    def environment(self, address: str, folder: Path) -> dict[str, str]:
        """Returns the variables that say where the broker and the state are."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("STREAMS_")}
        places = {"STREAMS_BOOTSTRAP_SERVERS": address, "STREAMS_STATE_DIR": str(folder / "state"), "BROKER": address}
        return {**kept, **places}


def ours(python: str) -> Contestant:
    """Returns this library as the interpreter has it, so that an older version can be measured in the same way."""

    def shown_by(*words: str) -> str:
        command = [python, "-m", "streams", *words, "--help"]  # elsewhere, so that no package of this folder is found
        return subprocess.run(command, cwd=APPLICATIONS, capture_output=True, text=True, check=True).stdout

    shown = shown_by()
    commands = frozenset(line.split()[0] for line in shown.splitlines() if line.startswith("    ") and line.split())
    makes_topics = "--create-topics" in shown_by("run")
    run = ("-m", "streams", "run", "app.py", *(["--create-topics"] if makes_topics else []))
    return Contestant(
        "this library", APPLICATIONS / "app.py", python, run, "lines", "counts-by-word", makes_topics, commands
    )


def environment(folder: Path, package: str) -> str:
    """Returns the interpreter of an environment with a package, which is made where it is missing.

    :raises subprocess.CalledProcessError: if pip cannot install it.
    """
    python = str(folder / "bin" / "python")
    if not (folder / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", package], check=True)
        (folder / "installed").touch()
    return python


def quix(folder: Path) -> Contestant:
    """Returns Quix Streams in an environment of its own, which is made where it is missing.

    :param folder: where the environment is kept, for further runs.
    :raises subprocess.CalledProcessError: if pip cannot install it.
    """
    python = environment(folder, QUIX)
    file = APPLICATIONS / "quix.py"
    return Contestant("Quix Streams 3.28.1", file, python, ("quix.py",), "quix-lines", "quix-counts", True)
