"""`streams spark backfill`: runs a topology over history."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streams.cli.output.causes import CLEAN, CannotRun
from streams.cli.output.terminal import say, say_lines
from streams.cli.settings_options import add_settings_options
from streams.cli.spark.settings import APPLICATION_ID, spark_settings
from streams.cli.topology_function import APP_HELP, import_path_of, load_topology
from streams.config.sources import Given

if TYPE_CHECKING:
    from streams.spark import Cut, History
    from streams.spark.runs.listed_runs import ListedRun, Runs

KAFKA = "kafka"
PARTS = ("key", "value", "timestamp", "partition", "offset", "headers")
NONE = "-"


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "backfill",
        help="run a topology over history",
        description="Runs the topology of an application over history, and saves its outputs and tables in a"
        " directory. Run it again with the same arguments to continue after a failure. With --runs, each call"
        " continues from the state of the previous run and reads only what was added to the histories; if"
        " nothing was added, it does nothing.",
    )
    parser.add_argument("topology", metavar="APP", help=APP_HELP)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "--run-dir", metavar="DIR", help="directory for the results; all executors must be able to write to it"
    )
    where.add_argument(
        "--runs", metavar="DIR", help="directory of runs that continue from each other: this call adds a run"
    )
    parser.add_argument(
        "--since",
        metavar="RUN",
        help="with --runs: run to continue from: last (the default), a number, or none to start again",
    )
    parser.add_argument("--replace", action="store_true", help="with --since: set aside the runs after that one")
    parser.add_argument(
        "--gaps", choices=("refuse", "allow"), default="refuse", help="whether offsets can be missing since that run"
    )
    parser.add_argument(
        "--engine",
        default="spark",
        metavar="ENGINE",
        help="spark, or local for processes of this machine (local[N] for N of them)",
    )
    _add_history_options(parser)
    parser.add_argument("--order", choices=("auto", "offset", "time"), default="auto")
    parser.add_argument("--outputs", choices=("all", "none"), default="all", help="none saves tables only")
    parser.add_argument("--on-error", choices=("fail", "dead_letter"), default="fail")
    parser.add_argument(
        "--flush-at-end", action="store_true", help="emit results that wait for later records; not for a handover"
    )
    parser.add_argument(
        "--cut", metavar="FILE", type=Path, help="file with the JSON of a Cut: where live workers will start"
    )
    parser.add_argument("--explain", action="store_true", help="print the stages, and run nothing")
    parser.add_argument("--from-start", action="store_true", help="delete the results of an earlier run")
    add_session_option(parser)
    add_settings_options(parser)
    parser.set_defaults(command=run)


def _add_history_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--history",
        metavar="TOPIC=PATH",
        action="append",
        default=[],
        help=f"Parquet files with the records of a topic, or {KAFKA} for those that Kafka retains; once for each topic",
    )
    parser.add_argument(
        "--column",
        metavar="PART=COLUMN",
        action="append",
        default=[],
        help=f"column of a part of the records ({', '.join(PARTS)}), or {NONE}; TOPIC.PART=COLUMN for one topic",
    )
    parser.add_argument(
        "--partitions", metavar="TOPIC=N", action="append", default=[], help="number of partitions of a topic in Kafka"
    )
    parser.add_argument("--values", metavar="TOPIC", action="append", default=[], help="its columns do not hold bytes")
    parser.add_argument(
        "--check-keys", action="store_true", help="check the partitions against Kafka's Java partitioner"
    )
    parser.add_argument("--time-zone", metavar="ZONE", help="time zone of timestamps without one")
    parser.add_argument("--time-unit", choices=("s", "ms", "us", "ns"), help="unit of integer timestamps")


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the topology and the directory of a backfill that is complete."""
    parser.add_argument("topology", metavar="APP", help=f"the topology that was run: {APP_HELP}")
    parser.add_argument("--run-dir", required=True, metavar="DIR", help="directory of the backfill")


def add_session_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--master",
        metavar="URL",
        help="Spark's master; default: that of spark-submit if it started the command, otherwise this machine"
        " (local[*])",
    )


