"""One run of a simulation: workers, their broker and disks, the actions of the schedule, and the checks."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from processor_api.task_id import TaskId, TopicPartition
from state.windowed.segments import FACTS_KEY, SEGMENT
from streams.testing.simulation.acts import Acts
from streams.testing.simulation.disk import Contents, Opened
from streams.testing.simulation.scenario import InputRecord, Outcome, OutputRecord, Scenario
from streams.testing.simulation.schedule import Action, Shape
from streams.testing.simulation.scheduler import SimulatedThread
from streams.testing.simulation.stage import Broken, SimulationStage
from streams.testing.simulation.worker import Crew

PATIENCE_S = 1800.0
"""How long, in simulated time, everything may take after the schedule has ended."""
CHECK_S = 0.25
FEEDING_S = 30.0
ZOMBIES = ("freeze", "slow", "evict", "leap", "outage")
"""Actions after which a worker may continue that another one has replaced. Under at least once it still writes, or what
it had sent before an outage arrives after the changes of its successor."""
SESSIONS_S = 30.0
"""Time after which the tasks of a process that was killed have another owner."""
CALM_S = 5.0
WINDOWED = ("windows", "sessions")
TRANSACTIONS_S = 300.0
"""Time after which no transaction of a process that was killed is open."""
OF_SEGMENTS = re.compile(r"\.(time-ordered-)?(window|session)-")
"""Matches the names of families whose rows begin with segments."""


HARMLESS = ("made again", "lost tail", "pause", "clock", "clean", "truncate", "trim", "leap")
"""Actions after which a lone worker still has all of its stores."""


class _LacksStore(Exception):
    """Ends a run in which a worker was refused for lack of a store."""


class World:
    """Holds one run. It is used once: by :meth:`run`.

    :param root: an empty directory for the state directories of workers.
    """

    def __init__(self, scenario: Scenario, seed: int, shape: Shape, actions: Sequence[Action], root: Path) -> None:
        stage = self.stage = SimulationStage(scenario, seed, shape, root)
        self.scenario = scenario
        self.shape = shape
        self.scheduler = stage.scheduler
        self.broker = stage.broker
        self.crew = Crew(stage)
        self.fed = False
        self.outcome: Outcome | None = None
        self._actions = actions
        self._acts = Acts(stage, self.crew, actions)
        self._topics = {**dict.fromkeys(scenario.inputs, 1), **scenario.topics}

    def run(self) -> None:
        """Runs the schedule and checks the outcome.

        :raises Broken: if something happened that must not.
        :raises AssertionError: if a check fails.
        """
        self.scheduler.on_step = self._acts.on_step
        self.scheduler.on_crash = self._crashed
        self.scheduler.run(self._direct)

    def _crashed(self, thread: SimulatedThread, error: BaseException) -> None:
        if thread.process.alive:
            self.stage.findings.broken(f"thread {thread.name} ends with {type(error).__name__}: {error}", error)

    def _direct(self) -> None:
        """Directs the run, as its first thread: starts everything, lets the schedule act, heals, waits, and checks the
        output."""
        try:
            self._begin()
            self._until(self._is_fed, PATIENCE_S, "the input is written")
            self._heal()
            self._until(self._settled, PATIENCE_S, "all input is processed and committed")
            if self.stage.application.has_lost:
                self._restart()
            self._end()
        except _LacksStore as refused:
            self._check_refusal(refused)
        except AssertionError as error:
            self.stage.findings.failure = self.stage.findings.failure or error
        finally:
            for process in {thread.process for thread in self.scheduler.roster.threads} - {self.scheduler.world}:
                self.scheduler.kill(process)
            self.scheduler.kill(self.scheduler.world)
            self.scheduler.failure = self.stage.findings.failure or self.scheduler.failure

    def _check_refusal(self, refused: _LacksStore) -> None:
        """Checks that a worker which lacks a store had a reason to: a task that has moved, state that was lost or is in
        memory, or a changelog that was made again after the last commit."""
        in_memory = "the store is in memory" in str(refused.__cause__) or not self._is_on_disk()
        is_elsewhere = len(self.crew.workers) > 1 or in_memory
        if not is_elsewhere and all(action.kind in HARMLESS for action in self._actions):
            self.stage.findings.broken(f"a worker that has its store does not write it: {refused.__cause__}")

    def _is_fed(self) -> bool:
        return self.fed and self.scheduler.steps.count >= self.shape.steps

    def _begin(self) -> None:
        if self.scenario.service is not None:
            self.scenario.service.begin(lambda: self.scheduler.now)
        for topic in sorted(self._topics.keys() - self.scenario.late):
            self._create(topic)
        feeding = self.scenario.feeding
        if feeding == "before":
            self._feed()
        for _ in range(self.shape.workers):
            self.crew.add()
        if feeding != "before":
            SimulatedThread(self.scheduler, self.scheduler.world, self._feed, "input").start()

    def _create(self, topic: str) -> None:
        self.broker.create_topic(topic, self._topics[topic], self.scenario.topic_configs.get(topic))

    def _feed(self) -> None:
        """Writes the input, bit by bit, topic by topic in an order that the seed chooses."""
        producer = self.stage.clients.producer({"linger.ms": 0})
        left = {topic: list(records) for topic, records in self.scenario.inputs.items()}
        total = max(1, sum(map(len, left.values())))
        pause_s = FEEDING_S / total if self.scenario.feeding == "bit by bit" else 0.0
        if self.scenario.feeding == "at once":
            self.scheduler.sleep(self.scheduler.draw() % 60 / 1000)
        while left := {topic: records for topic, records in left.items() if records}:
            names = sorted(left)
            topic = names[self.scheduler.draw() % len(names)]
            self._create(topic)
            for _ in range(1 + self.scheduler.draw() % 12):
                if left[topic]:
                    self._write(producer.inner, topic, left[topic].pop(0))
            if pause_s:
                self.scheduler.sleep(pause_s * (self.scheduler.draw() % 13))
        self.fed = True

    def _write(self, producer: Any, topic: str, record: InputRecord) -> None:
        key, value, timestamp, partition, headers = record
        producer.produce(topic, value, key, partition, None, None, timestamp, headers)
        producer.flush()

    def _until(self, reached: Callable[[], bool], patience_s: float, what: str) -> None:
        end = self.scheduler.now - self.scheduler.clock.leapt + patience_s
        while not reached():
            self.stage.findings.raise_failure()
            if (refused := self.stage.application.refused) is not None:
                raise _LacksStore from refused
            if self.scheduler.now - self.scheduler.clock.leapt > end:
                raise Broken(f"after {patience_s:g} s it is not true that {what}: {self._describe()}")
            self.stage.run_timers()
            self.scheduler.sleep(CHECK_S)
        self.stage.findings.raise_failure()

    def _describe(self) -> str:
        lacking = ", ".join(f"{name} from {offset} to {end}" for name, offset, end in self._left())
        return f"{'; '.join(worker.dump() for worker in self.crew)}; not committed: {lacking or 'nothing'}"

    def _heal(self) -> None:
        """Ends all faults for the rest of the run."""
        self._acts.stop()
        self.stage.findings.say("everything heals")
        self.stage.forget_timers()
        for worker in self.crew:
            self.scheduler.thaw(worker.process)
            if worker.app is not None:
                worker.app.resume()
            if not worker.process.alive:
                worker.start()

    def _restart(self) -> None:
        """Starts all workers again: one that has committed nothing since has not noticed what its changelog lost.

        Then one worker is left: as long as there are others, a task may move to one whose store is still complete, and
        be written back.
        """
        for worker in self.crew:
            worker.stop()
        self.scheduler.sleep(SESSIONS_S)
        self._until(self._settled, PATIENCE_S, "all workers run again")
        others = list(self.crew)[1:]
        for worker in others:
            worker.wanted = False
            worker.stop()
        self._until(lambda: not any(one.process.alive for one in others), PATIENCE_S, "one worker is left")
        self.scheduler.sleep(SESSIONS_S)
        self._until(self._settled, PATIENCE_S, "the worker that is left has all tasks")

    # ------------------------------------------------------------------ when all is done

    def _left(self) -> list[tuple[TopicPartition, int, int]]:
        """Returns the partitions that are read as input and have records that no commit covers."""
        found = []
        for topic in self._inputs():
            for number, log in enumerate(self.broker.topics[topic].partitions):
                partition = TopicPartition(topic, number)
                committed = self.stage.group.offsets.get(partition)
                offset = max(log.start_offset, committed.offset if committed is not None else 0)
                if log.read(offset, 1, True)[0]:
                    found.append((partition, offset, log.last_stable_offset))
        return found

    def _inputs(self) -> list[str]:
        prefix = self.stage.application.id
        ends = ("-repartition", "-topic")  # the second are those of foreign-key joins
        own = (name for name in self.broker.topics if name.startswith(prefix) and name.endswith(ends))
        return sorted(
            {*(name for name in self.scenario.inputs.keys() - self.scenario.unread if name in self.broker.topics), *own}
        )

    def _settled(self) -> bool:
        alive = [worker for worker in self.crew if worker.wanted]
        return all(worker.running for worker in alive) and not self._left()

    def _end(self) -> None:
        of_streams = self.stage.group.streams
        self.scheduler.sleep(SESSIONS_S if of_streams is None else SESSIONS_S + of_streams.session_s)
        self._until(self._settled, PATIENCE_S, "all input is processed and committed")
        self._until(lambda: self.stage.disk.opens_once(self._copies()), PATIENCE_S, "each task is open once")
        self._until(self._is_balanced, PATIENCE_S, "tasks are spread evenly over threads")
        slow_s = max((action.seconds for action in self._actions if action.kind == "slow"), default=0.0)
        if slow_s and self._copies():  # a thread in the user's code applies nothing to its copies
            self.scheduler.sleep(slow_s)
            self._until(self._settled, PATIENCE_S, "all input is committed when the user's code has come back")
        self.scheduler.sleep(CALM_S)  # committed rows are written to disk a little later
        self._check_assignments()
        copies = self._copies()
        live, tasks = self.stage.disk.contents(copies), self.stage.disk.open_tasks(copies)
        if copies and self.scenario.restores and not self._is_overtaken():
            self._check_copies(live, self.stage.disk.contents(copies, of_copies=True))
        for worker in self.crew:
            worker.wanted = False
            worker.stop()
        self._until(lambda: not any(worker.process.alive for worker in self.crew), PATIENCE_S, "all workers ended")
        self._check()
        if self.scenario.restores and not self._is_overtaken():
            self._restore(live, tasks)
        assert self.outcome is not None
        if not self.stage.application.has_lost or self._keeps_stores():
            for check in self.scenario.checks:
                check(self.outcome)

    def _is_on_disk(self) -> bool:
        return self.stage.application.settings.get("default.dsl.store") != "in_memory"

    def _keeps_stores(self) -> bool:
        """Whether a lone worker has all of its stores."""
        return (
            self._is_on_disk() and self.shape.workers == 1 and all(action.kind in HARMLESS for action in self._actions)
        )

    def _is_overtaken(self) -> bool:
        return not self.stage.application.exactly_once and any(action.kind in ZOMBIES for action in self._actions)

    def _is_balanced(self) -> bool:
        """Whether no thread has two tasks more than another one, as a group that is at rest assigns them."""
        counts = [
            len(thread.active_tasks)
            for worker in self.crew
            if worker.app is not None and worker.process.alive
            for thread in worker.app.metadata_for_local_threads()
        ]
        return max(counts, default=0) - min(counts, default=0) <= 1 or self.stage.group.streams is not None

    def _copies(self) -> set[Opened]:
        """Returns the standby tasks of all workers."""
        return {
            (str(copy.task_id), worker.process)
            for worker in self.crew
            if worker.app is not None and worker.process.alive
            for thread in worker.app.metadata_for_local_threads()
            for copy in thread.standby_tasks
        }

    @staticmethod
    def _check_copies(live: Contents, copied: Contents) -> None:
        """Checks that standby tasks have the rows of their tasks. They may have more of windows, which expire there by
        the time that is committed."""
        for place, rows in sorted(copied.items()):
            one = live.get(place)
            if one is None:
                continue
            lacking = {key: row for key, row in one.items() if rows.get(key) != row}
            more = {} if place[1].endswith(WINDOWED) else {key: row for key, row in rows.items() if key not in one}
            if lacking or more:
                raise Broken(f"the copy of {' '.join(place)} is not its task: {_difference(one, rows)}")

    def _check_assignments(self) -> None:
        """Checks that consumers read what their threads own, and no partition that is gone."""
        owned = {
            partition
            for worker in self.crew
            if worker.app is not None and worker.process.alive
            for thread in worker.app.metadata_for_local_threads()
            for task in thread.active_tasks
            for partition in task.topic_partitions
        } | {
            one
            for consumer in self.stage.clients.consumers
            for one in consumer.inner.assignment()
            if one.topic.endswith("-changelog")
            for copy, process in self._copies()
            if process is consumer.process and TaskId.parse(copy).partition == one.partition
        }
        for consumer in self.stage.clients.consumers:
            more = {one for one in consumer.inner.assignment() - owned if not one.topic.endswith("-tasks")}
            if more:
                raise Broken(f"{consumer.process} reads {', '.join(map(str, sorted(more)))}, which no task of it has")

    def _check(self) -> None:
        self.scheduler.sleep(TRANSACTIONS_S)
        with self.broker.lock:
            self.broker.expire()
        topics = {
            name: [
                OutputRecord(
                    record.key(),
                    record.value(),
                    record.timestamp()[1],
                    record.partition(),
                    record.offset(),
                    record.headers(),
                )
                for record in self.broker.records(name)
            ]
            for name in self.broker.topics
        }
        self.outcome = Outcome(self.stage.application.exactly_once, self.scenario.inputs, topics, self._is_overtaken())

    def _restore(self, live: Mapping[tuple[str, str], Mapping[bytes, bytes]], tasks: Collection[str]) -> None:
        """Checks that a worker on an empty state directory finds in the changelogs what the others had.

        :param tasks: those that were open; where all threads of all workers were removed, none was.
        """
        worker = self.crew.add()
        self._until(lambda: worker.running, PATIENCE_S, "a worker restores all state")
        self.scheduler.sleep(SESSIONS_S)  # its threads may still exchange tasks
        self._until(lambda: worker.running, PATIENCE_S, "a worker runs what it restored")
        restored = self.stage.disk.contents()
        for place in sorted(place for place in live.keys() | restored.keys() if place[0] in tasks):
            one, other = live.get(place, {}), restored.get(place, {})
            if one != other and OF_SEGMENTS.search(place[1]):
                one = _without_expired(one, other)
            if one != other:
                raise Broken(
                    f"the rows of {' '.join(place)} are not what their changelog restores: {_difference(one, other)}"
                )
        worker.wanted = False
        worker.stop()
        self._until(lambda: not worker.process.alive, PATIENCE_S, "the worker that restored has ended")


def _without_expired(live: Mapping[bytes, bytes], restored: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """Returns the rows of a store of windows without those of segments that have expired: a commit deletes what had
    expired by the one before, and a restore leaves out what has expired by now."""
    least = min((key[: SEGMENT.size] for key in restored if key != FACTS_KEY), default=FACTS_KEY)
    return {key: row for key, row in live.items() if key in restored or key[: SEGMENT.size] >= least}


def _difference(live: Mapping[bytes, bytes], restored: Mapping[bytes, bytes]) -> str:
    keys = [key for key in sorted(live.keys() | restored.keys()) if live.get(key) != restored.get(key)]
    shown = "; ".join(f"{key!r}: {live.get(key)!r} was there, {restored.get(key)!r} is restored" for key in keys[:3])
    return f"{len(keys)} rows differ, such as {shown}"
