"""A target of the Makefile whose tool is missing, or too old, says which one is needed and how to get it: one line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
JAVA = "#!/bin/sh\necho 'openjdk version \"{version}\" 2019-01-15' >&2\n"
INSTALL = "install one, for example by apt-get install openjdk-17-jdk-headless, or set JAVA_HOME to its folder\n"
NAME_ANOTHER = "give the name of another one, as in PYTHON=python3.12\n"

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the project in which nothing was built, and a PATH with nothing but Python."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(REPOSITORY / name, tmp_path)
    shutil.copytree(REPOSITORY / "tools", tmp_path / "tools", ignore=shutil.ignore_patterns("__pycache__", "golden"))
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("make", "sh"):
        (programs / name).symlink_to(str(shutil.which(name)))
    program(programs / "python3", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    return tmp_path


def program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def make(folder: Path, *words: str, **environment: str) -> str:
    found = subprocess.run(
        ["make", "-s", "--no-print-directory", *words],
        cwd=folder,
        env={"PATH": str(folder / "bin"), "LC_ALL": "C", "HOME": str(folder), **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert found.returncode == 2  # of make itself
    assert found.stdout == ""
    first, _, rest = found.stderr.partition("make: ***")
    assert rest.endswith("] Error 1\n"), found.stderr
    assert [path.name for path in folder.iterdir() if path.name.startswith((".venv", "streams-kafka"))] == []
    return first


def test_without_python(folder: Path) -> None:
    wanted = "error: there is no python9: install Python 3.11 or later, or give its name: PYTHON=python3.12\n"
    for target in ("kafka", "check", "test-pythons", "test-sparks"):
        assert make(folder, target, "PYTHON=python9") == wanted


def test_with_a_python_that_is_too_old(folder: Path) -> None:
    (folder / "sitecustomize.py").write_text("import sys\nsys.version_info = (3, 10, 13, 'final', 0)\n")
    wanted = f"error: Python 3.11 or later is needed, and python3 is 3.10: {NAME_ANOTHER}"
    for target in ("kafka", "check"):
        assert make(folder, target, PYTHONPATH=str(folder)) == wanted


def test_without_java(folder: Path) -> None:
    told = make(folder, "kafka", "PORT=0")
    assert told == f"Java 17 or later is needed: there is no java in the PATH; {INSTALL}"
    told = make(folder, "kafka", "PORT=0", JAVA_HOME="/nowhere")
    assert told == f"Java 17 or later is needed: there is no java in /nowhere/bin, which JAVA_HOME names; {INSTALL}"


@pytest.mark.parametrize(("version", "release"), [("11.0.2", 11), ("1.8.0_352", 8)])
def test_with_a_java_that_is_too_old(folder: Path, version: str, release: int) -> None:
    java = folder / "bin" / "java"
    program(java, JAVA.format(version=version))
    assert make(folder, "kafka", "PORT=0") == f"Java 17 or later is needed: {java} is Java {release}; {INSTALL}"


def test_with_a_java_that_does_not_run(folder: Path) -> None:
    java = folder / "bin" / "java"
    program(java, "#!/bin/sh\necho 'no such library' >&2\nexit 1\n")
    told = make(folder, "kafka", "PORT=0")
    head = f"Java 17 or later is needed: {java} does not run; {INSTALL[:-1]}. It says:\n"
    assert told == f"{head}no such library\n"


def test_without_maven(folder: Path) -> None:
    program(folder / "bin" / "java", JAVA.format(version="17.0.2"))
    assert make(folder, "kafka", "PORT=0") == (
        "Maven is needed, once, to fetch the libraries of Java: there is no mvn in the PATH; install it, for example by"
        " apt-get install maven\n"
    )


def test_with_a_release_of_kafka_that_is_none(folder: Path) -> None:
    program(folder / "bin" / "java", JAVA.format(version="17.0.2"))
    told = "KAFKA_VERSION is a release of Apache Kafka such as 4.4.0, not '4.x'\n"
    assert make(folder, "kafka", "PORT=0", "KAFKA_VERSION=4.x") == told


def test_nothing_is_left_behind(folder: Path) -> None:
    """A temporary folder for the data was made before it was known that Kafka cannot start."""
    place = folder / "tmp"
    place.mkdir()
    make(folder, "kafka", "PORT=0", TMPDIR=str(place))
    assert os.listdir(place) == []
