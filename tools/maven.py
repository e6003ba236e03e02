"""Java projects of this repository: built once by Maven, then reused until their sources change."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

__all__ = ["JavaError", "build", "class_path", "java"]

PHASE = "process-classes"
"""The projects compile, and gather their libraries, up to this phase."""


class JavaError(RuntimeError):
    """Raised when a Java project cannot be built: install Maven and a JDK, or look at what Maven says."""


def build(project: Path, target: Path) -> Path:
    """Builds a project, where its sources have changed since the last time, and returns ``target``.

    The first call takes as long as the download of the libraries; callers in other processes wait for it.

    :param project: the folder of ``pom.xml``, which puts classes into ``classes`` and libraries into ``libs`` of:
    :param target: the folder that is built into.
    :raises JavaError: without Maven, or when Maven fails.
    """
    stamp, wanted = target / "built-of", _digest(project)
    target.mkdir(parents=True, exist_ok=True)
    with open(target / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != wanted:
            stamp.unlink(missing_ok=True)
            for folder in ("classes", "libs"):
                shutil.rmtree(target / folder, ignore_errors=True)
            _run_maven(project)
            stamp.write_text(wanted)
    return target


def class_path(target: Path) -> str:
    """Returns where Java finds the classes of a project that was built into this folder, and their libraries."""
    return f"{target / 'classes'}{os.pathsep}{target / 'libs'}/*"


def java() -> str:
    """Returns the program that runs Java: that of ``JAVA_HOME``, else the one in the ``PATH``.

    :raises JavaError: if there is none.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin" if home else None)
    if found is None:
        raise JavaError(f"Java 17 or later is needed: no java in {home + '/bin' if home else 'the PATH'}")
    return found


def _digest(project: Path) -> str:
    digest = hashlib.sha256((project / "pom.xml").read_bytes())
    for path in sorted(project.rglob("*.java")):
        digest.update(str(path.relative_to(project)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _run_maven(project: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise JavaError(f"Maven (mvn) is needed to build {project}, and is not on the PATH")
    command = [maven, "-q", "-B", "-f", str(project / "pom.xml"), PHASE]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if result.returncode != 0:
        raise JavaError(f"Maven could not build {project}:\n{result.stdout}{result.stderr}")
