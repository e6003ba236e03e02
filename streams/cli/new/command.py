"""The command `streams new`."""

from __future__ import annotations

import argparse
import os
import re
import shutil
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from processor_api.errors import StreamsError
from processor_api.texts import repr_of
from streams.cli.command_parser import add_with_examples
from streams.cli.output.causes import CLEAN, CannotRun
from streams.cli.output.terminal import say
from streams.cli.working_directory import from_start
from streams.version import __version__

TEMPLATE_NAME = "my-application"
"""The name of the application whose files are copied."""
_VERSION = "LIBRARY_VERSION"
LONGEST_NAME = 52
"""Characters of the name of a StatefulSet, so that the labels that Kubernetes makes from it fit into 63."""
_NAME = re.compile(rf"[a-z](?:[a-z0-9-]{{0,{LONGEST_NAME - 2}}}[a-z0-9])?")
_NOT_TEXT = frozenset(["false", "n", "no", "null", "off", "on", "true", "y", "yes"])
"""Words that YAML reads as a boolean or as null."""
_COMPILED = "__pycache__"

_EXAMPLES = """
examples:
  streams new shop
  streams new ../applications/shop
"""


def add_parser(commands: Any) -> None:
    parser = add_with_examples(
        commands,
        "new",
        "write the files of a new application",
        _EXAMPLES,
        "Writes a small application with its test and settings, and the files to run it with Docker, systemd and"
        " Kubernetes, with alerts and a CI workflow. The name of the new directory is the application id. It changes no"
        " files that exist.",
    )
    parser.add_argument("directory", metavar="DIR", help="the new directory, such as shop")
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Writes the files; returns the exit status."""
    given: str = arguments.directory
    name = os.path.basename(os.path.normpath(given))
    _check_name(name)
    folder = from_start(given)
    _make(folder, given)
    try:
        written = [_write(path, text, folder, name) for path, text in template()]
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)  # It did not exist before this command.
        if isinstance(error, OSError):
            raise StreamsError(f"cannot write the files of {repr_of(given)}: {error.strerror}") from None
        raise
    say(f"created {given} with {len(written)} files; README.md lists the next commands")
    return CLEAN


def template() -> Iterator[tuple[str, str]]:
    """Yields the path and the text of each file of the template, in order of the paths."""
    yield from sorted(_below(files(__package__).joinpath("project"), ""))


def _below(folder: Traversable, prefix: str) -> Iterator[tuple[str, str]]:
    for one in folder.iterdir():
        if one.is_file():
            yield f"{prefix}{one.name}", one.read_text("utf-8")
        elif one.name != _COMPILED:  # An installation compiles the files of the template too.
            yield from _below(one, f"{prefix}{one.name}/")


def _check_name(name: str) -> None:
    """Raises `CannotRun` unless all that has the name allows it: topics, images, services, units."""
    if name in _NOT_TEXT:
        raise CannotRun(f"{repr_of(name)} cannot be the name of an application: YAML files do not read it as a string")
    if _NAME.fullmatch(name):
        return
    near = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")
    hint = f"; did you mean {near!r}?" if _NAME.fullmatch(near) else ""
    raise CannotRun(
        f"{repr_of(name)} cannot be the name of an application in Docker and Kubernetes: use 1 to {LONGEST_NAME}"
        f" lower-case letters, digits and hyphens, with a letter first and no hyphen last{hint}"
    )


def _make(folder: str, given: str) -> None:
    try:
        os.mkdir(folder)
    except FileExistsError:
        raise CannotRun(f"{repr_of(given)} exists already: give a new directory") from None
    except FileNotFoundError:
        raise CannotRun(f"directory {os.path.dirname(folder)} does not exist: create it first") from None
    except OSError as error:
        raise CannotRun(f"cannot create directory {repr_of(given)}: {error.strerror}") from None


def _write(path: str, text: str, folder: str, name: str) -> str:
    """Writes a file of the template for an application of a name; returns its path."""
    target = os.path.join(folder, path.replace(TEMPLATE_NAME, name))
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "x", encoding="utf-8") as file:
        file.write(text.replace(TEMPLATE_NAME, name).replace(_VERSION, __version__))
    return target
