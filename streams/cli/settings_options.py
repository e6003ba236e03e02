"""The options by which commands take settings: a file, single settings, and some settings with an option of their
own."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from streams.cli.failures import CannotRun
from streams.config.files import read_settings
from streams.config.settings import kafka_name

__all__ = ["Given", "add_settings_options", "given_settings"]

_OPTIONS = {
    "application_id": ("application.id", "--application-id"),
    "bootstrap_servers": ("bootstrap.servers", "--bootstrap-servers"),
    "threads": ("num.stream.threads", "--threads"),
    "state_dir": ("state.dir", "--state-dir"),
    "trace_every": ("trace.every", "--trace-every"),
    "trace_keys": ("trace.keys", "--trace-keys"),
    "trace_topics": ("trace.topics", "--trace-topics"),
}


class Given:
    """The settings under Kafka's names, and where each was given."""

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {}
        self.origins: dict[str, str] = {}

    def add(self, name: str, value: Any, origin: str) -> None:
        """Adds settings; later ones win."""
        dotted = kafka_name(name)
        self.settings[dotted] = value
        self.origins[dotted] = origin


def add_settings_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("settings", "an option wins over -c, which wins over files")
    group.add_argument("--application-id", metavar="ID", help="the name of the application (application.id)")
    group.add_argument("--bootstrap-servers", metavar="HOST:PORT,...", help="where Kafka is (bootstrap.servers)")
    group.add_argument(
        "--config",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="a TOML or .properties file of settings; may be repeated, a later one wins",
    )
    group.add_argument(
        "-c", dest="set", metavar="KEY=VALUE", action="append", default=[], help="one setting; may be repeated"
    )


def given_settings(arguments: argparse.Namespace) -> Given:
    """Returns the settings of the options, not yet checked.

    :raises ConfigError: if a file cannot be read.
    :raises CannotRun: if a ``-c`` is not ``key=value``.
    """
    given = Given()
    for file in arguments.config:
        for name, value in read_settings(file).items():
            given.add(name, value, str(file))
    for pair in arguments.set:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise CannotRun(f"-c takes key=value, got {pair.partition('=')[0]!r}")
        given.add(name.strip(), value, "-c")
    for attribute, (name, option) in _OPTIONS.items():
        value = getattr(arguments, attribute, None)
        if value is not None:
            given.add(name, value, option)
    return given
