"""`streams check`: all that can be checked of an application before it is deployed, with one exit status."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from processor_api.errors import ConfigError
from processor_api.topology.layout import differences, layout_of
from processor_api.topology.missing_serdes import check_serdes
from processor_api.topology.topology import Topology
from processor_api.topology.warnings import warnings_of
from streams.cli.changes_nothing import changes_nothing
from streams.cli.command_parser import add_with_examples
from streams.cli.describe import SIDE_BY_SIDE, layout_in
from streams.cli.output.causes import CLEAN, FAILED
from streams.cli.output.findings import Finding, Verdict, fail, fails, ok, warn
from streams.cli.output.terminal import say
from streams.cli.registry import check as schemas
from streams.cli.settings_options import add_settings_options, given_settings
from streams.cli.topology_function import APP_HELP, load_topology

if TYPE_CHECKING:
    from streams.config import StreamsConfig

_EXAMPLES = """
examples:
  streams check app.py
  streams check app.py --strict --diff layout.json -c schema.registry.url=http://localhost:8081
"""


def add_parser(commands: Any) -> None:
    parser = add_with_examples(
        commands,
        "check",
        "check an application before it is deployed",
        _EXAMPLES,
        "Checks, without a broker, the topology of APP for likely mistakes and missing serdes, its differences from the"
        " version that runs now, its schemas against the schema registry, and whether it can read the stores on disk."
        " Prints one line per finding: ok, warn or fail. Exit status: 1 if a check fails, otherwise 0.",
    )
    parser.add_argument("topology", metavar="APP", help=APP_HELP)
    parser.add_argument(
        "--diff",
        metavar="OLD",
        help="the version that runs now: a file of streams describe --layout, or an application",
    )
    parser.add_argument("--strict", action="store_true", help="exit with status 1 for warnings, too")
    parser.add_argument("--state-dir", metavar="DIR", help="the root of the state directories (state.dir)")
    add_settings_options(parser)
    parser.set_defaults(command=changes_nothing(run), task=[])


def run(arguments: argparse.Namespace) -> int:
    """Prints findings as they come; returns the exit status."""
    wrong = {Verdict.FAIL, Verdict.WARN} if arguments.strict else {Verdict.FAIL}
    status = CLEAN
    for finding in _findings(arguments):
        say(str(finding))
        status = FAILED if finding.verdict in wrong else status
    return status


def _findings(arguments: argparse.Namespace) -> Iterator[Finding]:
    from streams.config import StreamsConfig

    stand_ins = {"application.id": "checked", "bootstrap.servers": "localhost:9092"}
    given = given_settings(arguments, derives_id=True).settings
    config = StreamsConfig.of({**stand_ins, **given})
    topology = load_topology(arguments.topology, lambda: config)
    yield from _of_topology(topology, config)
    if arguments.diff is not None:
        yield from _of_layout(topology, arguments, given)
    yield from schemas.checked(topology, config)
    yield from _of_state(topology, arguments, config)


def _of_topology(topology: Topology, config: StreamsConfig) -> Iterator[Finding]:
    warnings = warnings_of(topology)
    for warning in warnings:
        yield warn("topology", str(warning))
    if not warnings:
        yield ok("topology", "no likely mistakes")
    try:
        check_serdes(topology, config.default_key_serde, config.default_value_serde)
    except ConfigError as error:
        yield from fails("serdes", error)
    else:
        yield ok("serdes", "each source, sink and store has its serdes")


def _of_layout(topology: Topology, arguments: argparse.Namespace, given: Mapping[str, Any]) -> Iterator[Finding]:
    settings = {name: value for name, value in given.items() if name != "application.id"}  # It may be derived.
    found = differences(layout_in(arguments.diff, settings), layout_of(topology))
    for one in found:
        verdict = ok if one.side_by_side else fail
        yield (warn if one.loses and one.side_by_side else verdict)("layout", one.text)
    if not found:
        yield ok("layout", f"the same. {SIDE_BY_SIDE}")


def _of_state(topology: Topology, arguments: argparse.Namespace, config: StreamsConfig) -> Iterator[Finding]:
    from state.directory.inspect import applications_in
    from streams.cli.state import check
    from streams.cli.state.where import place_of

    if config.state_dir.is_dir() and config.application_id in applications_in(config.state_dir):
        yield from check.checked(place_of(arguments), topology)
    else:
        yield ok("state", f"{config.state_dir} does not have state of {config.application_id}")
