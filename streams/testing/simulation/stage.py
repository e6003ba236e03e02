"""The state that the parts of one run of a simulation share: its time, broker, disks and the first violation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from processor_api.processor import FixedKeyProcessor, Processor
from processor_api.stores.suppliers import MEMORY, ROCKSDB
from streams.platform import Platform
from streams.testing.broker import EmbeddedBroker
from streams.testing.broker.groups import Group
from streams.testing.simulation.clients import ClientsOfSimulation
from streams.testing.simulation.disk import Disk, FileLocksOfSimulation
from streams.testing.simulation.network import Network
from streams.testing.simulation.scenario import Scenario
from streams.testing.simulation.schedule import Shape
from streams.testing.simulation.scheduler import Scheduler, SimulatedProcess
from streams.testing.simulation.threads import ThreadsOfSimulation


class SimulatedFailure(Exception):
    """Raised in the user's code when the schedule makes it fail."""

    simulated = True


class UserCode:
    """A wrapper of processors (``processor.wrapper.class``) that acts when the schedule says so."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.slow: dict[SimulatedProcess, float] = {}
        """Processes whose next record takes this many seconds."""
        self.failing: set[SimulatedProcess] = set()
        """Processes whose next record fails."""

    def __call__(self, name: str, supplier: Any) -> Any:
        return _Supplier(supplier, lambda: self._before(name))

    def _before(self, node: str) -> None:
        thread = self._scheduler.this()
        if thread is None:
            return
        self._scheduler.step("user code")
        if seconds := self.slow.pop(thread.process, 0.0):
            self._scheduler.sleep(seconds)
        if thread.process in self.failing:
            self.failing.discard(thread.process)
            raise SimulatedFailure(f"the schedule makes node {node} fail")


class _Supplier:
    def __init__(self, supplier: Any, before: Callable[[], None]) -> None:
        self._supplier = supplier
        self._before = before
        if hasattr(supplier, "stores"):
            self.stores = supplier.stores

    def __call__(self) -> Any:
        made = self._supplier()
        kind = _FixedKey if isinstance(made, FixedKeyProcessor) else _Free
        return kind(made, self._before)


class _Around:
    """Calls a processor of the user's, after the schedule had the chance to act."""

    def __init__(self, inner: Any, before: Callable[[], None]) -> None:
        self._inner = inner
        self._before = before

    def init(self, context: Any) -> None:
        self._inner.init(context)

    def process(self, record: Any) -> None:
        self._before()
        self._inner.process(record)

    def close(self) -> None:
        self._inner.close()


class _Free(_Around, Processor[Any, Any, Any, Any]):
    """Wraps processors that may change keys."""


class _FixedKey(_Around, FixedKeyProcessor[Any, Any, Any]):
    """Wraps processors that may not change keys."""


START_MS = 1_700_000_000_000
TASK_TIMEOUT_MS = 300_000
"""The default of the setting."""

SETTINGS: Mapping[str, Any] = {
    "application.id": "simulated",
    "bootstrap.servers": "simulated:9092",
    "commit.interval.ms": 500,
    "poll.ms": 1000,
    "consumer.session.timeout.ms": 10_000,
    "consumer.heartbeat.interval.ms": 3_000,
    "consumer.max.poll.interval.ms": 60_000,
    "consumer.auto.offset.reset": "earliest",
    "producer.transaction.timeout.ms": 20_000,
}


class Broken(AssertionError):
    """Raised when something has happened that must never happen."""


class SimulatedApplication:
    """The application that workers run: its topologies and settings."""

    def __init__(self, scenario: Scenario, shape: Shape, user_code: UserCode) -> None:
        self.scenario = scenario
        self.settings: dict[str, Any] = {**SETTINGS, **scenario.settings}
        if shape.wraps:
            self.settings.setdefault("processor.wrapper.class", user_code)
        self.id = str(self.settings["application.id"])
        self.deployed = False
        """Whether workers that start run the changed topology."""
        self.deleted_topics = 0
        """How many topics have been deleted. None is made again: workers that have used it end then."""
        self.has_remade = False
        """Whether a changelog was deleted and made again."""
        self.has_lost = False
        """Whether a changelog has lost its last records."""
        self.refused: BaseException | None = None
        """The error of a worker that lacks a store whose changelog was made again."""

    @property
    def exactly_once(self) -> bool:
        return str(self.settings.get("processing.guarantee", "at_least_once")).startswith("exactly_once")

    @property
    def task_timeout_s(self) -> float:
        """The time in seconds after which a worker gives up what goes wrong."""
        return float(self.settings.get("task.timeout.ms", TASK_TIMEOUT_MS)) / 1000

    def topology(self) -> Any:
        """Returns the topology that a worker that starts now runs."""
        changed = self.scenario.deployed if self.deployed else None
        return (changed or self.scenario.topology)()


class Findings:
    """The actions of a run in words, and the first thing that happened which must never happen."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.happened: list[str] = []
        """The actions of the schedule."""
        self.failure: BaseException | None = None

    def say(self, text: str) -> None:
        """Notes what happened."""
        self.happened.append(f"step {self._scheduler.steps.count}, {self._scheduler.now:.3f} s: {text}")

    def broken(self, text: str, cause: BaseException | None = None) -> None:
        """Notes that something happened that must never happen; the run ends soon."""
        if self.failure is None:
            self.failure = Broken(f"{text} (step {self._scheduler.steps.count}, {self._scheduler.now:.3f} s)")
            self.failure.__cause__ = cause

    def raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure


class SimulationStage:
    """The stage of one run.

    :param root: a directory for the state directories of workers.
    """

    def __init__(self, scenario: Scenario, seed: int, shape: Shape, root: Path) -> None:
        self.shape = shape
        self.root = root
        self.scheduler = Scheduler(seed, shape.switching, START_MS)
        self.findings = Findings(self.scheduler)
        self.user_code = UserCode(self.scheduler)
        self.application = SimulatedApplication(scenario, shape, self.user_code)
        clock, threads = self.scheduler.clock, ThreadsOfSimulation(self.scheduler)
        self.broker = EmbeddedBroker(clock, auto_create_topics=True, threads=threads, waiting=clock)
        self.group.standby_replicas = int(self.application.settings.get("num.standby.replicas", 0))
        self.network = Network(self.scheduler, self.findings.broken, lambda: self.group.offsets)
        self.clients = ClientsOfSimulation(self.broker, self.scheduler, self.network)
        self.disk = Disk(self.scheduler, self.findings.broken, self.findings.say)
        self.platform = Platform(
            clock=clock,
            threads=threads,
            file_locks=FileLocksOfSimulation(self.scheduler),
            has_room=self.disk.has_room,
            snapshots=self.disk.snapshots,
            engines={ROCKSDB: self.disk.open, MEMORY: self.disk.open_memory},
        )
        self._timers: list[tuple[float, Callable[[], None]]] = []

    @property
    def group(self) -> Group:
        """Returns the group of the application as the broker has it."""
        return self.broker.groups.group(self.application.id)

    def later(self, seconds: float, do: Callable[[], None]) -> None:
        """Calls a function at that time, on the director's thread."""
        self._timers.append((self.scheduler.now + seconds, do))

    def run_timers(self) -> None:
        """Calls the functions that are due."""
        for timer in [one for one in self._timers if one[0] <= self.scheduler.now]:
            self._timers.remove(timer)
            timer[1]()

    def forget_timers(self) -> None:
        self._timers.clear()
