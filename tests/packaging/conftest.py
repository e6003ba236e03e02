import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


@dataclass(frozen=True)
class Distributions:
    sdist: Path
    wheel: Path


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


@pytest.fixture(scope="session")
def distributions(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    """Both distributions; the wheel is built from the sdist, so this also shows that the sdist is complete."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(root)]
    result = subprocess.run(command, env=clean_environment(), capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return Distributions(only(folder, "*.tar.gz"), only(folder, "*.whl"))


@pytest.fixture(scope="session")
def installed_python(distributions: Distributions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with the wheel installed, which borrows the dependencies of this one.

    A folder that a .pth file adds has its own .pth files ignored, so the dev-mode install does not leak in.
    """
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps", "--no-index"]
    subprocess.run([*pip, str(distributions.wheel)], check=True)
    paths = sysconfig.get_paths()
    dependencies = "\n".join(sorted({paths["purelib"], paths["platlib"]}))
    (only(folder, "lib/python*/site-packages") / "dependencies.pth").write_text(dependencies + "\n")
    return python


@pytest.fixture(params=["checkout", "wheel"])
def python(request: pytest.FixtureRequest) -> Path:
    """An interpreter in which `streams` is installed: in dev mode, and from the wheel."""
    if request.param == "checkout":
        return Path(sys.executable)
    installed: Path = request.getfixturevalue("installed_python")
    return installed


@pytest.fixture
def run() -> Run:
    """Runs a command in a folder, as a user would, with no PYTHONPATH."""

    def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=cwd, env=clean_environment(), capture_output=True, text=True, timeout=60)

    return run
