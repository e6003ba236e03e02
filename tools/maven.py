"""Java projects of this repository: built once by Maven, then reused until their sources change."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

__all__ = ["JavaError", "build", "class_path", "java"]

PHASE = "process-classes"
"""The projects compile, and gather their libraries, up to this phase."""
OLDEST_JAVA = 17
_NEEDS_JAVA = f"Java {OLDEST_JAVA} or later is needed"
_INSTALL_JAVA = "install one, for example by apt-get install openjdk-17-jdk-headless, or set JAVA_HOME to its folder"


class JavaError(RuntimeError):
    """Raised when a Java project cannot be built: install Maven and a JDK, or look at what Maven says."""


def build(project: Path, target: Path, properties: Mapping[str, str] | None = None) -> Path:
    """Builds a project, where its sources have changed since the last time, and returns ``target``.

    The first call takes as long as the download of the libraries; callers in other processes wait for it.

    :param project: the folder of ``pom.xml``, which puts classes into ``classes`` and libraries into ``libs`` of:
    :param target: the folder that is built into.
    :param properties: properties of the project that are not as its ``pom.xml`` says.
    :raises JavaError: without Maven, or when Maven fails.
    """
    given = [f"-D{name}={value}" for name, value in sorted((properties or {}).items())]
    stamp, wanted = target / "built-of", " ".join([_digest(project), *given])
    target.mkdir(parents=True, exist_ok=True)
    with open(target / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != wanted:
            stamp.unlink(missing_ok=True)
            for folder in ("classes", "libs"):
                shutil.rmtree(target / folder, ignore_errors=True)
            _run_maven(project, given)
            stamp.write_text(wanted)
    return target


def class_path(target: Path) -> str:
    """Returns where Java finds the classes of a project that was built into this folder, and their libraries."""
    return f"{target / 'classes'}{os.pathsep}{target / 'libs'}/*"


def java() -> str:
    """Returns the program that runs Java: that of ``JAVA_HOME``, else the one in the ``PATH``.

    :raises JavaError: if there is none, or it is too old.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin" if home else None)
    if found is None:
        place = f"{home}/bin, which JAVA_HOME names" if home else "the PATH"
        raise JavaError(f"{_NEEDS_JAVA}: there is no java in {place}; {_INSTALL_JAVA}")
    release = _java_release(found)
    if release < OLDEST_JAVA:
        raise JavaError(f"{_NEEDS_JAVA}: {found} is Java {release}; {_INSTALL_JAVA}")
    return found


@cache
def _java_release(program: str) -> int:
    """Returns the release that a ``java`` says it is of; of one that says none, what it is is left to be seen."""
    try:
        result = subprocess.run([program, "-version"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except OSError as error:
        raise JavaError(f"{_NEEDS_JAVA}: {program} cannot be run: {error.strerror}; {_INSTALL_JAVA}") from None
    said = result.stdout + result.stderr
    if result.returncode != 0:
        raise JavaError(f"{_NEEDS_JAVA}: {program} does not run; {_INSTALL_JAVA}. It says:\n{said.strip()}")
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else OLDEST_JAVA


def _digest(project: Path) -> str:
    digest = hashlib.sha256((project / "pom.xml").read_bytes())
    for path in sorted(project.rglob("*.java")):
        digest.update(str(path.relative_to(project)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _run_maven(project: Path, options: Sequence[str]) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise JavaError(
            "Maven is needed, once, to fetch the libraries of Java: there is no mvn in the PATH; install it, for"
            " example by apt-get install maven"
        )
    command = [maven, "-q", "-B", *options, "-f", str(project / "pom.xml"), PHASE]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if result.returncode != 0:
        raise JavaError(f"Maven could not build {project}:\n{result.stdout}{result.stderr}")
