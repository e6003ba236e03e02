"""A worker of a simulation: a process that runs the application, and is started again when it ends."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from processor_api.errors import RetryableError, StreamsError
from state.directory.metadata import FORMAT_VERSION, METADATA_FILE
from streams.app.kafka_streams import KafkaStreams
from streams.app.states import ClientState
from streams.app.uncaught import StreamThreadExceptionResponse
from streams.kafka.ports import KafkaClients
from streams.kafka.suspects import ProcessMembers
from streams.testing.simulation.scheduler import SimulatedProcess, SimulatedThread
from streams.testing.simulation.stage import SimulationStage

RESTART_S = 2.0
LACKS_STORE = ("was deleted and made again since the last commit", "the topic was deleted, or a handover was not")
"""Parts of the errors about a store that neither the worker nor the changelog has."""


class Worker:
    """One of the workers; each start is another process.

    :param number: its number, from 0.
    :param directory: its state directory, below which each application has its own.
    """

    def __init__(self, stage: SimulationStage, number: int, directory: Path) -> None:
        self.number = number
        self.directory = directory
        self.process = SimulatedProcess(f"worker-{number}")
        self.process.alive = False
        self.app: KafkaStreams | None = None
        self.wanted = True
        """Whether it is to run."""
        self.members: ProcessMembers | None = None
        """The names by which the broker knows its last process that had any."""
        self.excused = False
        """Whether it may end with an error: the schedule let its disk be full for longer than it waits."""
        self._stage = stage
        self._starts = 0

    @property
    def running(self) -> bool:
        return self.app is not None and self.process.alive and self.app.state is ClientState.RUNNING

    def start(self) -> None:
        """Starts a process, unless it runs, or is no longer wanted."""
        if self.process.alive or not self.wanted:
            return
        self._starts += 1
        self.process = SimulatedProcess(
            f"worker-{self.number}.{self._starts}" if self._starts > 1 else f"worker-{self.number}"
        )
        self.excused = False
        self.app = None
        self.spawn(self._main, "main")

    def spawn(self, run: Callable[[], None], name: str) -> None:
        """Runs something on a thread of its own in this process."""
        SimulatedThread(self._stage.scheduler, self.process, run, f"{self.process.name} {name}").start()

    def stop(self) -> None:
        """Asks the process to close in order."""
        app = self.app
        if self.process.alive and app is not None:
            self.spawn(lambda: _close(app), "close")

    def _main(self) -> None:
        stage, application = self._stage, self._stage.application
        _prepare_directory(self.directory / application.id, application.id)
        settings = {**application.settings, "state.dir": str(self.directory), "num.stream.threads": stage.shape.threads}
        platform = replace(stage.platform, on_thread=self._made)
        app = KafkaStreams(application.topology(), settings, cast(KafkaClients, stage.clients), platform=platform)
        replaces = stage.shape.replaces_threads

        def failed(error: Exception) -> StreamThreadExceptionResponse:
            self.failed(error)
            answers = StreamThreadExceptionResponse
            return answers.REPLACE_THREAD if replaces else answers.SHUTDOWN_CLIENT

        app.set_uncaught_exception_handler(failed)
        self.app = app
        try:
            app.start()
            app.wait()
        except StreamsError as error:
            if not isinstance(error, RetryableError):  # an outage: a supervisor would start it again
                self.failed(error)
        self._ended()

    def _made(self, process: str, number: int) -> None:
        """Takes that a stream thread is made."""
        known = self.members.threads if self.members is not None and self.members.process == process else 0
        assert self.app is not None
        self.members = ProcessMembers.of(self.app.config, process, max(known, number))

    def failed(self, error: BaseException) -> None:
        """Handles an error that ends a thread, or the start."""
        application = self._stage.application
        lacks_store = isinstance(error, StreamsError) and any(part in error.message for part in LACKS_STORE)
        if (application.has_remade or application.has_lost) and lacks_store:
            application.refused = application.refused or error
        elif self.process.alive and not self.excused and not _is_simulated(error):
            self._stage.findings.broken(f"{self.process} dies of {type(error).__name__}: {error}", error)

    def _ended(self) -> None:
        """Ends the process of an application that has ended by itself or in order."""
        if self.wanted:
            self._stage.later(RESTART_S, self.start)
        self.die()

    def die(self) -> None:
        """Ends the process immediately. Records that it has sent may arrive; it has no other effect."""
        stage = self._stage
        stage.clients.before_freeze(self.process)
        stage.clients.killed(self.process)
        stage.scheduler.kill(self.process)

    def dump(self) -> str:
        app = self.app
        state = "gone" if app is None or not self.process.alive else app.state.value
        return f"{self.process}: {state}" + (
            ", frozen" if self.process.frozen_until > self._stage.scheduler.now else ""
        )


class Crew:
    """Holds all workers of a run."""

    def __init__(self, stage: SimulationStage) -> None:
        self._stage = stage
        self.workers: list[Worker] = []

    def __iter__(self) -> Iterator[Worker]:
        return iter(self.workers)

    def add(self) -> Worker:
        """Starts one more worker, on an empty state directory."""
        number = len(self.workers)
        worker = Worker(self._stage, number, self.new_directory(number))
        self.workers.append(worker)
        worker.start()
        return worker

    def new_directory(self, number: int) -> Path:
        """Returns a state directory that was never used."""
        root = self._stage.root
        name = next(name for n in range(1000) if not (root / (name := f"state-{number}-{n}")).exists())
        (root / name).mkdir()
        return root / name


def _close(app: KafkaStreams) -> None:
    app.close()


def _is_simulated(error: BaseException | None) -> bool:
    """Whether an error is, or was caused by, one that the schedule made the user's code raise."""
    while error is not None:
        if getattr(error, "simulated", False):
            return True
        error = error.__cause__ or error.__context__
    return False


def _prepare_directory(path: Path, application_id: str) -> None:
    """Gives a state directory an id that does not change from run to run."""
    metadata = path / METADATA_FILE
    if not metadata.exists():
        path.mkdir(parents=True, exist_ok=True)
        known: Mapping[str, Any] = {
            "format_version": FORMAT_VERSION,
            "application_id": application_id,
            "process_uuid": str(uuid.uuid5(uuid.NAMESPACE_OID, path.parent.name)),
        }
        metadata.write_text(json.dumps(known), encoding="utf-8")
