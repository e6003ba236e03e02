"""Kinds of stores: one :class:`StoreKind` holds everything about one of them.

The rows of all kinds go through :class:`state.write_buffer.buffer.Rows`; the rest of a kind is in a file of its own. A
kind is found by the name that store suppliers carry, once it is registered (:mod:`state.registry.kinds`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from processor_api.record import HeaderList
from processor_api.serde import Serde
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.custom import ChangelogRecord
from processor_api.stores.queries import Query
from processor_api.stores.suppliers import MEMORY, ROCKSDB
from state.engine.port import Batch, Engine
from state.guards.policies import WRITES
from state.row_format.codec import RowCodec
from state.row_format.record_context import Cursor
from state.row_format.row_format import RowFormat
from state.row_format.row_probe import probed_log
from state.write_buffer.buffer import Log, Logging, LogMany, Rows
from state.write_buffer.changelog_form import ChangelogForm
from state.write_buffer.memory_budget import Budget
from state.write_buffer.open_views import OpenViews, ViewSource
from state.write_buffer.read_counts import ReadCounts
from state.write_buffer.shared_rows import SharedRows, Uncommitted
from state.write_buffer.stored_rows import StoredFamily

Restore = Callable[
    [Batch, Iterable[bytes], Iterable[bytes | None], Iterable[int], Iterable[HeaderList | None]],
    None,
]
"""``(batch, keys, values, timestamps, headers)`` of changelog records, in order: puts what they say into a batch of the
engine. The columns are read once, and only those that the kind needs. One function serves one restore from its start to
its end, and may remember what it saw."""

RowsAsRecords = Callable[[StoreBuilder[Any, Any], Engine, RowCodec], Iterator[ChangelogRecord]]
"""Yields the rows of a store's engine as records of its changelog: the inverse of :data:`Restore`, which makes the same
rows of them (:func:`state.registry.kinds.changelog_records_of`)."""

AS_OF = "restored_as_of"
"""The parameter of :func:`restored_as_of`."""

Answer = Callable[[Any, Any], Any]
"""``(store, query)`` to a value, or to rows (:class:`state.read_views.answers.QueryRows`)."""


class CommitParticipant(ABC):
    """Writes something with each commit of a store besides the rows that were put: stream times, counters, expiry."""

    @property
    @abstractmethod
    def pending(self) -> bool:
        """Whether there is anything to write."""

    @property
    def waiting(self) -> tuple[int, int]:
        """Returns the number of entries that wait for the commit, and their bytes; for any thread."""
        return 0, 0

    @property
    def time(self) -> int | None:
        """The stream time in ms by which rows of the store expire; ``None`` if none expire by this."""
        return None

    @property
    def needed_from(self) -> int | None:
        """A time from which on rows are needed though they may have expired; ``None`` if there is none."""
        return None

    def go_back(self, time: int) -> None:
        """The records behind a stream time are processed again; called when the store is opened."""
        return

    def commit_ended(self) -> None:
        """The commit of the last :meth:`apply` is over; called for a store that :meth:`go_back` was called for."""
        return

    @abstractmethod
    def apply(self, batch: Batch) -> None:
        """Puts what it writes into a batch, behind the rows. Changes nothing else: it is called again if the engine
        could not take the batch."""

    @abstractmethod
    def applied(self) -> None:
        """Called when the engine holds the batch."""

    @abstractmethod
    def close(self) -> None:
        """Forgets what the engine does not hold."""


@dataclass(frozen=True, kw_only=True)
class Opening:
    """Everything that a store is opened with."""

    kind: StoreKind
    builder: StoreBuilder[Any, Any]
    codec: RowCodec
    """The kind's, or one that also takes rows out of the families of older kinds."""
    engine: Engine
    cursor: Cursor
    budget: Budget
    log: Log | None
    log_many: LogMany | None
    """Logs many rows at once, as `log` does one; ``None`` if there is only `log`."""
    log_each: bool
    """Whether a key-value store without caching logs each put when it happens, or the last of each key at the drain."""
    key_serde: Serde[Any]
    value_serde: Serde[Any]
    drop: Callable[..., None]
    """Counts a record that was dropped; takes by how many ms it missed its time, where that is known."""
    reads: ReadCounts | None = None
    """Counts the reads of rows, if anything does."""
    make_rows: Callable[..., Rows] = Rows
    """Makes the write buffer, with the arguments of :class:`~state.write_buffer.buffer.Rows`."""


