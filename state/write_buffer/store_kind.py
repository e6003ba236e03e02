"""What a kind of store is: a codec of rows, how it is opened, and how changelog records become its rows.

Everything else is :class:`state.write_buffer.buffer.Rows`. A kind is a file of its own that says these things in a
`StoreKind` for each name; :mod:`state.registry.kinds` lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from processor_api.record import HeaderList
from processor_api.serde import Serde
from processor_api.stores.factory import MEMORY, ROCKSDB, StoreBuilder
from state.engine.port import Batch, Engine
from state.write_buffer.buffer import Log, LogMany, Rows, RowsSettings
from state.write_buffer.memory_budget import Budget
from state.write_buffer.open_views import OpenViews
from state.write_buffer.record_context import Cursor
from state.write_buffer.row_codec import RowCodec

__all__ = ["Facade", "OpenStore", "Opening", "Restore", "StoreKind", "Upkeep", "is_persistent", "open_rows"]

Restore = Callable[
    [Batch, Iterable[bytes], Iterable[bytes | None], Iterable[int], Iterable[HeaderList | None]],
    None,
]
"""``(batch, keys, values, timestamps, headers)`` of changelog records, in order: puts what they say into a batch of the
engine. The columns are read once, and only those that the kind needs. One function serves one restore from its start to
its end, and may remember what it saw."""


class Facade(Protocol):
    """What processors get."""

    def close(self) -> None:
        """Every later call fails."""
        ...


class Upkeep(Protocol):
    """What a kind writes with each commit besides the rows that were put: stream times, counters, expiry."""

    @property
    def pending(self) -> bool:
        """Whether there is anything to write."""
        ...

    def apply(self, batch: Batch) -> None:
        """Puts it into a batch, behind the rows."""
        ...

    def applied(self) -> None:
        """The engine holds it."""
        ...

    def close(self) -> None:
        """Forgets what the engine does not hold."""
        ...


@dataclass(frozen=True, kw_only=True)
class Opening:
    """What a store is opened with."""

    builder: StoreBuilder[Any, Any]
    codec: RowCodec
    engine: Engine
    cursor: Cursor
    budget: Budget
    log: Log | None
    log_many: LogMany | None
    """As `log`, for many rows; ``None`` if there is only `log`."""
    log_each: bool
    """Whether a key-value store without caching logs each put when it happens, or the last of each key at the drain."""
    key_serde: Serde[Any]
    value_serde: Serde[Any]
    drop: Callable[[], None]
    """Counts a record that was dropped."""
    make_rows: Callable[[RowsSettings], Rows] = Rows
    """Makes what is between the store and the engine."""


@dataclass(frozen=True, kw_only=True)
class OpenStore:
    """A store of a running task."""

    builder: StoreBuilder[Any, Any]
    rows: Rows
    facade: Any
    """For processors: a `Facade`, with the calls of the kind."""
    operator: Any
    """For the DSL's operators."""
    bare: Any = None
    """The façade, where another one stands before it that counts its calls."""
    upkeep: Sequence[Upkeep] = ()
    custom: ClassVar[bool] = False
    """Whether the façade is a store of the user's own."""
    views: OpenViews = field(default_factory=OpenViews, compare=False, repr=False)
    """What other threads have open of it (:func:`state.read_views.view.open_view`)."""

    @property
    def cached(self) -> bool:
        return self.rows.cached

    @property
    def pending(self) -> bool:
        """Whether a commit has anything to write."""
        return bool(self.rows.drained) or any(part.pending for part in self.upkeep)

    def drain(self) -> bool:
        """Logs and forwards what the cache holds back; tells whether there was anything."""
        return self.rows.drain()

    def apply(self, batch: Batch) -> None:
        """Puts what a commit writes into a batch; call :meth:`applied` once it is written."""
        self.rows.apply(batch)
        for part in self.upkeep:
            part.apply(batch)

    def applied(self) -> None:
        self.rows.applied()
        for part in self.upkeep:
            part.applied()

    def close(self) -> None:
        self.views.close()
        self.facade.close()
        self.rows.close()
        for part in self.upkeep:
            part.close()


def _restore_rows(builder: StoreBuilder[Any, Any], engine: Engine, codec: RowCodec) -> Restore:
    """For kinds whose changelog has the keys of their rows."""
    fill, handle = codec.fill, engine.family(f"{builder.name}.{codec.family_suffix}").handle

    def restore(
        batch: Batch,
        keys: Iterable[bytes],
        values: Iterable[bytes | None],
        timestamps: Iterable[int],
        headers: Iterable[HeaderList | None],
    ) -> None:
        fill(batch, handle, zip(keys, values, timestamps, strict=True))

    return restore


@dataclass(frozen=True)
class StoreKind:
    """See the module's text."""

    codec: RowCodec
    open: Callable[[Opening], OpenStore]
    restoring: Callable[[StoreBuilder[Any, Any], Engine, RowCodec], Restore] = _restore_rows
    families: tuple[str, ...] = ()
    """Suffixes of the engine's families that it has besides the codec's."""

    @property
    def restores_rows(self) -> bool:
        """Whether the changelog has the keys of the rows, which are put as they come."""
        return self.restoring is _restore_rows

    notes: tuple[str, ...] = ()
    """The same of those that another kind may ignore."""
    older: Mapping[str, Callable[[bytes], bytes]] = field(default_factory=dict)
    """Suffixes of families of older kinds that it takes over (:mod:`state.write_buffer.migration`), with what makes a
    row of this kind from one of theirs."""
    same: frozenset[bytes] = frozenset()
    """Keys of rows that are the same in older kinds."""


def is_persistent(builder: StoreBuilder[Any, Any], engine: Engine) -> bool:
    """Whether a store follows the rules of those on disk: as its supplier says, or an engine of the user's own."""
    supplier = builder.supplier
    return supplier.persistent if supplier.engine in (MEMORY, ROCKSDB) else engine.persistent


def open_rows(
    opening: Opening, *, key_serde: Serde[Any] | None = None, log: Log | None = None, log_each: bool = True
) -> Rows:
    """The rows of a store.

    :param key_serde: between the keys of the kind and those of its rows, if the rows have others than the store.
    :param log: in place of the changelog, for rows whose keys stand otherwise on it.
    :param log_each: logs each put of a store without caching when it happens, not the last of each key at the drain.
    """
    logs_headers = opening.builder.logs_headers and log is None  # others know what to log
    log_many = opening.log_many if log is None else None
    log = log or opening.log
    trace = opening.cursor.row_trace
    if trace is not None and log is not None:
        log, log_many = trace.logging(opening.builder.name, log), None
    settings = RowsSettings(
        name=opening.builder.name,
        engine=opening.engine,
        codec=opening.codec,
        key_serde=key_serde or opening.key_serde,
        value_serde=opening.value_serde,
        cursor=opening.cursor,
        budget=opening.budget,
        log=log,
        log_many=log_many,
        log_each=log_each,
        caching=opening.builder.caching,
        logs_headers=logs_headers,
    )
    return opening.make_rows(settings)
