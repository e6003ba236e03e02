"""Builds and checks what a release publishes: ``python -m tools.release``.

It leaves in ``dist`` the sdist, the wheel, a list of the wheel's dependencies (CycloneDX) and the checksums of all
three. The wheel is built from the sdist, compared with one that is built from the checkout, and installed into an empty
environment of each supported Python on this machine, where it takes the tour of ``streams demo``. Nothing is published.

``python -m tools.release --publishable TAG`` checks whether these files may be published under a tag, and
``python -m tools.release --notes`` prints the part of the changelog about this version.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

from tools import pythons

__all__ = ["checksums", "main", "notes", "publishing_problems", "version_problems", "with_subject"]

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
ENVIRONMENT = ROOT / ".venv-release"
TOOLS = ("build", "hatchling", "pip", "twine==7.0.0", "cyclonedx-bom==7.5.0")
PLACEHOLDER = "placeholder-organization"
NAME = "streams-for-kafka"
SUMS = "SHA256SUMS"


class ReleaseError(RuntimeError):
    """Raised when something must change before the release; its text has a line for each problem."""


def version_of(root: Path = ROOT) -> str:
    """Returns the version of the package in a checkout."""
    found = re.search(r'^__version__ = "(.+)"$', (root / "streams" / "version.py").read_text("utf-8"), re.MULTILINE)
    if found is None:
        raise ReleaseError("streams/version.py must set __version__")
    return found[1]


def version_problems(root: Path = ROOT) -> list[str]:
    """Returns what contradicts the version: it must be in the changelog, with a date, below an empty or newer part."""
    version = version_of(root)
    headings = re.findall(r"^## (.+)$", (root / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    dated = re.compile(rf"\[?{re.escape(version)}\]? - \d{{4}}-\d\d-\d\d")
    found = []
    if not any(dated.fullmatch(heading) for heading in headings):
        found.append(f"CHANGELOG.md must have a heading '## {version} - YYYY-MM-DD' for the version of the package")
    if headings[:1] != ["Unreleased"]:
        found.append("CHANGELOG.md must begin with the heading '## Unreleased'")
    return found


def publishing_problems(tag: str, root: Path = ROOT) -> list[str]:
    """Returns what must change before the files of ``dist`` may be published under a tag."""
    found = version_problems(root)
    if tag != f"v{version_of(root)}":
        found.append(f"the tag must be v{version_of(root)}, the version of streams/version.py, got {tag!r}")
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    repository = project["tool"]["hatch"]["metadata"]["hooks"]["custom"]["repository"]
    if PLACEHOLDER in repository:
        found.append(f"pyproject.toml names a placeholder as the repository: {repository}; put in the real address")
    sums = root / "dist" / SUMS
    if not sums.is_file() or sums.read_text("utf-8") != checksums(root / "dist"):
        found.append(f"dist/{SUMS} must be that of the files in dist: run make release")
    return found


def notes(root: Path = ROOT) -> str:
    """Returns the part of the changelog about the version, without its heading.

    :raises ReleaseError: if it has none.
    """
    if problems := version_problems(root):
        raise ReleaseError("\n".join(problems))
    text = (root / "CHANGELOG.md").read_text("utf-8")
    parts = re.split(r"^## \[?(\S+?)\]?(?: - .*)?$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))[version_of(root)].strip() + "\n"


def checksums(folder: Path) -> str:
    """Returns the checksums of the files in a folder, in the form of ``sha256sum``."""
    files = sorted(path for path in folder.iterdir() if path.name != SUMS)
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)


def build(folder: Path) -> tuple[Path, Path]:
    """Builds the sdist, and the wheel from it, into a folder; returns both.

    :raises ReleaseError: if a wheel that is built from the checkout has other bytes.
    """
    again = folder / "again"
    _run(_tool("python"), "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    _run(_tool("python"), "-m", "build", "--no-isolation", "--wheel", "--outdir", again, ROOT)
    (sdist,), (wheel,), (other,) = folder.glob("*.tar.gz"), folder.glob("*.whl"), again.glob("*.whl")
    if wheel.read_bytes() != other.read_bytes():
        raise ReleaseError(f"{wheel.name} built from the sdist differs from that of the checkout: see sdist.include")
    shutil.rmtree(again)
    _run(_tool("twine"), "check", "--strict", sdist, wheel)
    return sdist, wheel


def install(wheel: Path, interpreter: Path, folder: Path) -> Path:
    """Installs the wheel into an empty environment and takes the tour there; returns the environment's Python."""
    _run(interpreter, "-m", "venv", "--clear", "--without-pip", folder)
    python = folder / "bin" / "python"
    pip = (_tool("python"), "-m", "pip", "--python", python)
    _run(*pip, "install", "-q", "-c", ROOT / "constraints.txt", "--only-binary", ":all:", wheel)
    _run(*pip, "check")
    _run(folder / "bin" / "streams", "--version", cwd=folder)
    _run(folder / "bin" / "streams", "demo", "--fast", cwd=folder, quiet=True)
    return python


