"""`streams spark export`: writes a table or the output of a backfill to Parquet files."""

from __future__ import annotations

import argparse
from typing import Any

from streams.cli.output.causes import CLEAN, CannotRun
from streams.cli.output.terminal import say
from streams.cli.settings_options import add_settings_options, given_settings
from streams.cli.spark.backfill import absolute, add_run_arguments, add_session_option, checked_topology, spark_of


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "export",
        help="write a table or an output of a backfill to Parquet files",
        description="Writes a table, the records of an output topic, or the dead letters of a complete backfill to"
        " Parquet files.",
    )
    add_run_arguments(parser)
    parser.add_argument("--to", required=True, metavar="PATH", help="directory to create")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--table", metavar="STORE", help="the table of a store")
    what.add_argument("--output", metavar="TOPIC", help="the records of a topic, as bytes")
    what.add_argument("--dead-letters", action="store_true", help="records that could not be processed")
    parser.add_argument("--raw", action="store_true", help="keys and values of a table as bytes")
    add_session_option(parser)
    add_settings_options(parser)
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    given = given_settings(arguments, derives_id=True)  # whatever it is: the names in the files are those of the run
    topology = checked_topology(arguments.topology, given)
    spark = spark_of(arguments)
    from streams.spark import BackfillResult

    result = BackfillResult.load(spark, arguments.run_dir, topology, given.settings)
    if arguments.table is not None:
        rows = result.table(arguments.table, raw=arguments.raw)
    elif arguments.output is not None:
        rows = result.output(arguments.output)
    else:
        rows = result.dead_letters()
    try:
        rows.write.parquet(absolute(arguments.to))
    except Exception as error:
        if "PATH_ALREADY_EXISTS" not in str(error):
            raise
        raise CannotRun(f"{arguments.to} exists already: give directory to create") from None
    count = spark.read.parquet(absolute(arguments.to)).count()
    say(f"wrote {count} rows to {arguments.to}")
    return CLEAN