@dataclass(frozen=True, kw_only=True)
class OpenStore:
    """A store of a running task."""

    kind: StoreKind
    builder: StoreBuilder[Any, Any]
    rows: Rows
    facade: Any
    """The store as processors get it, with the calls of its kind, and with `close`, after which every call fails."""
    operator: Any
    """The store as the DSL's operators get it."""
    participants: Sequence[CommitParticipant] = ()
    """Participants that write with each commit besides the rows."""
    bare: Any = None
    """The façade, where another one stands before it that counts its calls."""
    is_shared: bool = False
    """Whether several nodes of a task have it, where that is known."""
    views: OpenViews = field(default_factory=OpenViews, compare=False, repr=False)
    """Views and iterators that other threads have open (:func:`state.read_views.view.open_view`)."""

    @property
    def unguarded(self) -> Any:
        """The façade that the kind has made."""
        return self.facade if self.bare is None else self.bare

    @property
    def cached(self) -> bool:
        """Whether changes wait in a cache for the drain."""
        return self.rows.cached

    @property
    def pending(self) -> bool:
        """Whether a commit has anything to write."""
        return bool(self.rows.drained) or any(one.pending for one in self.participants)

    def drain(self) -> bool:
        """Logs and forwards what the cache holds back; returns whether there was anything."""
        return self.rows.drain()

    def apply(self, batch: Batch) -> None:
        """Puts what a commit writes into a batch; call :meth:`applied` once it is written."""
        self.rows.apply(batch)
        for one in self.participants:
            one.apply(batch)

    def applied(self) -> None:
        """Call it when the engine holds the batch of :meth:`apply`."""
        self.rows.applied()
        for one in self.participants:
            one.applied()

    def close(self) -> None:
        """Ends the store and all that other threads have open of it; what the engine does not hold is forgotten."""
        self.views.close()
        self.facade.close()
        self.rows.close()
        for one in self.participants:
            one.close()


def _restore_rows(builder: StoreBuilder[Any, Any], engine: Engine, codec: RowCodec) -> Restore:
    """Restores kinds whose changelog has the keys of their rows."""
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


def logged_rows(builder: StoreBuilder[Any, Any], engine: Engine, codec: RowCodec) -> Iterator[tuple[bytes, bytes, int]]:
    """Yields key, value and timestamp of all rows of a store, as they were logged."""
    return codec.logged(engine.family(f"{builder.name}.{codec.family_suffix}").range())


def rows_as_records(builder: StoreBuilder[Any, Any], engine: Engine, codec: RowCodec) -> Iterator[ChangelogRecord]:
    """Yields the rows of kinds whose changelog has the keys of their rows; their headers are not known."""
    make = tuple.__new__  # Half the cost of the class, whose constructor is a function of Python.
    return (make(ChangelogRecord, (*row, None)) for row in logged_rows(builder, engine, codec))


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class StoreForm:
    """A form in which a store can be read: the calls of another kind, such as a store without its timestamps."""

    facade: Callable[[Any], Any] = _same
    """Returns a store in this form, from the store as processors get it."""
    value: Callable[[Any], Any] = _same
    """Returns a value in this form, from the value that the store gives."""


ITSELF = StoreForm()
"""The form that a kind has anyway."""


