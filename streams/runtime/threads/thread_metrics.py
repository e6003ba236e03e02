"""Plain counters of what a stream thread has done, added to once for each batch, and what is made of them at times."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterable

from processor_api.clock import Clock
from processor_api.context import HeldBack
from processor_api.forms.times import short_iso
from processor_api.task_id import TaskId, TopicPartition
from processor_api.texts import plain_str
from processor_api.topology.data import TopologyData
from streams.config import StreamsConfig
from streams.metrics.registry import Metrics
from streams.runtime.processing.drops import ClosedTaskCounts, Sums, TaskDrops, add_to, node_in_words
from streams.runtime.processing.inputs import quiet_in_words
from streams.runtime.tasks.task import Task

log = logging.getLogger("streams.thread")

SAMPLE_INTERVAL_S = 0.5
"""The least time between two samples of the counters."""
SAMPLE_PART = 0.1
"""The time between two samples, as a part of a window of the metrics."""
LAG_INTERVAL_S = 1.0
"""The time between two looks at the ends of the input partitions, and two samples of what nodes do."""
SAMPLED_TASKS = 2
"""The number of tasks that take a sample then, in turn: one takes about a third of a millisecond."""
DROPS_INTERVAL_S = 60.0
"""The least time between two lines about dropped records."""
MOST_NAMED = 5
"""How many nodes and reasons a line of the log names."""
MOST_COUNTED = 1000
"""How many rows of a store are counted that wait."""
LOOK_INTERVAL_S = 1.0
"""The least time between two looks at what waits."""
LOOK_PART = 200
"""How much longer than a look the time to the next one is at least."""


class GroupCounters:
    """Counts what the group does to the tasks of a thread since its start. Written by the thread, read by any.

    A rebalance here begins when the group takes tasks away, or the thread joins, and ends when the group says which
    tasks the thread has; one that only adds tasks takes no time.
    """

    def __init__(self, metrics: Metrics, now: Callable[[], float]) -> None:
        self._now = now
        self.tasks_created = self.tasks_closed = 0
        self.closed = ClosedTaskCounts()
        self.rebalances = self.failed = 0
        """Rebalances that have ended, and those in which the thread lost its tasks without giving them back."""
        self.rebalance_s = self.rebalance_s_max = 0.0
        self._began: float | None = None
        self._ended: float | None = None
        self.windows = metrics.windows(
            self, ("tasks_created", "tasks_closed", "rebalances", "failed", "rebalance_s"), ("rebalance_s_max",)
        )

    def begins(self) -> None:
        """Takes that the thread joins, or that tasks were taken away; nothing if a rebalance has begun already."""
        if self._began is None:
            self._began = self._now()

    def owns(self, *, gone: bool, lost: bool) -> None:
        """Takes that the group has said which tasks the thread has.

        :param gone: whether some were taken away, for which a new assignment follows.
        :param lost: whether others may have them already.
        """
        if lost:
            self.failed += 1
        if gone or lost:
            self.begins()
            return
        now = self._ended = self._now()
        seconds = 0.0 if self._began is None else now - self._began
        self._began = None
        self.rebalances += 1
        self.rebalance_s += seconds
        if seconds > self.rebalance_s_max:
            self.rebalance_s_max = seconds

    def since_last_s(self) -> float:
        """Returns the seconds since the end of the last rebalance; -1 if there was none, as in Kafka."""
        return -1.0 if self._ended is None else self._now() - self._ended


class ThreadTimes:
    """Holds when a thread was started, and when all that it had processed was last committed."""

    def __init__(self, started_at_ms: int, now: Callable[[], float]) -> None:
        self.started_at_ms = started_at_ms
        self._now = now
        self._all_committed_at = now()

    def all_committed(self) -> None:
        """Notes that all that was processed is committed, or that there is nothing to commit."""
        self._all_committed_at = self._now()

    def since_commit_s(self) -> float:
        """Returns how long ago a commit last succeeded, or found nothing to do; since the start, if none has."""
        return self._now() - self._all_committed_at


class ThreadCounters:
    """Counts since the start of the thread. Written by the thread, read by any. Times are in seconds."""

    def __init__(self, started_at_ms: int, metrics: Metrics, now: Callable[[], float]) -> None:
        self.times = ThreadTimes(started_at_ms, now)
        self.processed = self.commits = self.polls = 0
        self.process_s = self.commit_s = self.poll_s = 0.0
        self.process_s_max = self.commit_s_max = self.poll_s_max = 0.0
        """The largest of the window; of processing, for one record in the mean of a batch."""
        self.group = GroupCounters(metrics, now)
        """Counts what the group has done to the tasks of the thread."""
        self.windows = metrics.windows(
            self,
            ("processed", "commits", "polls", "process_s", "commit_s", "poll_s"),
            ("process_s_max", "commit_s_max", "poll_s_max"),
        )

    def polled(self, seconds: float) -> None:
        """Adds a poll."""
        self.polls += 1
        self.poll_s += seconds
        if seconds > self.poll_s_max:
            self.poll_s_max = seconds

    def worked(self, seconds: float, records: int) -> None:
        """Adds the time that this many records took; nothing for no records."""
        if records:
            self.process_s += seconds
            each = seconds / records
            if each > self.process_s_max:
                self.process_s_max = each

    def committed(self, seconds: float) -> None:
        """Adds a commit of tasks."""
        self.commits += 1
        self.commit_s += seconds
        if seconds > self.commit_s_max:
            self.commit_s_max = seconds


class DropReport:
    """Says what the tasks of a thread have dropped, in one line of the log, at most once a minute."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._waiting: Sums = {}
        self._topology: TopologyData | None = None
        self._next = 0.0
        self._dropped = 0

    def collect(self, drops: TaskDrops, topology: TopologyData) -> None:
        """Takes what a task has dropped since the last call."""
        for one in drops.since_last():
            if one.reason.dropped:
                self._dropped += one.count
            if not one.reason.is_expected:
                add_to(self._waiting, one)
                self._topology = topology

    def collect_all(self, tasks: Iterable[Task]) -> None:
        """Takes what tasks have dropped since the last call."""
        for task in tasks:
            self.collect(task.environment.metrics.drops, task.plan.topology)

    def since_summary(self) -> int:
        """Returns how many records were dropped since the last call."""
        dropped, self._dropped = self._dropped, 0
        return dropped

    def log(self, now: float) -> None:
        """Logs what is not logged yet, if it is time.

        :param now: of the monotonic clock, in seconds.
        """
        if now < self._next or self._topology is None or not self._waiting:
            return
        self._next = now + DROPS_INTERVAL_S
        found = sorted(self._waiting.values(), key=lambda one: -one.count)
        said = [one.in_words(self._topology) for one in found[:MOST_NAMED]]
        if len(found) > MOST_NAMED:
            said.append(f"{sum(one.count for one in found[MOST_NAMED:])} at others")
        self._waiting.clear()
        log.info("records without a result: %s", "; ".join(said), extra={"thread_name": self._name})


