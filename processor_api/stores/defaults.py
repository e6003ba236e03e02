"""Defaults of the stores that operators of the DSL use, for a whole topology or for one table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from processor_api.stores.custom import KeyValueBytesStoreSupplier
from processor_api.stores.factory import Stores
from processor_api.stores.suppliers import MEMORY, ROCKSDB, StoreSupplier


@dataclass(frozen=True, kw_only=True)
class DslKeyValueParams:
    """The needs of an operator that asks for a key-value store."""

    name: str
    is_timestamped: bool = True
    """Whether values have timestamps beside them, as tables' have."""


@dataclass(frozen=True, kw_only=True)
class DslWindowParams:
    """The needs of an operator that asks for a window store; durations are in ms."""

    name: str
    retention_period_ms: int
    window_size_ms: int
    retain_duplicates: bool = False
    """Whether every put adds a row, as joins of streams need it."""
    emit_on_window_close: bool = False
    """Whether results are emitted when windows close, which reads the store by time."""
    is_timestamped: bool = True


@dataclass(frozen=True, kw_only=True)
class DslSessionParams:
    """The needs of an operator that asks for a session store; durations are in ms."""

    name: str
    retention_period_ms: int
    emit_on_window_close: bool = False


@runtime_checkable
class DslStoreSuppliers(Protocol):
    """A choice of the stores of the DSL's operators (KIP-591, KIP-954).

    It is given by ``dsl.store.suppliers.class``, or for one table by ``Materialized(store_type=...)``. Each call is
    made once for each store, when a topology is built.
    """

    def key_value_store(self, params: DslKeyValueParams) -> StoreSupplier | KeyValueBytesStoreSupplier:
        """Returns the supplier of a key-value store named ``params.name``."""
        ...

    def window_store(self, params: DslWindowParams) -> StoreSupplier:
        """Returns the supplier of a window store named ``params.name``."""
        ...

    def session_store(self, params: DslSessionParams) -> StoreSupplier:
        """Returns the supplier of a session store named ``params.name``."""
        ...


@dataclass(frozen=True)
class _OnEngine:
    """The stores of `Stores` on one engine."""

    engine: str

    def key_value_store(self, params: DslKeyValueParams) -> StoreSupplier:
        if self.engine == MEMORY:
            return Stores.in_memory_key_value_store(params.name)
        if params.is_timestamped:
            return Stores.persistent_timestamped_key_value_store(params.name).on_engine(self.engine)
        return Stores.persistent_key_value_store(params.name).on_engine(self.engine)

    def window_store(self, params: DslWindowParams) -> StoreSupplier:
        how: tuple[Any, ...] = (params.retention_period_ms, params.window_size_ms, params.retain_duplicates)
        if self.engine == MEMORY:
            return Stores.in_memory_window_store(params.name, *how)
        make = Stores.persistent_timestamped_window_store if params.is_timestamped else Stores.persistent_window_store
        return make(params.name, *how, time_ordered=params.emit_on_window_close).on_engine(self.engine)

    def session_store(self, params: DslSessionParams) -> StoreSupplier:
        if self.engine == MEMORY:
            return Stores.in_memory_session_store(params.name, params.retention_period_ms)
        made = Stores.persistent_session_store(
            params.name, params.retention_period_ms, time_ordered=params.emit_on_window_close
        )
        return made.on_engine(self.engine)


def on_engine(engine: str) -> DslStoreSuppliers:
    """Returns the choice of the stores of `Stores` on an engine, by its name."""
    return _OnEngine(engine)


class BuiltInDslStoreSuppliers:
    """The choices that are built in, under Kafka Streams' names."""

    ROCKS_DB: DslStoreSuppliers = _OnEngine(ROCKSDB)
    IN_MEMORY: DslStoreSuppliers = _OnEngine(MEMORY)