@dataclass(frozen=True, kw_only=True)
class StoreKind:
    """A kind of store. `codec` and `open` are required; a kind without one of the others cannot be read in that way."""

    codec: RowCodec
    """How its rows are written, and the suffix of the family that holds them."""
    open: Callable[[Opening], OpenStore]
    """Opens a store of a task on its engine."""
    restoring: Callable[[StoreBuilder[Any, Any], Engine, RowCodec], Restore] = _restore_rows
    """Makes the restore of a store. The default is for changelogs that have the keys of the rows."""
    changelog_records: RowsAsRecords | None = None
    """The inverse of `restoring`; with the default of that it may be left out (:attr:`as_records`)."""
    changelog_form: ChangelogForm = ChangelogForm.OWN
    """The form of the keys and values of its changelog."""
    time_first: bool = False
    """Whether its rows are ordered by time, and by key within a time."""
    families: tuple[str, ...] = ()
    """Suffixes of its families in the engine besides the codec's."""
    notes: tuple[str, ...] = ()
    """Suffixes of further families, which another kind may ignore."""
    older: Mapping[str, Callable[[bytes], bytes]] = field(default_factory=dict)
    """Suffixes of families of older kinds that it takes over (:mod:`state.row_format.migration`), with what makes a
    row of this kind from one of theirs."""
    same: frozenset[bytes] = frozenset()
    """Keys of rows that are the same in older kinds."""
    expires: bool = False
    """Whether its rows expire by the stream time of the store."""
    has_rows: bool = True
    """Whether its stores have rows in an engine; a custom store may have none."""
    logs_itself: bool = False
    """Whether its stores write to their changelog themselves."""
    writes: Collection[str] = WRITES
    """The calls that change a store: other threads and readers are refused them."""
    view: Callable[[OpenStore, bool], ViewSource] | None = None
    """Returns for ``(store, committed)`` the views of a running store: of committed rows, or of all that were put."""
    offline: Mapping[str, StoredFamily] = field(default_factory=dict)
    """Readers of rows on disk, for use without a topology, by the suffix of the family."""
    forms: Mapping[str, StoreForm] = field(default_factory=dict)
    """The forms in which ``KafkaStreams.store`` and the test driver's typed getters give it, by name."""
    answers: Mapping[type[Query[Any]], Answer] = field(default_factory=dict)
    """The queries of ``KafkaStreams.query`` that it answers."""
    metrics_scope: str = ""
    """The part behind the engine in the tag of its metrics, as in Kafka Streams: ``window``, ``session`` or ``lru``."""

    @property
    def restores_rows(self) -> bool:
        """Whether the changelog has the keys of the rows, which are put as they come."""
        return self.restoring is _restore_rows

    @property
    def as_records(self) -> RowsAsRecords | None:
        """The function that yields the rows of a store as records of its changelog; ``None`` if only the changelog has
        these records."""
        return self.changelog_records or (rows_as_records if self.restores_rows else None)


def restored_as_of(builder: StoreBuilder[Any, Any], time: int) -> StoreBuilder[Any, Any]:
    """Returns the same store for a restore that keeps the rows which have expired since a stream time."""
    return replace(builder, supplier=replace(builder.supplier, parameters={**builder.supplier.parameters, AS_OF: time}))


def is_persistent(builder: StoreBuilder[Any, Any], engine: Engine) -> bool:
    """Returns whether a store follows the rules of stores on disk: as its supplier says, or a user's engine."""
    supplier = builder.supplier
    return supplier.persistent if supplier.engine in (MEMORY, ROCKSDB) else engine.persistent


def share_rows(format: RowFormat, engine: Engine, cursor: Cursor) -> SharedRows:
    """Returns the rows of a store in its engine, and nothing that waits for a commit."""
    family = engine.family(f"{format.store}.{format.codec.family_suffix}")
    return SharedRows(format, engine, family, cursor, Uncommitted())


def open_rows(
    opening: Opening,
    *,
    key_serde: Serde[Any] | None = None,
    log: Log | None = None,
    log_many: LogMany | None = None,
    log_each: bool = True,
    when_logged: Callable[[Collection[Any]], None] | None = None,
) -> Rows:
    """Returns the write buffer of a store.

    :param key_serde: between the keys of the kind and those of its rows, if the rows have others than the store.
    :param log: instead of the changelog, for rows whose keys stand otherwise on it.
    :param log_many: logs many rows at once, as ``log`` does one; only together with that.
    :param log_each: logs each put of a store without caching when it happens, not the last of each key at the drain.
    :param when_logged: see :class:`~state.write_buffer.buffer.Rows`.
    """
    logs_headers = opening.builder.logs_headers and log is None  # others know what to log
    log_many = opening.log_many if log is None else log_many
    log = log or opening.log
    probe = opening.cursor.probe
    if probe is not None and log is not None:
        # A probe sees each row, so none are logged together.
        log, log_many = probed_log(probe, opening.builder.name, log), None
    format = RowFormat(opening.builder.name, opening.codec, key_serde or opening.key_serde, opening.value_serde)
    rows = opening.make_rows(
        share_rows(format, opening.engine, opening.cursor),
        budget=opening.budget,
        logging=Logging(log=log, log_many=log_many, each=log_each, headers=logs_headers),
        caching=opening.builder.caching,
        when_logged=when_logged,
    )
    rows.reads = opening.reads
    return rows
