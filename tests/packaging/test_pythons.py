"""The versions of Python that the classifiers promise are looked for, and found only where they run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tools import environments, pythons, sparks


def interpreter(file: Path, version: str, code: int = 0) -> Path:
    """A stand-in that says a version and ends with a code."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\necho {version}\nexit {code}\n")
    file.chmod(0o755)
    return file


def pyenv(directory: Path, root: Path) -> None:
    file = directory / "pyenv"
    file.write_text(f"#!/bin/sh\necho {root}\n")
    file.chmod(0o755)


def test_the_classifiers_say_which_versions_are_supported(tmp_path: Path) -> None:
    """Not the lines about Python as such."""
    lines = ("Python :: 3", "Python :: 3 :: Only", "Python :: 3.11", "Python :: 3.12", "Rust")
    classifiers = [f"Programming Language :: {line}" for line in lines]
    (tmp_path / "pyproject.toml").write_text(f"[project]\nclassifiers = {classifiers}\n")
    assert pythons.supported(tmp_path) == ["3.11", "3.12"]
    assert pythons.supported()[0] == "3.11"


def test_an_interpreter_on_the_path_goes_first(tmp_path: Path) -> None:
    bin_, root = tmp_path / "bin", tmp_path / "root"
    found = interpreter(bin_ / "python3.12", "3.12")
    interpreter(root / "versions" / "3.12.1" / "bin" / "python", "3.12")
    pyenv(bin_, root)
    assert pythons.find("3.12", f"{bin_}{os.pathsep}/bin") == found


def test_a_stand_in_that_does_not_run_is_passed_over_for_the_newest_of_pyenv(tmp_path: Path) -> None:
    """Pyenv has a command for every version it holds, which fails for one that is not chosen."""
    bin_, versions = tmp_path / "bin", tmp_path / "root" / "versions"
    interpreter(bin_ / "python3.13", "not chosen", 127)
    pyenv(bin_, tmp_path / "root")
    for name in ("3.13.2", "3.13.10", "3.13.9", "3.13-dev", "3.1.30"):
        interpreter(versions / name / "bin" / "python", name.rpartition(".")[0])
    assert pythons.find("3.13", str(bin_)) == versions / "3.13.10" / "bin" / "python"


def test_no_interpreter_is_found_where_there_is_none(tmp_path: Path) -> None:
    """Nor one that says another version."""
    assert pythons.find("3.14", str(tmp_path)) is None
    interpreter(tmp_path / "python3.14", "3.13")
    assert pythons.find("3.14", str(tmp_path)) is None


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        ([environments.PASSED, environments.MISSING], 0),
        ([environments.PASSED, environments.NO_WHEELS], 0),
        ([environments.PASSED, environments.FAILED], 1),
        ([environments.MISSING, environments.NO_WHEELS], 1),
    ],
)
def test_each_version_is_told_of(outcomes: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    """It fails if tests failed, or if nothing was tested."""
    told = {f"3.{10 + i}": (outcome, f"words {i}") for i, outcome in enumerate(outcomes)}
    assert environments.report("Python", told) == code
    assert capsys.readouterr().out == "".join(
        f"Python {version}: {outcome}: {words}\n" for version, (outcome, words) in told.items()
    )


def test_a_version_of_spark_names_what_is_installed_with_it() -> None:
    assert sparks.requirements("4.3.0") == ["pyspark==4.3.0"]
    assert sparks.requirements("4.1.0+pandas-2.2.3+pyarrow-18.1.0") == [
        "pyspark==4.1.0", "pandas==2.2.3", "pyarrow==18.1.0",
    ]  # fmt: skip


def test_packages_are_left_out_of_constraints_by_their_whole_name() -> None:
    text = "# pandas\npandas==2.3.3\npandas-stubs==1\nnumpy[x]==2 ; python_version > '3'\nrich==15\n"
    assert sparks.without(text, ["pandas", "numpy"]) == "# pandas\npandas-stubs==1\nrich==15\n"
