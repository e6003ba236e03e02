"""Shows how far a backfill is: one line on a terminal that is drawn over and over."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

from streams.threads import SYSTEM_THREADS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["progress_of"]

WIDTH = 30
REDRAW_S = 0.5


@contextmanager
def progress_of(spark: SparkSession, what: str, tasks: int, stream: TextIO | None = None) -> Iterator[None]:
    """Draws the progress of the Spark job that runs inside the ``with``; nothing where there is no terminal.

    Spark's own bar takes the same line: with ``spark.ui.showConsoleProgress`` only that one is drawn.

    :param tasks: the number of tasks of the last stage of the job.
    :param stream: where to draw; standard error unless given.
    """
    stream = sys.stderr if stream is None else stream
    context = _context_of(spark)
    if context is None or not stream.isatty() or spark.conf.get("spark.ui.showConsoleProgress", "false") == "true":
        yield
        return
    group = f"streams-{what}"
    context.setLocalProperty("spark.jobGroup.id", group)
    done = SYSTEM_THREADS.event()

    def draw() -> None:
        while not done.wait(REDRAW_S):
            with suppress(Exception):  # the session may end meanwhile; that is reported where the job runs
                _draw(stream, what, _finished(context.statusTracker(), group), tasks)

    drawer = SYSTEM_THREADS.thread(draw, "backfill-progress")
    drawer.start()
    try:
        yield
        _draw(stream, what, tasks, tasks)
    finally:
        done.set()
        drawer.join()
        context.setLocalProperty("spark.jobGroup.id", None)
        stream.write("\n")
        stream.flush()


def _context_of(spark: SparkSession) -> Any:
    """Returns the session's context; ``None`` for a session of Spark Connect, which has none."""
    try:
        return spark.sparkContext
    except Exception:
        return None


def _finished(tracker: Any, group: str) -> int:
    """Returns how many tasks of the last stage have ended: Spark numbers stages in the order in which they run."""
    stages = [stage for job in tracker.getJobIdsForGroup(group) for stage in tracker.getJobInfo(job).stageIds]
    last = tracker.getStageInfo(max(stages)) if stages else None
    return 0 if last is None else int(last.numCompletedTasks)


def _draw(stream: TextIO, what: str, done: int, total: int) -> None:
    filled = round(WIDTH * done / max(1, total))
    stream.write(f"\r{what} [{'#' * filled}{'.' * (WIDTH - filled)}] {done} of {total} tasks")
    stream.flush()