def run(arguments: argparse.Namespace) -> int:
    if arguments.runs is None and (arguments.since or arguments.replace):
        raise CannotRun("--since and --replace need --runs DIR, the directory of the runs")
    given = spark_settings(arguments)
    topology = checked_topology(arguments.topology, given)
    partitions = dict(_partitions(arguments.partitions))
    sources = dict(_pair(text, "--history", "TOPIC=PATH") for text in arguments.history)
    if not sources:
        raise CannotRun("no history is given: give --history TOPIC=PATH for each topic that the topology reads")
    columns = [_column(text, sources) for text in arguments.column]
    cut = read_cut(arguments.cut)
    spark = None if arguments.engine != "spark" else spark_of(arguments)
    from streams.spark import Backfill, BackfillResult
    from streams.spark.runs.listed_runs import Runs

    runs, base = None, None
    if arguments.runs is not None:
        runs = Runs(arguments.runs)
        base = _base(runs, arguments.since)
        _check_later(runs, base, replace=arguments.replace)
    backfill = Backfill(
        spark,
        topology,
        {topic: _history(spark, topic, path, columns, arguments, given) for topic, path in sources.items()},
        application_id=str(given.settings[APPLICATION_ID]),
        run_dir=arguments.run_dir if runs is None else runs.after(base),
        partitions=partitions,
        config=given.settings,
        order=arguments.order,
        outputs=arguments.outputs,
        on_error=arguments.on_error,
        cut=cut,
        initial_state=None if base is None else BackfillResult.load(spark, base.path, topology, given.settings),
        gaps=arguments.gaps,
        overlaps="refuse" if base is None else "skip",
        flush_at_end=arguments.flush_at_end,
        engine=arguments.engine,
    )
    plan = backfill.plan()
    say_lines(plan.explain())
    if base is not None and not plan.is_new:
        say(f"nothing new since run {base.number}: its result is current")
        return CLEAN
    if not arguments.explain:
        sys.stdout.flush()
        if runs is not None and arguments.replace:
            for one in runs.set_aside(base):
                say(f"run {one.number} is set aside in {runs.path / 'replaced'}")
        say_lines(str(backfill.run(resume=not arguments.from_start)))
    return CLEAN


def _base(runs: Runs, since: str | None) -> ListedRun | None:
    """Returns the run to continue with; ``None`` to begin."""
    if since in (None, "last"):
        return runs.last()
    if since == "none":
        return None
    if not since.isdecimal():
        raise CannotRun(
            f"--since {since} is not a run: give last, none, or the number of a run (streams spark runs lists them)"
        )
    return runs.get(int(since))


def _check_later(runs: Runs, base: ListedRun | None, *, replace: bool) -> None:
    """Refuses to put a run in the place of others, unless that is said."""
    later = runs.later(base)
    if later and not replace:
        numbers = ", ".join(str(one.number) for one in later)
        raise CannotRun(
            f"runs {numbers} in {runs.path} continued from it: give --replace to set them aside, and run their"
            " histories again"
        )


def read_cut(path: Path | None) -> Cut | None:
    """Returns the cut in a file.

    :param path: of the file; ``None`` if no cut is given.
    :raises CannotRun: if the file cannot be read, or is not the text of a cut.
    """
    from streams.spark.errors import CutError
    from streams.spark.handover.cut import Cut

    try:
        return None if path is None else Cut.from_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise CannotRun(f"--cut {path} cannot be read: {error}") from None
    except CutError as error:
        raise CannotRun(f"--cut {path}: {error.message}") from None


def checked_topology(path: str, given: Given) -> str:
    """Returns the name by which Spark's executors import the topology of an application, as ``module:name``.

    The topology is made once, so that an error of the user's code is reported as such.

    :raises CannotRun: if there is no such topology.
    """
    from streams.config import StreamsConfig

    load_topology(path, lambda: StreamsConfig.of({"bootstrap.servers": "backfill:9092", **given.settings}))
    return import_path_of(path)


def spark_of(arguments: argparse.Namespace) -> Any:
    """Returns the session of Spark.

    :raises CannotRun: if Spark is not installed.
    """
    try:
        from streams.spark.session import command_session
    except ImportError as error:
        raise CannotRun(f"Spark is not installed ({error}): pip install 'streams-for-kafka[spark]'") from None
    return command_session(arguments.master)


def absolute(path: str) -> str:
    """Returns a path as Spark finds it, whose process may have another current directory."""
    return path if "://" in path else os.path.abspath(path)


def _history(
    spark: Any, topic: str, path: str, columns: Iterable[tuple[str, str, str | None]], arguments: Any, given: Given
) -> History:
    from streams.spark import History

    if path == KAFKA:
        return History.kafka(spark, given.settings, topic)
    if spark is None and not os.path.exists(path):
        raise CannotRun(f"--history {topic}={path}: the file or directory does not exist")
    own: dict[str, Any] = {part: column for of, part, column in columns if of in ("", topic)}
    own |= {part: column for of, part, column in columns if of == topic}
    return History.parquet(
        spark,
        absolute(path),
        encoded=topic not in arguments.values,
        time_zone=arguments.time_zone,
        check_keys=arguments.check_keys,
        time_unit=arguments.time_unit,
        **own,
    )


def _partitions(given: Iterable[str]) -> Iterable[tuple[str, int]]:
    for text in given:
        topic, count = _pair(text, "--partitions", "TOPIC=N")
        if not count.isdecimal():
            raise CannotRun(f"--partitions {text}: {count!r} is not a number; give TOPIC=N")
        yield topic, int(count)


def _column(text: str, topics: Iterable[str]) -> tuple[str, str, str | None]:
    """Returns the topic, which is empty for all of them, the part of its records, and the column."""
    place, column = _pair(text, "--column", "PART=COLUMN")
    topic, _, part = place.rpartition(".")
    if part not in PARTS:
        raise CannotRun(f"--column {text}: a record has the parts {', '.join(PARTS)}, not {part!r}")
    if topic and topic not in topics:
        raise CannotRun(f"--column {text}: topic {topic!r} does not have a --history")
    return topic, part, None if column == NONE else column


def _pair(text: str, option: str, form: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise CannotRun(f"{option} {text}: give {form}")
    return name, value
