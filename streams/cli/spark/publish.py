"""`streams spark publish`: writes the corrections of a live table to its topic."""

from __future__ import annotations

import argparse
from typing import Any

from streams.cli.changes_nothing import changes_nothing
from streams.cli.output.causes import CLEAN, CannotRun
from streams.cli.output.terminal import say_lines
from streams.cli.settings_options import add_settings_options
from streams.cli.spark.backfill import absolute, add_run_arguments, add_session_option, checked_topology, spark_of
from streams.cli.spark.settings import spark_settings


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "publish",
        help="write the corrections of a live table to its topic",
        description="Compares a table of a complete backfill with the live table of the application, and writes the"
        " corrected values to the topic of the table, each exactly once. For keys that only the live table"
        " has, it writes a null value. Without --yes it prints what it would write, and writes nothing.",
    )
    add_run_arguments(parser)
    parser.add_argument("--table", required=True, metavar="STORE", help="the store")
    parser.add_argument(
        "--topic", metavar="TOPIC", help="the topic to write to, if the table is written directly to several"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--rows", metavar="PATH", help="Parquet files that `streams spark diff --to` wrote, instead of a comparison"
    )
    what.add_argument("--resume", action="store_true", help="complete an earlier call that was killed")
    parser.add_argument(
        "--ignore-positions",
        action="store_true",
        help="publish even if the application has processed other records than the backfill",
    )
    parser.add_argument("--yes", action="store_true", help="write the records")
    add_session_option(parser)
    add_settings_options(parser)
    parser.set_defaults(command=changes_nothing(run, lambda arguments: not arguments.yes))


def run(arguments: argparse.Namespace) -> int:
    given = spark_settings(arguments, arguments.run_dir)
    topology = checked_topology(arguments.topology, given)
    spark = None if arguments.resume else spark_of(arguments)
    from streams.spark import BackfillResult

    result = BackfillResult.load(spark, arguments.run_dir, topology, given.settings)
    positions = "ignore" if arguments.ignore_positions else "check"
    report = result.publish_corrections(
        arguments.table,
        None if spark is None else _rows(spark, arguments, result, topology, given.settings, positions),
        given.settings,
        topic=arguments.topic,
        dry_run=not arguments.yes,
        positions=positions,
    )
    say_lines(str(report))
    return CLEAN


def _rows(spark: Any, arguments: argparse.Namespace, result: Any, topology: Any, settings: Any, positions: str) -> Any:
    """Returns the rows that differ: those of a file, or of a comparison now."""
    if arguments.rows is None:
        from streams.spark import read_table

        live = read_table(spark, settings, topology, arguments.table)
        return result.diff(arguments.table, live, positions=positions)
    try:
        return spark.read.parquet(absolute(arguments.rows))
    except Exception as error:
        if "PATH_NOT_FOUND" not in str(error):
            raise
        raise CannotRun(f"--rows {arguments.rows}: no such files exist") from None
