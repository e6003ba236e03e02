"""`streams spark bootstrap` and `streams spark check`: the handover from a backfill to live workers."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from streams.cli.changes_nothing import changes_nothing, dry_run
from streams.cli.output.causes import CLEAN, FAILED, CannotRun
from streams.cli.output.terminal import say_lines
from streams.cli.settings_options import add_settings_options
from streams.cli.spark.backfill import read_cut
from streams.cli.spark.settings import spark_settings
from streams.cli.topology_function import APP_HELP, load_topology


def add_parser(commands: Any) -> None:
    _add_bootstrap(commands)
    _add_check(commands)


def _add_bootstrap(commands: Any) -> None:
    parser = commands.add_parser(
        "bootstrap",
        help="hand the result of a backfill over to live workers",
        description="Writes the tables of a complete backfill to the changelogs of the application, and commits the"
        " offsets at which its workers start. Stop all workers first. Workers do not start until it has"
        " reported success; after a failure, run it again. Does not need Java.",
    )
    parser.add_argument("topology", metavar="APP", help=f"the topology that was run: {APP_HELP}")
    parser.add_argument("--run-dir", required=True, metavar="DIR", help="directory of the backfill")
    cuts = parser.add_mutually_exclusive_group()
    cuts.add_argument("--cut", metavar="FILE", type=Path, help="file with the JSON of a Cut: where workers start")
    cuts.add_argument(
        "--cut-time", metavar="MS", type=int, help="time at which a history without offsets ends, in ms since 1970"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the state and offsets of the application")
    parser.add_argument(
        "--publish", metavar="TOPIC", action="append", default=[], help="also write the backfill's records of an output"
    )
    parser.add_argument("--no-verify", action="store_true", help="do not read the changelogs back")
    parser.add_argument(
        "--snapshot-dir", metavar="DIR", help="also write snapshots of the stores there, for workers with this"
        " state.snapshot.dir",
    )  # fmt: skip
    parser.add_argument("--dry-run", action="store_true", help="check everything, and change nothing")
    add_settings_options(parser)
    parser.set_defaults(command=changes_nothing(_bootstrap, dry_run))


def _add_check(commands: Any) -> None:
    parser = commands.add_parser(
        "check",
        help="report whether workers can start after a handover",
        description="Checks the committed offsets and changelogs of an application as its workers do before they"
        " start. Changes nothing. Exit status: 1 if workers would not start, otherwise 0. Does not need Java.",
    )
    parser.add_argument("topology", metavar="APP", help=APP_HELP)
    add_settings_options(parser)
    parser.set_defaults(command=changes_nothing(_check))


def _config_and_topology(arguments: argparse.Namespace) -> tuple[Any, Any]:
    from streams.config import StreamsConfig

    given = spark_settings(arguments, getattr(arguments, "run_dir", None))
    config = StreamsConfig.of(given.settings)
    return config, load_topology(arguments.topology, lambda: config)


def _bootstrap(arguments: argparse.Namespace) -> int:
    if find_spec("pyarrow") is None:
        raise CannotRun("pyarrow is not installed: pip install 'streams-for-kafka[spark]'")
    from streams.spark.handover.bootstrap import bootstrap

    config, topology = _config_and_topology(arguments)
    report = bootstrap(
        arguments.run_dir,
        config,
        topology=topology,
        cut=_cut(arguments, config, topology),
        overwrite=arguments.overwrite,
        publish_outputs=arguments.publish,
        verify=not arguments.no_verify,
        dry_run=arguments.dry_run,
        snapshot_dir=arguments.snapshot_dir,
    )
    say_lines(str(report))
    return CLEAN


def _cut(arguments: argparse.Namespace, config: Any, topology: Any) -> Any:
    from streams.spark.handover.cut import Cut
    from streams.spark.handover.plan import source_topics_of

    if arguments.cut_time is not None:
        return Cut.at_time(config, source_topics_of(topology), arguments.cut_time)
    return read_cut(arguments.cut)


def _check(arguments: argparse.Namespace) -> int:
    from streams.spark.handover.check import check_handover

    config, topology = _config_and_topology(arguments)
    report = check_handover(config, topology)
    say_lines(str(report))
    return CLEAN if report.complete else FAILED
