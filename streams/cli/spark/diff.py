"""`streams spark diff`: compares a table of a backfill with that of the live application."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streams.cli.changes_nothing import changes_nothing
from streams.cli.output.causes import CLEAN, FAILED, CannotRun
from streams.cli.output.terminal import say, say_error
from streams.cli.settings_options import add_settings_options
from streams.cli.spark.backfill import absolute, add_run_arguments, add_session_option, checked_topology, spark_of
from streams.cli.spark.settings import spark_settings

if TYPE_CHECKING:
    from streams.spark import BackfillResult, OffsetRanges


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "diff",
        help="compare a table of a backfill with the live one",
        description="Prints the keys whose rows differ between a table of a complete backfill and the live table of"
        " the application. Warns if the two have not read the same records. Exit status: 1 if they differ,"
        " otherwise 0.",
    )
    add_run_arguments(parser)
    parser.add_argument("--table", required=True, metavar="STORE", help="the store")
    parser.add_argument(
        "--offsets", metavar="FILE", type=Path, help="file with the JSON of pin_offsets: the offsets to read",
    )  # fmt: skip
    parser.add_argument("--limit", metavar="N", type=int, default=20, help="number of keys to print; 20 by default")
    parser.add_argument("--to", metavar="PATH", help="also write all keys that differ to Parquet files there")
    parser.add_argument("--raw", action="store_true", help="compare keys and values as bytes")
    parser.add_argument("--expired-windows", action="store_true", help="also windows that a live store no longer shows")
    add_session_option(parser)
    add_settings_options(parser)
    parser.set_defaults(command=changes_nothing(run))


def run(arguments: argparse.Namespace) -> int:
    if arguments.limit < 0:
        raise CannotRun(f"--limit must be at least 0, got {arguments.limit}")
    given = spark_settings(arguments, arguments.run_dir)
    topology = checked_topology(arguments.topology, given)
    offsets = _offsets(arguments.offsets)
    spark = spark_of(arguments)
    from streams.spark import BackfillResult, read_table

    result = BackfillResult.load(spark, arguments.run_dir, topology, given.settings)
    live = read_table(
        spark, given.settings, topology, arguments.table,
        offsets=offsets, raw=arguments.raw, versions="all", expired_windows=arguments.expired_windows,
    )  # fmt: skip
    _warn_of_other_records(result, given.settings)
    found = result.diff(arguments.table, live, expired_windows=arguments.expired_windows, positions="ignore").cache()
    try:
        count = found.count()
        keys = [name for name in found.columns if name not in ("difference", "backfill", "live")]
        for row in found.orderBy(*keys).limit(arguments.limit).collect():
            named = ", ".join(f"{name}={row[name]!r}" for name in keys)
            say(f"{row['difference']}: {named}: backfill {_shown(row, 'backfill')}, live {_shown(row, 'live')}")
        if count > arguments.limit:
            say(f"... and {count - arguments.limit:,} more")
        say(f"{count:,} keys of {arguments.table!r} differ")
        if arguments.to is not None:
            _write(found, arguments.to)
    finally:
        found.unpersist()
    return FAILED if count else CLEAN


def _shown(row: Any, side: str) -> str:
    found = row[side]
    if found is None:
        return "none"
    return ", ".join(f"{name}={value!r}" for name, value in found.asDict().items())


def _write(found: Any, path: str) -> None:
    try:
        found.write.parquet(absolute(path))
    except Exception as error:
        if "PATH_ALREADY_EXISTS" not in str(error):
            raise
        raise CannotRun(f"{path} already exists: give a directory that does not exist yet") from None


def _offsets(path: Path | None) -> OffsetRanges | None:
    from streams.spark.sources.ranges import OffsetRanges

    try:
        return None if path is None else OffsetRanges.from_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise CannotRun(f"--offsets {path} cannot be read: {error}") from None


def _warn_of_other_records(result: BackfillResult, settings: Any) -> None:
    """Says where the application has read other records than the backfill, so that tables differ without a fault."""
    from streams.spark.handover.check import progress_beside

    for place, ended, reads_on in progress_beside(result.run_dir, settings, result.topology):
        say_error(
            f"warning: of {place} the backfill has processed offsets before {ended}, and the application"
            f" {'none' if reads_on is None else f'those before {reads_on}'}"
        )
