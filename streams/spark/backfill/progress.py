"""Shows how far a backfill is: one line that changes, on a terminal or in a notebook, and everywhere lines of a log."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from processor_api.clock import Clock, SystemClock
from streams.spark.notebook import CellBar, in_notebook
from streams.threads import SYSTEM_THREADS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("streams.spark")

WIDTH = 30
REDRAW_S = 0.5
LOG_S = 30.0
"""Time between two lines of the log about one job."""


class Bar(Protocol):
    """A line that shows how many tasks are done, and changes."""

    def draw(self, done: int) -> None:
        """Shows that this many tasks are done."""
        ...

    def close(self) -> None:
        """Leaves the line as it is; what is written next comes behind it."""
        ...


class TerminalBar:
    """Draws one line of a terminal over and over."""

    def __init__(self, stream: TextIO, what: str, tasks: int) -> None:
        self._stream = stream
        self._what = what
        self._tasks = tasks

    def draw(self, done: int) -> None:
        filled = round(WIDTH * done / max(1, self._tasks))
        bar = f"{'#' * filled}{'.' * (WIDTH - filled)}"
        self._stream.write(f"\r{self._what} [{bar}] {done} of {self._tasks} tasks")
        self._stream.flush()

    def close(self) -> None:
        self._stream.write("\n")
        self._stream.flush()


def bar_of(what: str, tasks: int, stream: TextIO, *, on_terminal: bool = True) -> Bar | None:
    """Returns what draws the progress of some tasks; ``None`` where no one looks.

    :param stream: where to draw if it is a terminal.
    :param on_terminal: whether a terminal's line is free.
    """
    if stream.isatty():
        return TerminalBar(stream, what, tasks) if on_terminal else None
    return CellBar(what, tasks) if in_notebook() else None


@contextmanager
def progress_of(
    spark: SparkSession, what: str, tasks: int, stream: TextIO | None = None, log_s: float = LOG_S
) -> Iterator[None]:
    """Shows the progress of the Spark job that runs inside the ``with`` (:func:`shown_progress`).

    Spark's own bar takes the same line of a terminal: with ``spark.ui.showConsoleProgress`` only that one is drawn.

    :param tasks: the number of tasks of the last stage of the job.
    """
    context: Any = spark.sparkContext
    group = group_of(what)
    context.setLocalProperty("spark.jobGroup.id", group)
    is_free = spark.conf.get("spark.ui.showConsoleProgress", "false") != "true"
    finished = partial(_finished, context.statusTracker(), group)
    try:
        with shown_progress(what, tasks, finished, stream, log_s, on_terminal=is_free):
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
    finished: Callable[[], int],
    stream: TextIO | None = None,
    log_s: float = LOG_S,
    *,
    on_terminal: bool = True,
) -> Iterator[None]:
    """Shows the progress of what runs inside the ``with``: on a terminal and in a notebook as a bar, and everywhere by
    lines of level INFO, which say that it begins, how far it is while it takes long, and that it is over.

    :param tasks: the number of tasks.
    :param finished: returns how many tasks have ended.
    :param stream: where to draw; standard error unless given.
    :param log_s: the time between two lines of the log.
    :param on_terminal: whether a terminal's line is free for a bar.
    """
    clock = SystemClock()
    began = clock.monotonic()
    log.info("backfill: %s begins", what, extra={"tasks": tasks})
    bar = bar_of(what, tasks, sys.stderr if stream is None else stream, on_terminal=on_terminal)
    done = SYSTEM_THREADS.event()

    def show() -> None:
        logged = began
        while not done.wait(REDRAW_S if bar else min(REDRAW_S, log_s)):
            with suppress(Exception):  # the session may end meanwhile; that is reported where the job runs
                count = finished()
                if clock.monotonic() - logged >= log_s:
                    logged = clock.monotonic()
                    extra = {"done": count, "tasks": tasks, **_since(began, clock)}
                    log.info("backfill: %s goes on", what, extra=extra)
                if bar:
                    bar.draw(count)

    shower = SYSTEM_THREADS.thread(show, "backfill-progress")
    shower.start()
    is_over = False
    try:
        yield
        is_over = True
    finally:
        done.set()
        shower.join()
        if bar:
            if is_over:
                bar.draw(tasks)
            bar.close()
        if is_over:
            log.info("backfill: %s is over", what, extra={"tasks": tasks, **_since(began, clock)})


def _since(began: float, clock: Clock) -> dict[str, float]:
    return {"seconds": round(clock.monotonic() - began, 1)}


def _finished(tracker: Any, group: str) -> int:
    """Returns how many tasks of the last stage have ended: Spark numbers stages in the order in which they run."""
    stages = [stage for job in tracker.getJobIdsForGroup(group) for stage in tracker.getJobInfo(job).stageIds]
    last = tracker.getStageInfo(max(stages)) if stages else None
    return 0 if last is None else int(last.numCompletedTasks)
