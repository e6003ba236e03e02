"""`streams describe`: prints, draws or compares a topology, without a broker."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from processor_api.errors import ConfigError
from processor_api.topology.layout import Difference, TopologyLayout, differences, is_layout, layout_of
from processor_api.topology.missing_serdes import check_serdes
from processor_api.topology.topology import Topology
from streams.cli.changes_nothing import changes_nothing
from streams.cli.output.causes import CLEAN, FAILED, CannotRun
from streams.cli.output.terminal import say_error, say_lines
from streams.cli.settings_options import add_settings_options, given_settings
from streams.cli.topology_function import APP_HELP, load_topology
from streams.cli.working_directory import from_start

SIDE_BY_SIDE = "Workers of both versions may run at the same time: replace them one by one."
TURNS = (
    "Workers of the two versions cannot run at the same time: the new ones wait until the last of the old ones has"
    " stopped."
)


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "describe",
        help="print or draw a topology, or compare two versions",
        description="Prints the topology of APP in the format of Kafka Streams or as a picture, or its differences from"
        " another version. It does not need a broker; settings matter only if the function or an optimization"
        " reads them.",
    )
    parser.add_argument("topology", metavar="APP", help=APP_HELP)
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--mermaid", dest="form", action="store_const", const=_mermaid, help="as a Mermaid flowchart")
    forms.add_argument(
        "--calls",
        dest="form",
        action="store_const",
        const=_with_calls,
        help="also print the call that made each node, such as map_values(to_cents), and its line in your script",
    )
    forms.add_argument("--svg", dest="form", action="store_const", const=_svg, help="as an SVG picture")
    forms.add_argument(
        "--layout",
        dest="form",
        action="store_const",
        const=_layout,
        help="print the part of the topology that another version must share to run at the same time, as JSON for"
        " --diff",
    )
    forms.add_argument(
        "--diff",
        metavar="OLD",
        help="print the differences of APP from OLD, the version that runs now: a file of --layout, or an"
        " application. Exit status: 1 if workers of both cannot run at the same time",
    )
    add_settings_options(parser)
    parser.set_defaults(command=changes_nothing(run), form=Topology.describe)


def run(arguments: argparse.Namespace) -> int:
    def config() -> Any:
        from streams.config import StreamsConfig

        neutral = {"application.id": "described", "bootstrap.servers": "localhost:9092"}
        return StreamsConfig.of({**neutral, **given_settings(arguments).settings})

    topology = load_topology(arguments.topology, config)
    if arguments.diff is not None:
        settings = given_settings(arguments).settings
        return _compare(layout_in(arguments.diff, settings), layout_of(topology))
    say_lines(arguments.form(topology).removesuffix("\n"))
    sys.stdout.flush()
    if given_settings(arguments).settings:  # otherwise it may be drawn by a person who does not run it
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


def _layout(topology: Topology) -> str:
    return json.dumps(layout_of(topology), indent=2, sort_keys=True)


def layout_in(old: str, settings: Mapping[str, Any]) -> TopologyLayout:
    """Returns the layout in a file of ``--layout``, or of an application, which another process loads: modules of both
    versions may have one name.

    :raises CannotRun: if there is none.
    """
    file = Path(from_start(old))
    if old.endswith(".json") and not file.is_file():
        raise CannotRun(f"layout file {file} does not exist: create one by streams describe APP --layout > layout.json")
    if old.endswith(".py") or not file.is_file():
        given = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        words = [sys.executable, "-m", "streams", "describe", old, "--layout", *given]
        found = subprocess.run(words, cwd=from_start(), capture_output=True, text=True, check=False)
        if found.returncode != CLEAN:
            said = (found.stderr.strip().splitlines() or ["it printed nothing"])[-1]
            raise CannotRun(f"the topology of {old} cannot be read: {said.removeprefix('error: ')}")
        text = found.stdout
    else:
        text = file.read_text(encoding="utf-8", errors="replace")
    try:
        layout = json.loads(text)
    except ValueError:
        layout = None
    if not is_layout(layout):
        raise CannotRun(
            f"{old} is not the layout of a topology: create one by streams describe APP --layout > layout.json"
        )
    return cast(TopologyLayout, layout)


def _compare(old: TopologyLayout, new: TopologyLayout) -> int:
    """Prints in what two layouts differ, and returns the status."""
    found = differences(old, new)
    if not found:
        say_lines(f"The layouts are the same. {SIDE_BY_SIDE}")
        return CLEAN
    for one in found:
        say_lines(f"{_mark(one)}  {one.text}")
    together = all(one.side_by_side for one in found)
    say_lines(SIDE_BY_SIDE if together else TURNS)
    return CLEAN if together else FAILED


def _mark(one: Difference) -> str:
    return "loses" if one.loses else "rolls" if one.side_by_side else "waits"
