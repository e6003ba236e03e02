"""`streams describe`: prints or draws a topology, without a broker."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from processor_api.errors import ConfigError
from processor_api.topology.missing_serdes import check_serdes
from processor_api.topology.topology import Topology
from streams.cli.output.failures import CLEAN
from streams.cli.output.terminal import say_error, say_lines
from streams.cli.settings_options import add_settings_options, given_settings
from streams.cli.topology_function import APP_HELP, load_topology


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "describe",
        help="print a topology, as Kafka Streams does, or draw it",
        description="Prints the topology of APP, in the words of Kafka Streams or as a picture. No"
        " broker is asked; settings matter only where the function or an optimisation reads them.",
    )
    parser.add_argument("topology", metavar="APP", help=APP_HELP)
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--mermaid", dest="form", action="store_const", const=_mermaid, help="as a Mermaid flowchart")
    forms.add_argument(
        "--calls",
        dest="form",
        action="store_const",
        const=_with_calls,
        help="with the call that made each node, such as map_values(to_cents), and its line in your script",
    )
    forms.add_argument("--svg", dest="form", action="store_const", const=_svg, help="as an SVG picture")
    add_settings_options(parser)
    parser.set_defaults(command=run, form=Topology.describe)


def run(arguments: argparse.Namespace) -> int:
    def config() -> Any:
        from streams.config import StreamsConfig

        neutral = {"application.id": "described", "bootstrap.servers": "localhost:9092"}
        return StreamsConfig.of({**neutral, **given_settings(arguments).settings})

    topology = load_topology(arguments.topology, config)
    say_lines(arguments.form(topology).removesuffix("\n"))
    sys.stdout.flush()
    if given_settings(arguments).settings:  # else it may be drawn by a person who does not run it
        _warn_of_missing_serdes(topology, config())
    return CLEAN


def _warn_of_missing_serdes(topology: Topology, config: Any) -> None:
    """Says what a run with these settings would end with: a topology can be drawn without serdes."""
    try:
        check_serdes(topology, config.default_key_serde, config.default_value_serde)
    except ConfigError as error:
        say_error(f"warning: {error}")


def _with_calls(topology: Topology) -> str:
    from processor_api.topology.describe import describe

    return describe(topology, calls=True)


def _mermaid(topology: Topology) -> str:
    from streams.drawing.graph import graph_of
    from streams.drawing.mermaid import mermaid

    return mermaid(graph_of(topology))


def _svg(topology: Topology) -> str:
    from streams.drawing.graph import graph_of
    from streams.drawing.svg import svg

    return svg(graph_of(topology))
