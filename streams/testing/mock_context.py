"""A context for one processor alone, without a topology (Kafka Streams' ``MockProcessorContext``).

It keeps the records that the processor forwards, its punctuations and its requests for a commit; the test reads them,
and sets the times and the current record. Stores are real ones in memory, without a changelog and a cache.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from processor_api.errors import TopologyError
from processor_api.metrics import StreamsMetrics
from processor_api.processor import connected_stores
from processor_api.punctuation import PunctuationType, Punctuator, check_schedule
from processor_api.record import FixedKeyRecord, HeaderList, Headers, Record, RecordMetadata, TimestampType
from processor_api.serde import Serde
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.builders import StateStoreBuilder, as_builder
from processor_api.stores.suppliers import CustomStoreSupplier
from processor_api.task_id import TaskId
from processor_api.texts import repr_of
from processor_api.user_code.checks import check_function
from processor_api.user_code.durations import Duration, Timestamp, to_ms, to_timestamp_ms
from processor_api.user_code.given_values import attribute_of, items_of, with_prefix
from state.custom.context import StoreContext, StoreEnvironment
from state.custom.engine import DIRECTORY
from state.engine.memory import MemoryEngine
from state.registry.kinds import custom_engine, open_store
from state.row_format.record_context import Cursor
from state.write_buffer.memory_budget import Budget
from state.write_buffer.store_kind import OpenStore
from streams.config import StreamsConfig
from streams.metrics.registry import Metrics, ThreadMetrics
from streams.runtime.processing.environment import resolve_serde
from streams.testing.settings import config_for_tests, nearest


class CapturedForward(NamedTuple):
    """A record that a processor forwarded, and to which child; ``None`` is all children."""

    record: Record[Any, Any] | FixedKeyRecord[Any, Any]
    child: str | None


class CapturedPunctuator:
    """A punctuation that a processor scheduled. It runs only when the test calls :meth:`punctuate`."""

    def __init__(
        self, interval_ms: int, kind: PunctuationType, callback: Punctuator, start_time_ms: int | None
    ) -> None:
        self.interval_ms = interval_ms
        self.type = kind
        self.callback = callback
        self.start_time_ms = start_time_ms
        self.cancelled = False

    def cancel(self) -> None:
        """Cancels the punctuation, as the processor's handle does."""
        self.cancelled = True

    def punctuate(self, timestamp_ms: int) -> None:
        """Calls the processor back, as the runtime would at this time.

        :raises ValueError: if the processor has cancelled it.
        """
        if self.cancelled:
            raise ValueError("this punctuation was cancelled, so it no longer runs")
        self.callback(timestamp_ms)

    def __repr__(self) -> str:
        cancelled = ", cancelled" if self.cancelled else ""
        return f"CapturedPunctuator(every {self.interval_ms} ms by {self.type.name}{cancelled})"


class MockStores:
    """The stores of a context for one processor: opened in memory, or a test's own."""

    def __init__(self, config: StreamsConfig, cursor: Cursor) -> None:
        self._config = config
        self._cursor = cursor
        self._engine: Any = MemoryEngine()
        self._stores: dict[str, Any] = {}
        self._opened: list[OpenStore] = []

    def add(self, store: Any, context_of: Callable[[str], StoreContext]) -> Any:
        """Adds a store, or opens the one of a builder; returns it.

        :param context_of: returns the context that a custom store of a name is given.
        :raises TopologyError: if there is one of the same name.
        """
        name = attribute_of(store, "name")
        if type(name) is not str:
            raise TopologyError(f"a store must be a builder, or have a name, got {repr_of(store)}")
        if name in self._stores:
            raise TopologyError(f"the context already has a store {name!r}", store=name)
        is_builder = isinstance(store, StoreBuilder) or callable(getattr(store, "build", None))
        self._stores[name] = self._open(as_builder(store), context_of) if is_builder else store
        return self._stores[name]

    def get(self, name: str) -> Any:
        """Returns a store that was added.

        :raises TopologyError: if it was not.
        """
        found = self._stores.get(name) if type(name) is str else None
        if found is None:
            hint = nearest(name, self._stores)
            raise TopologyError(f"no store {repr_of(name)} was added by add_state_store{hint}", store=name)
        return found

    def _open(self, builder: StoreBuilder[Any, Any], context_of: Callable[[str], StoreContext]) -> Any:
        what = f"store {builder.name!r}"
        key, value = self._config.default_key_serde, self._config.default_value_serde
        engine: Any = self._engine
        if isinstance(builder.supplier, CustomStoreSupplier):
            engine = custom_engine(builder, lambda: context_of(builder.name))
        opened = open_store(
            builder.with_logging_disabled().with_caching_disabled(),
            engine=engine,
            cursor=self._cursor,
            budget=Budget(0),
            log=None,
            key_serde=resolve_serde(builder.key_serde, key, what, "key").bind(builder.name, is_key=True),
            value_serde=resolve_serde(builder.value_serde, value, what, "value").bind(builder.name, is_key=False),
        )
        self._opened.append(opened)
        return opened.facade

    def close(self) -> None:
        """Closes the stores that were opened here."""
        for store in self._opened:
            store.close()