def release() -> None:
    """Builds and checks everything; ``dist`` is replaced at the end."""
    if problems := version_problems():
        raise ReleaseError("\n".join(problems))
    if not (ENVIRONMENT / "bin" / "python").exists():
        _run(Path(sys.executable), "-m", "venv", ENVIRONMENT)
    _run(_tool("python"), "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", *TOOLS)
    with tempfile.TemporaryDirectory(prefix="streams-release-") as temporary:
        made = Path(temporary) / "dist"
        _sdist, wheel = build(made)
        listed = made / f"{wheel.name.partition('-py3')[0]}.cdx.json"
        for version in pythons.supported():
            interpreter = pythons.find(version)
            if interpreter is None:
                _say(f"Python {version} is not on this machine: the wheel is not tried on it")
                continue
            python = install(wheel, interpreter, Path(temporary) / version)
            if not listed.exists():
                _list_dependencies(python, listed)
        if not listed.exists():
            raise ReleaseError("no supported Python is on this machine: install one, or put it on the PATH")
        (made / SUMS).write_text(checksums(made), "utf-8")
        shutil.rmtree(DIST, ignore_errors=True)
        shutil.copytree(made, DIST)
    _say("dist has:\n" + (DIST / SUMS).read_text("utf-8").rstrip())


def _list_dependencies(python: Path, file: Path) -> None:
    """Writes the packages of an environment as a software bill of materials."""
    for origin in python.parents[1].glob(f"lib/*/site-packages/{NAME.replace('-', '_')}-*.dist-info/direct_url.json"):
        origin.unlink()  # this is a temporary folder, which differs each time
    _run(_tool("cyclonedx-py"), "environment", "--output-reproducible", "-o", file, python)
    file.write_text(with_subject(file.read_text("utf-8")), "utf-8")


def with_subject(bill: str) -> str:
    """Returns a bill of materials with this package as its subject, where the tool has it among the components."""
    found = json.loads(bill)
    (own,) = (each for each in found["components"] if each["name"] == NAME)
    found["components"].remove(own)
    found["metadata"]["component"] = own
    return json.dumps(found, indent=2, sort_keys=True) + "\n"


def _tool(name: str) -> Path:
    return ENVIRONMENT / "bin" / name


def _run(*command: str | Path, cwd: Path = ROOT, quiet: bool = False) -> None:
    """Runs a command.

    :raises ReleaseError: if it fails.
    """
    given = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    output = subprocess.DEVNULL if quiet else None
    done = subprocess.run([*map(str, command)], cwd=cwd, env=given | _epoch(), stdout=output, check=False)
    if done.returncode:
        raise ReleaseError(f"the command {' '.join(map(str, command))} ended with status {done.returncode}")


def _epoch() -> dict[str, str]:
    """Returns the time of the commit, which builders write instead of theirs; none outside of a repository."""
    found = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False)
    return {"SOURCE_DATE_EPOCH": found.stdout.strip()} if found.returncode == 0 else {}


def _say(text: str) -> None:
    print(text, flush=True)


def main(arguments: Sequence[str]) -> int:
    """Makes the release, or checks whether it may be published; returns the exit status."""
    try:
        if arguments[:1] == ["--publishable"]:
            if problems := publishing_problems(*arguments[1:2] or [""]):
                raise ReleaseError("\n".join(problems))
        elif arguments[:1] == ["--notes"]:
            _say(notes().rstrip())
        else:
            release()
    except ReleaseError as error:
        print("".join(f"error: {line}\n" for line in str(error).splitlines()), end="", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
