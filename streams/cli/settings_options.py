"""The options by which commands take settings: a file, single settings, and some settings with an option of their
own."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streams.cli.output.causes import CannotRun
from streams.cli.topology_function import import_from, named_app, settings_in
from streams.cli.working_directory import from_start, still_there
from streams.config.files import read_settings
from streams.config.sources import Given

_OPTIONS = {
    "application_id": ("application.id", "--application-id"),
    "http": ("http.listen", "--http"),
    "bootstrap_servers": ("bootstrap.servers", "--bootstrap-servers"),
    "threads": ("num.stream.threads", "--threads"),
    "state_dir": ("state.dir", "--state-dir"),
    "trace_every": ("trace.every", "--trace-every"),
    "trace_keys": ("trace.keys", "--trace-keys"),
    "trace_topics": ("trace.topics", "--trace-topics"),
}


def add_settings_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "settings",
        "an option overrides -c, which overrides STREAMS_... variables, which override files, which override code",
    )
    group.add_argument("--application-id", metavar="ID", help="the name of the application (application.id)")
    group.add_argument("--bootstrap-servers", metavar="HOST:PORT,...", help="address of Kafka (bootstrap.servers)")
    group.add_argument(
        "--config",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="a TOML or .properties file of settings; repeatable, a later file overrides",
    )
    group.add_argument(
        "-c", dest="set", metavar="KEY=VALUE", action="append", default=[], help="one setting; repeatable"
    )


@contextmanager
def without_remarks() -> Iterator[None]:
    """Reads settings without the remarks about them, which another reading logs; a context manager."""
    remarks = logging.getLogger("streams.config")
    remarks.setLevel(logging.ERROR)
    try:
        yield
    finally:
        remarks.setLevel(logging.NOTSET)


def given_settings(arguments: argparse.Namespace, *, derives_id: bool = False, of_module: bool = True) -> Given:
    """Returns the settings that are given to a command, not yet checked.

    Later ones win: ``settings`` of the application's module, the file beside it, files of ``--config``, environment
    variables, ``-c``, options. Import paths among them are looked for where the module is.

    :param derives_id: whether the name of the application's file is its id where no other is given.
    :param of_module: whether the application's module is imported, for the ``settings`` that it may have.
    :raises ConfigError: if a file cannot be read.
    :raises CannotRun: if a ``-c`` is not ``key=value``, or the module cannot be imported.
    """
    given, app = Given(), None
    named = getattr(arguments, "topology", None)
    if named is not None:
        app = named_app(named)
    folder = from_start() if app is None else app.folder
    if app is None:
        if folder not in sys.path:
            sys.path.append(folder)  # behind all others: what lies in a folder by chance hides nothing
    else:
        import_from(folder)
        if derives_id:
            given.add("application.id", app.module.rpartition(".")[2], f"name of {app.given.partition(':')[0]}")
        if of_module:
            given.add_all(settings_in(app), f"{app.module}:settings")
    given.add_beside(folder)
    for file in arguments.config:
        given.add_all(read_settings(Path(still_there(str(file)))), str(file))
    given.add_environment(os.environ)
    for pair in arguments.set:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise CannotRun(f"-c takes key=value, got {pair.partition('=')[0]!r}")
        given.add(name.strip(), value, "-c")
    for attribute, (name, option) in _OPTIONS.items():
        value = getattr(arguments, attribute, None)
        if value is not None:
            given.add(name, value, option)
    state_dir = given.settings.get("state.dir")
    if isinstance(state_dir, str) and not state_dir.startswith("~"):
        given.settings["state.dir"] = still_there(state_dir)
    return given