class HeldReport:
    """Has the tasks of a thread look at what they hold back, and says in the log which wait for a later record.

    A look reads some rows of each store in which results wait. The time between two looks is so much longer than a
    look that they take little of the time of the thread.
    """

    def __init__(self, name: str, clock: Clock) -> None:
        self._name = name
        self._monotonic = clock.monotonic
        self._next = 0.0
        self._stood: dict[TaskId, int] = {}
        """The stream time of each task that held something back at the last summary."""
        self._logged: dict[TaskId, int] = {}
        """The stream time at which a task was when it was named in the log."""

    def look(self, now: float, tasks: Iterable[Task]) -> None:
        """Looks into the stores, if it is time.

        :param now: of the monotonic clock, in seconds.
        """
        if now < self._next:
            return
        for task in tasks:
            if task.environment.operators.held_results:
                try:
                    task.environment.operators.held_results.find(MOST_COUNTED)
                except Exception as error:  # a look for people must not end what works: who needs the row will fail
                    log.debug("what waits is not known", extra={"task": str(task.id), "error": plain_str(error)})
        took = self._monotonic() - now
        self._next = now + max(LOOK_INTERVAL_S, took * LOOK_PART)

    def log(self, tasks: Iterable[Task]) -> None:
        """Logs the tasks whose stream time has not gone on since the last call, and that hold results back; each once
        until it advances."""
        stood, self._stood = self._stood, {}
        lines: list[str] = []
        for task in tasks:
            held, time = task.environment.operators.held_results.latest, task.environment.cursor.stream_time
            if not held:
                continue
            self._stood[task.id] = time
            if stood.get(task.id) == time and self._logged.get(task.id) != time:
                self._logged[task.id] = time
                lines += [_waits(task, node, one) for node, one in held]
        if lines:
            more = [f"{len(lines) - MOST_NAMED} others"] if len(lines) > MOST_NAMED else []
            named = "; ".join([*lines[:MOST_NAMED], *more])
            log.info("results wait for stream time: %s", named, extra={"thread_name": self._name})


