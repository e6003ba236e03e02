"""Finds settings where they may be given: beside the application, in files and in the environment."""

from __future__ import annotations

import difflib
import logging
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from processor_api.errors import ConfigError
from processor_api.texts import repr_of
from streams.config.files import read_settings, read_table
from streams.config.keys import BY_NAME
from streams.config.settings import is_setting, kafka_name

PREFIX = "STREAMS_"
"""The beginning of environment variables that give settings: ``STREAMS_BOOTSTRAP_SERVERS``."""

_OWN_FILE, _PROJECT_FILE = "streams.toml", "pyproject.toml"

log = logging.getLogger("streams.config")


class Given:
    """The settings under Kafka's names, and where each was given; later ones win."""

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {}
        self.origins: dict[str, str] = {}

    def add(self, name: str, value: Any, origin: str) -> None:
        """Adds a setting; it wins over an earlier one."""
        dotted = kafka_name(name)
        self.settings[dotted] = value
        self.origins[dotted] = origin

    def add_all(self, settings: Mapping[str, Any], origin: str) -> None:
        """Adds settings that were given at one place."""
        for name, value in settings.items():
            self.add(name, value, origin)

    def add_beside(self, folder: str | Path) -> None:
        """Adds the settings of the file in a folder, if there is one (:func:`file_beside`).

        :raises ConfigError: if it cannot be read, or there are two.
        """
        found = file_beside(Path(folder))
        if found is not None:
            path, settings = found
            self.add_all(settings, os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path))

    def add_environment(self, environment: Mapping[str, str]) -> None:
        """Adds the settings of variables such as ``STREAMS_BOOTSTRAP_SERVERS``.

        One that names no setting is left alone, since it may belong to another program, with a warning if it is nearly
        one."""
        for variable, value in sorted(environment.items()):
            name = variable.removeprefix(PREFIX).lower()
            if name == variable.lower():
                continue
            if is_setting(name):
                self.add(name, value, f"${variable}")
                continue
            known = [each.replace(".", "_") for each in BY_NAME]
            for near in difflib.get_close_matches(name, known, n=1, cutoff=0.9):
                log.warning(
                    "an environment variable is not a setting, and is ignored",
                    extra={"variable": variable, "perhaps": PREFIX + near.upper()},
                )


def file_beside(folder: Path) -> tuple[Path, dict[str, Any]] | None:
    """Returns the file of settings in a folder, and the settings: ``streams.toml``, or the table ``[tool.streams]`` of
    ``pyproject.toml``.

    :raises ConfigError: if it cannot be read, or both are there.
    """
    own, project = folder / _OWN_FILE, folder / _PROJECT_FILE
    table = _project_table(project) if project.is_file() else None
    if not own.is_file():
        return None if table is None else (project, read_table(table))
    if table is not None:
        raise ConfigError(f"{own} and [tool.streams] of {project} both have settings: remove one of the two")
    return own, read_settings(own)


def _project_table(path: Path) -> dict[str, Any] | None:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} cannot be read to search for [tool.streams]: {error}") from None
    tool = document.get("tool")
    table = tool.get("streams") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise ConfigError(f"tool.streams of {path} is {repr_of(table)}: make it a table of settings, [tool.streams]")
    return table
