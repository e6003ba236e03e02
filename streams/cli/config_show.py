"""`streams config show`: prints the settings in effect and where each came from."""

from __future__ import annotations

import argparse
from typing import Any

from streams.cli.output.causes import CLEAN
from streams.cli.output.terminal import say
from streams.cli.settings_options import add_settings_options, given_settings

_STAND_INS = {"application.id": "missing", "bootstrap.servers": "missing:9092"}
"""Values for required settings, so that the others can be checked and shown while these are missing."""


def add_parser(commands: Any) -> None:
    config = commands.add_parser("config", help="show the configuration", description="Shows the configuration.")
    subcommands = config.add_subparsers(title="commands", metavar="COMMAND", required=True)
    parser = subcommands.add_parser(
        "show",
        help="print the settings in effect",
        description="Prints every setting in effect, its source, and settings without effect; secrets are masked.",
    )
    parser.add_argument(
        "topology", metavar="APP", nargs="?", help="with the settings of this application, and those next to its file"
    )
    add_settings_options(parser)
    parser.add_argument("--given", action="store_true", help="omit defaults")
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    from streams.config.keys import BY_NAME, IGNORED
    from streams.config.model import REQUIRED, StreamsConfig

    given = given_settings(arguments, derives_id=True)
    missing = {name: what for name, what in REQUIRED.items() if name not in given.settings}
    shown = StreamsConfig.of({**_STAND_INS, **given.settings}).shown()
    rows = []
    for name, value in shown.items():
        if name in missing:
            rows.append((f"{name} =", f"missing: {missing[name]}"))
            continue
        origin = given.origins.get(name, "default")
        if origin != "default" or not arguments.given:
            key = BY_NAME.get(name)
            remark = f"{origin}; no effect" if key is not None and key.status == IGNORED else origin
            rows.append((f"{name} = {value}".rstrip(), remark))
    width = max((len(setting) for setting, _ in rows), default=0)
    for setting, remark in rows:
        say(f"{setting:<{width}}  # {remark}")
    return CLEAN
