"""What a processor may ask of the task it runs in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

from processor_api.clock import Clock
from processor_api.durations import Duration
from processor_api.metrics import StreamsMetrics
from processor_api.punctuation import Cancellable, PunctuationType, Punctuator
from processor_api.record import FixedKeyRecord, Forward, HeaderList, Record, RecordMetadata
from processor_api.serde import Serde
from processor_api.task_id import TaskId

__all__ = ["FixedKeyProcessorContext", "OperatorContext", "ProcessingContext", "ProcessorContext"]

K = TypeVar("K")
V = TypeVar("V")


class ProcessingContext(Protocol):
    """The part that does not depend on record types. Use it only on the thread that runs the task."""

    @property
    def application_id(self) -> str: ...

    @property
    def task_id(self) -> TaskId: ...

    @property
    def record_metadata(self) -> RecordMetadata | None:
        """Where the record in work came from; in a punctuation its topic is ``None``; ``None`` inside of ``init``."""
        ...

    @property
    def key_serde(self) -> Serde[Any] | None:
        """The application's default key serde."""
        ...

    @property
    def value_serde(self) -> Serde[Any] | None:
        """The application's default value serde."""
        ...

    @property
    def state_dir(self) -> Path:
        """The task's own directory."""
        ...

    def get_state_store(self, name: str) -> Any:
        """A store connected to this processor.

        :raises TopologyError: if the store is not connected to it.
        """
        ...

    def schedule(
        self, interval: Duration, kind: PunctuationType, callback: Punctuator, *, start_time: int | None = None
    ) -> Cancellable:
        """Calls ``callback`` every ``interval``; anchored at ``start_time`` (ms) if given (conformance 90, 91).

        :raises ValueError: if the interval is below 1 ms.
        """
        ...

    def commit(self) -> None:
        """Asks for a commit soon after the record in work; it does not commit by itself (conformance 81)."""
        ...

    def app_configs(self) -> Mapping[str, Any]:
        """The application's configuration under Kafka's dotted names, secrets masked."""
        ...

    def metrics(self) -> StreamsMetrics:
        """Where metrics of the user's own are made; ask in ``init`` and keep the sensor."""
        ...

    def current_system_time_ms(self) -> int: ...

    def current_stream_time_ms(self) -> int:
        """The task's stream time in ms; -1 before the first record (conformance 1)."""
        ...


class ProcessorContext(ProcessingContext, Protocol[K, V]):
    """The context of a processor."""

    def forward(self, record: Record[K, V], child: str | None = None) -> None:
        """Hands the record to all children, or to the named one, and returns when they have processed it.

        :raises TopologyError: if there is no such child.
        """
        ...


class FixedKeyProcessorContext(ProcessingContext, Protocol[K, V]):
    """The context of a processor with a fixed key."""

    def forward(self, record: FixedKeyRecord[K, V], child: str | None = None) -> None:
        """As :meth:`ProcessorContext.forward`."""
        ...


class OperatorContext(Protocol):
    """What an operator of the DSL gets when it is bound to a task."""

    node: str
    forward: Forward
    """To all children, in the order in which they were added."""
    clock: Clock

    def child(self, name: str) -> Forward:
        """To one child."""
        ...

    def children(self) -> Mapping[str, Forward]:
        """All children by name, in order."""
        ...

    def store(self, name: str) -> Any:
        """The task's own form of a connected store: decoded keys, values and timestamps without wrapper objects."""
        ...

    def fail(self, error: Exception, key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
        """Takes an error of user code to the processing handler: returns to drop the record, else raises."""
        ...

    def drop(self, why: str, key: Any = None) -> None:
        """Counts a dropped record (``dropped-records``)."""
        ...

    def stream_time_ms(self) -> int: ...

    def schedule(
        self, interval: Duration, kind: PunctuationType, callback: Punctuator, *, start_time: int | None = None
    ) -> Cancellable: ...

    def processing_context(self) -> ProcessorContext[Any, Any]:
        """The user's face of this context, for operators that run a user's processor."""
        ...

    def on_close(self, callback: Callable[[], None]) -> None:
        """Runs ``callback`` when the task closes."""
        ...
