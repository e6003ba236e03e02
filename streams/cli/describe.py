"""`streams describe`: prints a topology, without a broker."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from streams.cli.failures import CLEAN
from streams.cli.settings_options import add_settings_options, given_settings
from streams.cli.topology_function import load_topology

__all__ = ["add_parser", "run"]


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "describe",
        help="print a topology, as Kafka Streams does",
        description="Prints the topology that MODULE:FUNCTION makes. No broker is asked; settings matter only where the"
        " function or an optimisation reads them.",
    )
    parser.add_argument("topology", metavar="MODULE:FUNCTION", help="for instance app:topology")
    add_settings_options(parser)
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    def config() -> Any:
        from streams.config import StreamsConfig

        neutral = {"application.id": "described", "bootstrap.servers": "localhost:9092"}
        return StreamsConfig.of({**neutral, **given_settings(arguments).settings})

    sys.stdout.write(load_topology(arguments.topology, config).describe())
    return CLEAN
