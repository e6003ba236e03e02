"""Runs the tests of the bridge on other versions of Spark: ``python -m tools.sparks 4.1.0+pandas-2.2.3 4.3.0 -- ...``.

A version of PySpark brings its Spark. It gets a virtual environment of its own, ``.venv-spark-NAME``, with what
``constraints.txt`` says, but for the packages that Spark itself asks for: those are as given behind ``+``, and else the
newest that it takes. What comes after ``--`` is for pytest.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.environments import ROOT, install, make, report, say, tested

__all__ = ["main", "requirements", "without"]

OF_SPARK = ("pyspark", "pandas", "pyarrow", "numpy")
"""The packages whose versions follow Spark's."""
EXTRAS = "dev,json,parquet"
TESTS = ("-m", "not slow", "-W", "default::pytest.PytestUnraisableExceptionWarning")
"""A PySpark leaves sockets to the garbage collector (4.1.0 does), of which Python warns."""


def requirements(name: str) -> list[str]:
    """Returns what pip installs for a version, such as ``4.1.0+pandas-2.2.3+pyarrow-18.1.0``."""
    version, *others = name.split("+")
    return [f"pyspark=={version}", *("==".join(one.rsplit("-", 1)) for one in others)]


def without(text: str, packages: Sequence[str]) -> str:
    """Returns the lines of a file of constraints that name none of some packages."""
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if re.split(r"[=<>!~\[ ;]", line.strip(), maxsplit=1)[0] not in packages)


def _tested(name: str, arguments: Sequence[str]) -> tuple[str, str]:
    """Tests a version, and returns its outcome and the words for it."""
    wanted = requirements(name)
    say(f"== Spark: {', '.join(wanted)}")
    python = make(f"spark-{name}", Path(sys.executable))
    with tempfile.TemporaryDirectory() as folder:
        constraints = Path(folder) / "constraints.txt"
        constraints.write_text(without((ROOT / "constraints.txt").read_text(encoding="utf-8"), OF_SPARK))
        failure = install(python, constraints, EXTRAS, wanted)
    return failure or tested(python, [*TESTS, *arguments])


def main(arguments: Sequence[str]) -> int:
    """Tests each version in turn; prints and returns as `tools.environments.report`.

    :param arguments: the versions, ``--``, and arguments for pytest.
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return report("Spark", {name: _tested(name, arguments[end + 1 :]) for name in arguments[:end]})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