def _waits(task: Task, node: str, held: HeldBack) -> str:
    """Returns in words what a node of a task holds back, and for which partition it waits."""
    topology, queue = task.plan.topology, task.inputs.holding_back()
    place = node_in_words(node, topology.call_of(node), topology.line_of(node))
    words = f"{held.what} at {place} until {short_iso(held.due_ms)} in task {task.id}"
    if queue is None:
        return words
    time = None if queue.partition_time < 0 else queue.partition_time
    return f"{words}: {quiet_in_words(f'{queue.partition}', time, queue.ends.read_ms)}"


class Reports:
    """Samples the counters of a thread and its tasks for rates, and logs what was done since the last time, every
    ``log.summary.interval.ms``; 0 is never."""

    def __init__(self, name: str, counters: ThreadCounters, config: StreamsConfig, clock: Clock) -> None:
        self._name = name
        self._counters = counters
        self._summed = (0, 0)
        """The records and the commits of the former summaries."""
        self._clock = clock
        self._summary_s = config.log_summary_interval_ms / 1000
        self._sample_s = max(SAMPLE_INTERVAL_S, config.metrics_sample_window_ms / 1000 * SAMPLE_PART)
        self._next_summary = clock.monotonic() + self._summary_s if self._summary_s > 0 else math.inf
        self._next_sample = self._next_lag = 0.0
        self._next_task = 0
        self._drops = DropReport(name)
        self._held = HeldReport(name, clock)

    def at(self, now: float, running: Collection[Task], end_of: Callable[[TopicPartition], int | None]) -> None:
        """Does what is due.

        :param now: of the monotonic clock, in seconds.
        :param end_of: returns the end of a partition, where it is known.
        """
        if now >= self._next_lag:
            self._next_lag = now + LAG_INTERVAL_S
            tasks = list(running)
            for task in tasks:
                task.inputs.measure_ends(end_of, self._clock.time_ms())
            for number in range(min(len(tasks), SAMPLED_TASKS)):
                tasks[(self._next_task + number) % len(tasks)].environment.metrics.nodes.request()
            self._next_task += SAMPLED_TASKS
        if now >= self._next_summary:
            self._next_summary = now + self._summary_s
            self._drops.collect_all(running)
            done = {**self._done(), "dropped": self._drops.since_summary()}
            log.info("summary", extra={"thread_name": self._name, **done})
            self._held.log(running)
        if now >= self._next_sample:
            self._next_sample = now + self._sample_s
            self._counters.windows.sample()
            self._counters.group.windows.sample()
            for task in running:
                task.sample()
            self._drops.collect_all(running)
            self._drops.log(now)
            self._held.look(now, running)

    def _done(self) -> dict[str, int]:
        """Returns the records processed and the commits since the last call."""
        counters, before = self._counters, self._summed
        self._summed = counters.processed, counters.commits
        return {"records": counters.processed - before[0], "commits": counters.commits - before[1]}

    def end(self, running: Collection[Task]) -> None:
        """Logs what was not logged yet of tasks that end."""
        self._drops.collect_all(running)
        self._drops.log(math.inf)