class MockProcessorContext:
    """A context for one processor alone: give it to ``init``, call ``process``, and look at what was forwarded.

    :param config: a configuration or a mapping of settings, as for the test driver.
    :param children: names of children, if the processor forwards to some by name; ``None`` takes any name.
    :param stores: builders of stores to open, as :meth:`add_state_store` does.
    :param state_dir: the task's directory; a temporary one if not given.
    """

    def __init__(
        self,
        config: StreamsConfig | Mapping[str, Any] | None = None,
        *,
        task_id: TaskId | None = None,
        children: Collection[str] | None = None,
        stores: Iterable[StoreBuilder[Any, Any] | StateStoreBuilder] = (),
        state_dir: Path | None = None,
    ) -> None:
        self.config = config_for_tests(config)
        self._task_id = TaskId(0, 0) if task_id is None else task_id
        self._children = None if children is None else tuple(items_of(children, "children"))
        self._state_dir = state_dir
        self._cursor = Cursor()
        self._stores = MockStores(self.config, self._cursor)
        self._metadata: RecordMetadata | None = None
        self._system_time_ms = 0
        self._metrics: StreamsMetrics | None = None
        self.forwards: list[CapturedForward] = []
        """Everything forwarded, in order. Clear it as you like."""
        self.punctuators: list[CapturedPunctuator] = []
        """Everything scheduled, in order, cancelled ones too."""
        self.committed = False
        """Whether the processor asked for a commit. Set it back as you like."""
        for store in items_of(stores, "stores"):
            self.add_state_store(store)

    @property
    def timestamp(self) -> int:
        """The timestamp of the current record in ms, for a transformer of a table's values."""
        return self._cursor.timestamp

    @property
    def headers(self) -> Headers:
        """The headers of the current record, for a transformer of a table's values."""
        return Headers(self._cursor.headers or ())

    # ------------------------------------------------------------------ what the test sets

    def set_record_metadata(
        self,
        topic: str,
        partition: int = 0,
        offset: int = 0,
        *,
        timestamp: Timestamp = 0,
        headers: HeaderList | None = None,
    ) -> None:
        """Sets where the current record came from. Stores take its timestamp and headers for the next puts."""
        time_ms = to_timestamp_ms(timestamp, "timestamp")
        self._metadata = RecordMetadata(topic, partition, offset, TimestampType.CREATE_TIME, time_ms)
        self.set_record_timestamp(time_ms)
        self.set_record_headers(headers)

    def set_record_timestamp(self, timestamp: Timestamp) -> None:
        """Sets the timestamp of the current record, which stores take for what is put next."""
        self._cursor.timestamp = to_timestamp_ms(timestamp, "timestamp")

    def set_record_headers(self, headers: HeaderList | None) -> None:
        """Sets the headers of the current record."""
        self._cursor.headers = None if headers is None else items_of(headers, "headers") or None

    def clear_record_metadata(self) -> None:
        """Sets no current record, as in a punctuation: the topic is ``None``, partition and offset are -1."""
        self._cursor.leave()
        self._metadata = RecordMetadata(None, -1, -1)

    def set_current_system_time_ms(self, time: Timestamp) -> None:
        """Sets the wall clock, which is 0 at first. It runs no punctuation: see :attr:`punctuators`."""
        self._system_time_ms = to_timestamp_ms(time, "time")

    def set_current_stream_time_ms(self, time: Timestamp) -> None:
        """Sets the stream time, which is -1 at first."""
        self._cursor.stream_time = to_timestamp_ms(time, "time")

    def add_state_store(self, store: Any) -> Any:
        """Adds a store for the processor; returns it.

        :param store: a builder, whose store is opened in memory, without logging and caching whatever it says; or a
            store of your own with a ``name``.
        :raises TopologyError: if there is one of the same name.
        """
        return self._stores.add(store, self._store_context)

    def add_stores_of(self, supplier: Any) -> None:
        """Adds the stores that a supplier brings along by its method ``stores``."""
        for builder in connected_stores(supplier, attribute_of(supplier, "__qualname__", type(supplier).__qualname__)):
            self.add_state_store(builder)

    def _store_context(self, store: str) -> StoreContext:
        """Returns the context that a custom store is given."""
        return StoreContext(
            StoreEnvironment(
                store=store,
                application_id=self.application_id,
                task_id=self.task_id,
                state_dir=self.state_dir / DIRECTORY / store,
                changelog_topic=None,
                key_serde=self.key_serde,
                value_serde=self.value_serde,
                cursor=self._cursor,
                settings=self.app_configs,
                make_metrics=self.metrics,
                time_ms=self.current_system_time_ms,
                request_commit=self.commit,
            )
        )

    # ------------------------------------------------------------------ what the test reads

    def forwarded(self, child: str | None = None) -> list[Any]:
        """Returns the records forwarded so far: all of them, or those that a child would have got.

        :raises TopologyError: if the children are known and this is none.
        """
        if child is None:
            return [record for record, _ in self.forwards]
        self._check_child(child)
        return [record for record, to in self.forwards if to is None or to == child]

    def reset_forwards(self) -> None:
        """Forgets what was forwarded so far."""
        self.forwards.clear()

    def reset_commit(self) -> None:
        """Forgets that the processor asked for a commit."""
        self.committed = False

    def close(self) -> None:
        """Closes the stores that were opened here."""
        self._stores.close()

    # ------------------------------------------------------------------ processor_api.context.ProcessorContext

    @property
    def application_id(self) -> str:
        """The setting ``application.id``."""
        return self.config.application_id

    @property
    def task_id(self) -> TaskId:
        """The task that was given, or 0_0."""
        return self._task_id

    @property
    def record_metadata(self) -> RecordMetadata | None:
        """The place of the current record that the test has set, or ``None``."""
        return self._metadata

    @property
    def key_serde(self) -> Serde[Any] | None:
        """The default key serde of the configuration."""
        return self.config.default_key_serde

    @property
    def value_serde(self) -> Serde[Any] | None:
        """The default value serde of the configuration."""
        return self.config.default_value_serde

    @property
    def state_dir(self) -> Path:
        """The directory that was given, or a temporary one."""
        if self._state_dir is None:
            self._state_dir = Path(tempfile.mkdtemp(prefix="streams-mock-"))
            weakref.finalize(self, shutil.rmtree, self._state_dir, ignore_errors=True)
        return self._state_dir

    def get_state_store(self, name: str) -> Any:
        """Returns a store that was added.

        :raises TopologyError: if it was not.
        """
        return self._stores.get(name)

    def schedule(
        self, interval: Duration, kind: PunctuationType, callback: Punctuator, *, start_time: Timestamp | None = None
    ) -> CapturedPunctuator:
        """Keeps the punctuation in :attr:`punctuators`.

        :raises ValueError: if the interval is below 1 ms or the start is negative.
        :raises TypeError: if the kind is none, or the start no whole number.
        :raises TopologyError: if the callback is not a plain function of the timestamp.
        """
        interval_ms = to_ms(interval, "interval")
        start_ms = check_schedule("a punctuation's", interval_ms, kind, start_time)
        check_function(callback, "callback", "schedule", ("timestamp",))
        captured = CapturedPunctuator(interval_ms, kind, callback, start_ms)
        self.punctuators.append(captured)
        return captured

    def commit(self) -> None:
        """Sets :attr:`committed`."""
        self.committed = True

    def app_configs(self) -> Mapping[str, Any]:
        """Returns the configuration under Kafka's dotted names."""
        return self.config.dotted()

    def app_configs_with_prefix(self, prefix: str) -> Mapping[str, Any]:
        """Returns the settings whose names begin with a prefix, by the rest of their names."""
        return with_prefix(self.app_configs(), prefix)

    def metrics(self) -> StreamsMetrics:
        """Returns a registry of metrics for this context alone."""
        if self._metrics is None:
            self._metrics = ThreadMetrics(Metrics(self.current_system_time_ms), threading.current_thread().name)
        return self._metrics

    def current_system_time_ms(self) -> int:
        """Returns the wall-clock time in ms that the test has set."""
        return self._system_time_ms

    def current_stream_time_ms(self) -> int:
        """Returns the stream time in ms that the test has set."""
        return self._cursor.stream_time

    def forward(self, record: Record[Any, Any] | FixedKeyRecord[Any, Any], child: str | None = None) -> None:
        """Keeps the record, as it is now, in :attr:`forwards`.

        :raises TopologyError: if there is no such child.
        :raises TypeError: if it is not a record.
        """
        if not isinstance(record, (Record, FixedKeyRecord)):
            raise TypeError(f"a processor must forward a Record or a FixedKeyRecord, got {repr_of(record)}")
        if child is not None:
            self._check_child(child)
        self.forwards.append(CapturedForward(record.with_headers(record.headers), child))

    def _check_child(self, child: str) -> None:
        if self._children is not None and child not in self._children:
            known = ", ".join(self._children) or "none"
            raise TopologyError(f"the processor does not have child {repr_of(child)}; its children are: {known}")
