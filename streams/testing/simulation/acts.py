"""Carries out the actions of a schedule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

from processor_api.task_id import TopicPartition
from streams.kafka.suspects import take_over
from streams.testing.simulation.network import Fault
from streams.testing.simulation.schedule import Action
from streams.testing.simulation.scheduler import SimulatedThread
from streams.testing.simulation.stage import SimulationStage
from streams.testing.simulation.worker import Crew, Worker

MOST_WORKERS = 5


class Acts:
    """The actions of one run, each done once."""

    def __init__(self, stage: SimulationStage, crew: Crew, actions: Sequence[Action]) -> None:
        self._stage = stage
        self._crew = crew
        self._due = sorted(actions, key=lambda action: action.at)
        self._armed: list[Action] = []
        """Actions that wait for a call."""
        self._calls: set[str] = set()

    def stop(self) -> None:
        """Ends the actions: nothing happens from now on."""
        stage = self._stage
        self._due.clear()
        self._armed.clear()
        self._calls.clear()
        stage.network.heal()
        stage.disk.full_until.clear()
        stage.user_code.slow.clear()
        stage.user_code.failing.clear()
        if stage.application.scenario.service is not None:
            stage.application.scenario.service.come_back()

    def on_step(self, thread: SimulatedThread, call: str) -> None:
        """Does the actions that are due before a step."""
        if call in self._calls:
            self._meet(thread, call)
        if self._due and self._stage.scheduler.steps.count >= self._due[0].at:
            action = self._due.pop(0)
            if action.call and action.kind != "fault":
                self._armed.append(action)
                self._calls.add(action.call)
            else:
                self._do(action)

    def _meet(self, thread: SimulatedThread, call: str) -> None:
        for action in self._armed:
            if action.call == call and self._worker(action).process is thread.process:
                self._armed.remove(action)
                self._calls = {one.call for one in self._armed}
                self._do(action)
                return

    def _worker(self, action: Action) -> Worker:
        workers = self._crew.workers
        return workers[action.worker % len(workers)]

    def _do(self, action: Action) -> None:
        stage, worker = self._stage, self._worker(action)
        thread = stage.scheduler.this()
        at = f" at {action.call!r} of {thread.name}" if action.call and thread is not None else ""
        seconds = f" for {action.seconds:g} s" if action.seconds else ""
        detail = f" ({action.call} {action.detail})" if action.kind == "fault" else ""
        detail = f" ({action.detail})" if action.kind == "event" else detail
        stage.findings.say(f"{action.kind}{detail} {worker.process}{at}{seconds}")
        _ACTS[action.kind](stage, self._crew, worker, action)


def _kill(stage: SimulationStage, crew: Crew, worker: Worker, action: Action) -> None:
    if worker.process.alive:
        stage.later(action.seconds, worker.start)
        worker.die()


def _kill_empty(stage: SimulationStage, crew: Crew, worker: Worker, action: Action) -> None:
    if worker.process.alive:
        worker.directory = crew.new_directory(worker.number)
        _kill(stage, crew, worker, action)


def _kill_swap(stage: SimulationStage, crew: Crew, worker: Worker, action: Action) -> None:
    other = crew.workers[(worker.number + 1) % len(crew.workers)]
    if other is worker or not (other.process.alive and worker.process.alive):
        return _kill(stage, crew, worker, action)
    worker.directory, other.directory = other.directory, worker.directory
    stage.later(action.seconds, worker.start)
    stage.later(action.seconds, other.start)
    thread = stage.scheduler.this()
    mine = thread is not None and thread.process is worker.process  # the caller goes last
    for one in (other, worker) if mine else (worker, other):
        one.die()


def _power(stage: SimulationStage, crew: Crew, worker: Worker, action: Action) -> None:
    if worker.process.alive:
        _kill(stage, crew, worker, action)
        stage.findings.say(f"{stage.disk.lose_power(worker.directory)} writes of {worker.process} are lost")


def _damage(stage: SimulationStage, crew: Crew, worker: Worker, action: Action) -> None:
    if worker.process.alive:
        _kill(stage, crew, worker, action)
        stage.disk.damage(worker.directory)


def _freeze(stage: SimulationStage, crew: Crew, worker: Worker, action: Action) -> None:
    stage.clients.before_freeze(worker.process)
    stage.scheduler.freeze(worker.process, action.seconds)


def _stop(stage: SimulationStage, crew: Crew, worker: Worker, action: Action) -> None:
    worker.stop()


def _join(stage: SimulationStage, crew: Crew, worker: Worker, action: Action) -> None:
    if len(crew.workers) < MOST_WORKERS:
        stage.later(0.0, lambda: _add(crew))


def _add(crew: Crew) -> None:
    if len(crew.workers) < MOST_WORKERS:
        crew.add()


def _fault(stage: SimulationStage, crew: Crew, worker: Worker, action: Action) -> None:
    stage.network.faults.append(Fault(action.detail, action.call, worker.process, action.seconds))


def _outage(stage: SimulationStage, crew: Crew, worker: Worker, action: Action) -> None:
    stage.network.go_down(action.seconds)


def _event(stage: SimulationStage, crew: Crew, worker: Worker, action: Action) -> None:
    stage.network.send_event(action.detail)


def _fence(stage: SimulationStage, crew: Crew, worker: Worker, action: Action) -> None:
    _for_transactional_ids(stage, worker, lambda name: stage.broker.transactions.initialize(name, 20.0))


def _suspect(stage: SimulationStage, crew: Crew, worker: Worker, action: Action) -> None:
    """Another worker does what a supervisor does for a dead one. It may fail or be killed on the way."""
    members = worker.members
    watcher = next((one for one in crew if one is not worker and one.process.alive), None)
    if members is None or watcher is None:
        return

    def suspect() -> None:
        with closing(stage.clients.admin({})) as admin:
            ended, removed = take_over(admin, members, "the schedule says so", stage.scheduler.clock)
        stage.findings.say(f"{worker.process} is taken over: {len(ended)} producers, {len(removed)} members")

    watcher.spawn(suspect, "take-over")


def _expire(stage: SimulationStage, crew: Crew, worker: Worker, action: Action) -> None:
    _for_transactional_ids(stage, worker, stage.broker.transactions.time_out)


def _for_transactional_ids(stage: SimulationStage, worker: Worker, do: Callable[[str], object]) -> None:
    """Does something in the broker with each transactional id of a worker."""
    for producer in stage.clients.producers:
        name = producer.inner.transactional_id
        if producer.process is worker.process and name is not None:
            with stage.broker.lock:
                do(name)
                stage.broker.changes.notify()


def _evict(stage: SimulationStage, crew: Crew, worker: Worker, action: Action) -> None:
    for consumer in [one for one in stage.clients.consumers if one.process is worker.process]:
        consumer.inner.evict()
    for member in [one for one in stage.clients.members if one.process is worker.process]:
        member.inner.evict()


def _clock(stage: SimulationStage, crew: Crew, worker: Worker, action: Action) -> None:
    stage.scheduler.clock.skew_ms += int(action.seconds * 1000)


def _leap(stage: SimulationStage, crew: Crew, worker: Worker, action: Action) -> None:
    """Lets hours of polls and heartbeats pass at once, in which nothing times out."""
    stage.clients.leap(action.seconds)


def _slow(stage: SimulationStage, crew: Crew, worker: Worker, action: Action) -> None:
    stage.user_code.slow[worker.process] = action.seconds


def _raise(stage: SimulationStage, crew: Crew, worker: Worker, action: Action) -> None:
    stage.user_code.failing.add(worker.process)


def _add_thread(stage: SimulationStage, crew: Crew, worker: Worker, action: Action) -> None:
    app = worker.app
    if worker.process.alive and app is not None:
        worker.spawn(lambda: _ignore(app.add_stream_thread()), "add thread")


def _remove_thread(stage: SimulationStage, crew: Crew, worker: Worker, action: Action) -> None:
    app = worker.app
    if worker.process.alive and app is not None and len(app.tasks()) > 1:
        worker.spawn(lambda: _ignore(app.remove_stream_thread()), "remove thread")


def _pause(stage: SimulationStage, crew: Crew, worker: Worker, action: Action) -> None:
    app = worker.app
    if app is not None:
        app.pause()
        stage.later(action.seconds, app.resume)


def _full_disk(stage: SimulationStage, crew: Crew, worker: Worker, action: Action) -> None:
    until = stage.disk.full_until
    until[worker.directory] = max(until.get(worker.directory, 0.0), stage.scheduler.now + action.seconds)
    worker.excused = worker.excused or action.seconds >= stage.application.task_timeout_s


def _clean(stage: SimulationStage, crew: Crew, worker: Worker, action: Action) -> None:
    for name in sorted(stage.broker.topics):
        if name.startswith(stage.application.id):
            stage.broker.roll(name)
            stage.broker.clean(name)


def _trim(stage: SimulationStage, crew: Crew, worker: Worker, action: Action) -> None:
    for partition, committed in sorted(stage.group.offsets.items()):
        topic = stage.broker.topics.get(partition.topic)
        if topic is not None and topic.cleanup.deletes and partition.topic in stage.application.scenario.inputs:
            with stage.broker.lock:
                log = stage.broker.log(TopicPartition(*partition))
                log.delete_before(min(committed.offset, log.end_offset))


def _cut(stage: SimulationStage, crew: Crew, worker: Worker, action: Action) -> None:
    for name in sorted(stage.application.scenario.cut):
        with stage.broker.lock:
            for log in stage.broker.topics[name].partitions:
                log.delete_before(log.start_offset + stage.scheduler.draw() % (log.end_offset - log.start_offset + 1))


def _overtake(stage: SimulationStage, crew: Crew, worker: Worker, action: Action) -> None:
    app = worker.app
    if app is not None and stage.application.scenario.cut:
        app.pause()
        stage.later(action.seconds / 2, lambda: _cut(stage, crew, worker, action))
        stage.later(action.seconds, app.resume)


def _truncate(stage: SimulationStage, crew: Crew, worker: Worker, action: Action) -> None:
    """Deletes the records before the last one of any key, as a compaction and a retention may do together. Those of a
    history, which must not be compacted for a time, stay."""
    for name, topic in sorted(stage.broker.topics.items()):
        if (
            name.startswith(stage.application.id)
            and name.endswith("-changelog")
            and not topic.cleanup.min_compaction_lag_ms
        ):
            with stage.broker.lock:
                for log in topic.partitions:
                    records, _ = log.read(log.start_offset, log.end_offset, True)
                    last = {record.key(): record.offset() for record in records}
                    log.delete_before(min(last.values(), default=log.start_offset))


def _partitions(stage: SimulationStage, crew: Crew, worker: Worker, action: Action) -> None:
    for name in sorted(stage.application.scenario.growing):
        stage.broker.add_partitions(name, len(stage.broker.topics[name].partitions) + 1)


def _topic(stage: SimulationStage, crew: Crew, worker: Worker, action: Action) -> None:
    for first, partitions in sorted(stage.application.scenario.passing.items()):
        name = f"{first}{stage.application.deleted_topics or ''}"
        if name in stage.broker.topics:
            stage.broker.delete_topic(name)
            stage.network.forget(name)
            stage.application.deleted_topics += 1
        else:
            stage.broker.create_topic(name, partitions)


def _made_again(stage: SimulationStage, crew: Crew, worker: Worker, action: Action) -> None:
    for name, topic in sorted(stage.broker.topics.items()):
        if any(name.endswith(f"-{store}-changelog") for store in stage.application.scenario.remade):
            partitions, configs = len(topic.partitions), topic.configs
            with stage.broker.lock:
                stage.broker.delete_topic(name)
                stage.broker.create_topic(name, partitions, configs)
            stage.network.forget(name)
            stage.application.has_remade = True


def _lost_tail(stage: SimulationStage, crew: Crew, worker: Worker, action: Action) -> None:
    """Elects leaders that lack the last records; owners of the tasks write others at the same offsets."""
    for name, topic in sorted(stage.broker.topics.items()):
        if any(name.endswith(f"-{store}-changelog") for store in stage.application.scenario.losing):
            for log in topic.partitions:
                kept = stage.scheduler.draw() % (log.end_offset - log.start_offset + 1)
                stage.broker.lose_records(TopicPartition(name, log.partition), log.start_offset + kept)
            stage.application.has_lost = True


def _registry_away(stage: SimulationStage, crew: Crew, worker: Worker, action: Action) -> None:
    if stage.application.scenario.service is not None:
        stage.application.scenario.service.go_away(action.seconds)


def _deploy(stage: SimulationStage, crew: Crew, worker: Worker, action: Action) -> None:
    if stage.application.scenario.deployed is not None and not stage.application.deployed:
        stage.application.deployed = True
        rolls = stage.application.scenario.rolls and action.worker % 2 == 1
        for one in (worker,) if rolls else crew:  # another worker follows when it starts again for whatever reason
            one.stop()


def _ignore(_: object) -> None:
    """Ignores the result of a call."""


_ACTS: dict[str, Callable[[SimulationStage, Crew, Worker, Action], None]] = {
    "kill": _kill, "kill, empty": _kill_empty, "kill, swap": _kill_swap, "power": _power, "damage": _damage,
    "freeze": _freeze, "stop": _stop, "join": _join, "fault": _fault, "outage": _outage, "event": _event,
    "fence": _fence, "suspect": _suspect, "expire": _expire, "evict": _evict, "clock": _clock, "leap": _leap,
    "slow": _slow, "raise": _raise, "add thread": _add_thread, "remove thread": _remove_thread, "pause": _pause,
    "full disk": _full_disk, "clean": _clean, "trim": _trim, "cut": _cut, "overtake": _overtake, "truncate": _truncate,
    "partitions": _partitions, "made again": _made_again, "topic": _topic, "registry away": _registry_away,
    "lost tail": _lost_tail, "deploy": _deploy,
}  # fmt: skip
