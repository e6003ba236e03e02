"""Makes the user's code slow, or makes it fail, in a simulation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from processor_api.processor import FixedKeyProcessor, Processor
from streams.testing.simulation.scheduler import Process, Scheduler


class SimulatedFailure(Exception):
    """Raised in the user's code when the schedule makes it fail."""

    simulated = True


class UserCode:
    """A wrapper of processors (``processor.wrapper.class``) that acts when the schedule says so."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.slow: dict[Process, float] = {}
        """Processes whose next record takes so many seconds."""
        self.failing: set[Process] = set()
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
