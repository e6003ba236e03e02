"""Lists what is public: `python -m tools.public_names` writes the list that the tests compare with, and the stub by
which type checkers and editors know the names of `streams`."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

PATH = Path(__file__).resolve().parents[1] / "tests" / "streams" / "public_names.txt"
STUB = Path(__file__).resolve().parents[1] / "streams" / "__init__.pyi"
MODULES = (
    "streams",
    "streams.dead_letters",
    "streams.engines",
    "streams.remote",
    "streams.serdes",
    "streams.spark",
    "streams.testing",
)
FOREIGN = ("builtins", "typing", "enum", "abc", "pydantic", "collections")
"""Members that a class has from there are not ours to keep."""


def public_names() -> Iterator[str]:
    """Returns `module.name`, and for classes `module.name.member`, sorted within each module."""
    for module_name in MODULES:
        module = import_module(module_name)
        for name in sorted(module.__all__):
            yield f"{module_name}.{name}"
            found = getattr(module, name)
            if inspect.isclass(found):
                yield from (f"{module_name}.{name}.{member}" for member in sorted(members(found)))


def members(kind: type[Any]) -> set[str]:
    """The public members of a class that are ours, inherited ones too."""
    own = [each for each in kind.__mro__ if each.__module__.partition(".")[0] not in FOREIGN]
    names = {name for each in own for name in (*vars(each), *vars(each).get("__annotations__", ()))}
    return {name for name in names if not name.startswith("_") and name != "model_config"}


def stub() -> str:
    """Returns the text of the stub: each public name of `streams`, imported from its home."""
    streams = import_module("streams")
    homes = sorted((home, sorted(names.split())) for home, names in streams._HOMES.items())
    imports = [f"from {home} import {name} as {name}\n" for home, names in homes for name in names]
    head = '"""The public names of `streams`, for type checkers; made by `python -m tools.public_names`."""\n\n'
    return head + "".join(imports) + "\n__version__: str\n"


if __name__ == "__main__":
    STUB.write_text(stub())
    for words in (["check", "--quiet", "--fix"], ["format", "--quiet"]):  # which order names in a way of their own
        subprocess.run([str(Path(sys.executable).with_name("ruff")), *words, str(STUB)], check=True)
    PATH.write_text("".join(f"{name}\n" for name in public_names()))
