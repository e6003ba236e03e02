"""Reads settings from files: TOML, or Java's ``.properties``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from processor_api.errors import ConfigError

_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SEPARATOR = re.compile(r"(?<!\\)(?:\\\\)*(?P<separator>[ \t\f]*[=:][ \t\f]*|[ \t\f]+)")


def read_settings(path: Path) -> dict[str, Any]:
    """Returns the settings in a file, by name as written there: ``.properties`` is read as Java reads it, anything else
    as TOML.

    In TOML, tables and dotted keys are the same: ``[consumer]`` above ``fetch.min.bytes = 1`` is
    ``consumer.fetch.min.bytes``.

    :raises ConfigError: if the file cannot be read or is malformed.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not text in UTF-8") from None
    if path.suffix == ".properties":
        return dict(_properties(text))
    try:
        return read_table(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None


def read_table(table: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings in a table of TOML; tables in it are prefixes, as in a file."""
    return dict(_flat(table, ""))


def _flat(table: Mapping[str, Any], start: str) -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{start}{name}.")
        else:
            yield start + name, value


def _properties(text: str) -> Iterator[tuple[str, str]]:
    for line in _logical_lines(text):
        match = _SEPARATOR.search(line)
        if match is None:
            yield _unescaped(line), ""
        else:
            yield _unescaped(line[: match.start("separator")]), _unescaped(line[match.end() :])


def _logical_lines(text: str) -> Iterator[str]:
    """Yields the lines without comments and blanks; one that ends in an odd number of backslashes continues in the
    next."""
    continued = ""
    for natural in re.split(r"\r\n|\r|\n", text):
        line = continued + natural.lstrip(" \t\f")
        if not continued and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            continued = line[:-1]
            continue
        continued = ""
        yield line
    if continued:
        yield continued


def _unescaped(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        found = match[1]
        return chr(int(found[1:], 16)) if len(found) == 5 else _ESCAPED.get(found, found)

    return _ESCAPE.sub(plain, text)
