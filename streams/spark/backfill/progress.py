"""Shows how far a backfill is: one line on a terminal that is drawn over and over, and lines of a log elsewhere."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

from processor_api.clock import Clock, SystemClock
from streams.threads import SYSTEM_THREADS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("streams.spark")

WIDTH = 30
REDRAW_S = 0.5
LOG_S = 30.0
"""Time between two lines of the log about one job."""


@contextmanager
def progress_of(
    spark: SparkSession, what: str, tasks: int, stream: TextIO | None = None, log_s: float = LOG_S
) -> Iterator[None]:
    """Shows the progress of the Spark job that runs inside the ``with`` (:func:`shown_progress`).

    Spark's own bar takes the same line: with ``spark.ui.showConsoleProgress`` only that one is drawn.

    :param tasks: the number of tasks of the last stage of the job.
    """
    context = _context_of(spark)
    if context is None:
        with shown_progress(what, tasks, None, stream, log_s):
            yield
        return
    group = group_of(what)
    context.setLocalProperty("spark.jobGroup.id", group)
    draws = spark.conf.get("spark.ui.showConsoleProgress", "false") != "true"
    try:
        with shown_progress(what, tasks, lambda: _finished(context.statusTracker(), group), stream, log_s, draws=draws):
            yield
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)


def group_of(what: str) -> str:
    """Returns the name of the group of Spark's jobs for a part of a backfill."""
    return f"streams-{what}"


@contextmanager
def shown_progress(
    what: str,
    tasks: int,
    finished: Callable[[], int] | None,
    stream: TextIO | None = None,
    log_s: float = LOG_S,
    *,
    draws: bool = True,
) -> Iterator[None]:
    """Shows the progress of what runs inside the ``with``: on a terminal as a bar, and everywhere by lines of level
    INFO, which say that it begins, how far it is while it takes long, and that it is over.

    :param tasks: the number of tasks.
    :param finished: returns how many tasks have ended; ``None`` if that cannot be known.
    :param stream: where to draw; standard error unless given.
    :param log_s: the time between two lines of the log.
    :param draws: whether there may be a bar.
    """
    stream = sys.stderr if stream is None else stream
    clock = SystemClock()
    draws = draws and stream.isatty()
    began = clock.monotonic()
    log.info("backfill: %s begins", what, extra={"tasks": tasks})
    if finished is None:
        yield
        log.info("backfill: %s is over", what, extra=_since(began, clock))
        return
    done = SYSTEM_THREADS.event()

    def show() -> None:
        logged = began
        while not done.wait(REDRAW_S if draws else min(REDRAW_S, log_s)):
            with suppress(Exception):  # the session may end meanwhile; that is reported where the job runs
                count = finished()
                if draws:
                    _draw(stream, what, count, tasks)
                if clock.monotonic() - logged >= log_s:
                    logged = clock.monotonic()
                    extra = {"done": count, "tasks": tasks, **_since(began, clock)}
                    log.info("backfill: %s goes on", what, extra=extra)

    shower = SYSTEM_THREADS.thread(show, "backfill-progress")
    shower.start()
    is_over = False
    try:
        yield
        is_over = True
    finally:
        done.set()
        shower.join()
        if draws:
            if is_over:
                _draw(stream, what, tasks, tasks)
            stream.write("\n")
            stream.flush()
        if is_over:
            log.info("backfill: %s is over", what, extra={"tasks": tasks, **_since(began, clock)})


def _since(began: float, clock: Clock) -> dict[str, float]:
    return {"seconds": round(clock.monotonic() - began, 1)}


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
