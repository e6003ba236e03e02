"""The registry of store kinds, by the name that store suppliers carry, and the opening of stores of any kind.

A kind is a file with its `KINDS` and a line here; a kind from elsewhere is registered by :func:`register_kind`. Nothing
else lists kinds.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, cast

from processor_api.errors import StateError, StoreError, TopologyError
from processor_api.record import HeaderList
from processor_api.serde import Headers, Serde
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.custom import ChangelogRecord
from processor_api.stores.suppliers import CustomStoreSupplier, make_custom
from processor_api.task_id import TopicPartition
from state.custom import store as custom_store
from state.custom import versioned as custom_versioned
from state.custom.context import StoreContext
from state.custom.engine import CustomStoreEngine
from state.engine.passing_on import ReadEngine
from state.engine.port import Batch, Engine
from state.engine.repair_hints import rebuild_store
from state.guards.guard import guarded
from state.guards.policies import ReadOnly
from state.key_value import list_store, lru, store, timestamp_proxy, with_headers
from state.row_format.codec import RowCodec
from state.row_format.migration import UpgradingEngine, upgrading_codec
from state.row_format.record_context import Cursor
from state.time_ordered import join_grace, suppress
from state.time_to_live import store as time_to_live
from state.time_to_live.options import EXPIRY
from state.versioned import store as versioned
from state.windowed import session, window
from state.write_buffer.buffer import Log, LogMany
from state.write_buffer.memory_budget import Budget
from state.write_buffer.read_counts import ReadCounts
from state.write_buffer.store_kind import Opening, OpenStore, Restore, StoreKind, restored_as_of
from state.write_buffer.stored_rows import StoredFamily

_known: dict[str, StoreKind] = {
    **store.KINDS,
    **with_headers.KINDS,
    **list_store.KINDS,
    **lru.KINDS,
    **versioned.KINDS,
    **window.KINDS,
    **session.KINDS,
    **time_to_live.KINDS,
    **suppress.KINDS,
    **join_grace.KINDS,
    **custom_store.KINDS,
    **custom_versioned.KINDS,
    **timestamp_proxy.KINDS,
}
BUILT_IN = frozenset(_known)
"""The names of the built-in kinds, which no other kind can have."""

KINDS: Mapping[str, StoreKind] = MappingProxyType(_known)
"""All kinds that are known in this process, by name."""


def register_kind(name: str, kind: StoreKind) -> None:
    """Makes a kind of store known in this process under the name that its suppliers carry.

    Call it where the topology is made, so that every worker does; a name may be given again.

    :raises TopologyError: if the name is that of a built-in kind, or one of the kind's families is that of another one.
    """
    if name in BUILT_IN:
        raise TopologyError(f"{name!r} is a built-in kind of store: register yours under another name")
    taken = {suffix for other, known in _known.items() if other != name for suffix in _suffixes(known)}
    if kind.has_rows and (shared := taken.intersection(_suffixes(kind))):
        raise TopologyError(
            f"the kind of store {name!r} has family {min(shared)!r}, which another kind already has: families identify"
            " the kind of a store on disk, so give this one a suffix that no other kind has"
        )
    _known[name] = kind


def _suffixes(kind: StoreKind) -> tuple[str, ...]:
    return (kind.codec.family_suffix, *kind.families) if kind.has_rows else ()


def kind_of(builder: StoreBuilder[Any, Any]) -> StoreKind:
    """Returns the kind of a store.

    :raises TopologyError: if there is no such kind.
    """
    name = kind_name(builder)
    kind = _known.get(name)
    if kind is None:
        raise TopologyError(
            f"store {builder.name!r} has the unknown kind {name!r}: register your kind by register_kind in the module"
            " of the topology",
            store=builder.name,
        )
    return kind


def kind_name(builder: StoreBuilder[Any, Any]) -> str:
    """Returns the name of a store's kind in `KINDS`."""
    lives = builder.time_to_live
    return builder.kind if lives is None else time_to_live.kind_name(builder.kind, lives.by)


def family_of(builder: StoreBuilder[Any, Any]) -> str:
    """Returns the engine's family that holds the store's rows, or the first of them."""
    return f"{builder.name}.{kind_of(builder).codec.family_suffix}"


def families_of(builder: StoreBuilder[Any, Any]) -> list[str]:
    """Returns the engine's families that hold the store's rows."""
    kind = kind_of(builder)
    return [family_of(builder), *(f"{builder.name}.{suffix}" for suffix in (*kind.families, *kind.notes))]


def families_held(builder: StoreBuilder[Any, Any], engine: Engine) -> list[str]:
    """Returns `families_of`, with those of older kinds that have rows."""
    older = (f"{builder.name}.{suffix}" for suffix in kind_of(builder).older)
    return [*families_of(builder), *filter(engine.holds, older)]


def family_reader(suffix: str) -> StoredFamily | None:
    """Returns how the rows of a family are read without a store; ``None`` if no kind has such a family."""
    return next((kind.offline[suffix] for kind in KINDS.values() if suffix in kind.offline), None)


def expires(builder: StoreBuilder[Any, Any]) -> bool:
    """Returns whether rows of a store expire by its stream time."""
    return kind_of(builder).expires


def check_kind(builder: StoreBuilder[Any, Any], engine: Engine) -> None:
    """Makes sure that the engine has no rows of the store that this kind cannot read.

    :raises StateError: if it has: the store was of another kind before.
    """
    kind, name = kind_of(builder), builder.name
    known = {kind.codec.family_suffix, *kind.families, *kind.older}
    for other, its in _known.items():
        for suffix in _suffixes(its):
            if suffix not in known and engine.holds(f"{name}.{suffix}"):
                raise StateError(
                    f"store {name!r} is a {kind_name(builder)} store, but the rows on disk were written by a {other}"
                    f" store and cannot be converted: run `streams state rebuild {name}` to restore it from its"
                    " changelog, or give the store a new name",
                    store=name,
                )


def _upgraded(builder: StoreBuilder[Any, Any], engine: Engine) -> tuple[Engine, RowCodec]:
    """Returns the engine and the codec of a store, which may have rows of an older kind."""
    kind, name = kind_of(builder), builder.name
    older = [
        (engine.family(f"{name}.{suffix}"), convert)
        for suffix, convert in kind.older.items()
        if engine.holds(f"{name}.{suffix}")
    ]
    if not older:
        return engine, kind.codec
    family = f"{name}.{kind.codec.family_suffix}"
    upgrading = UpgradingEngine(engine, family, older, kind.same)
    return upgrading, upgrading_codec(kind.codec, upgrading.family(family))


def restore_of(builder: StoreBuilder[Any, Any], engine: Engine, as_of: int | None = None) -> Restore:
    """Returns the function that turns the records of a store's changelog into its rows, for one restore.

    :param as_of: of a store whose rows expire, restores those that have expired since this stream time too.
    """
    if as_of is not None:
        builder = restored_as_of(builder, as_of)
    engine, codec = _upgraded(builder, engine)
    return kind_of(builder).restoring(builder, engine, codec)


def changelog_records_of(builder: StoreBuilder[Any, Any], engine: Engine) -> Iterator[ChangelogRecord] | None:
    """Returns the rows of a store as records of its changelog; ``None`` if rows of its kind cannot be turned back into
    records, such as those of a user's own store.

    :func:`restore_of` makes the same rows of these records, in an engine without rows: what a changelog would give that
    holds nothing else. The engine is only read, by ranges. No row may change until the last record was taken.

    * Rows that are left in families of older kinds are given as rows of the present kind.
    * Rows that have expired and are not deleted yet are given too. A restore drops them, or hides them as the store
      does, unless it is as of an earlier time.
    * Of what a store notes besides its rows, records carry what a restore finds in a changelog: the stream times of
      windows, sessions, versions and joins, and the numbers of puts. A restore does not find the time of a store with a
      time to live, which begins again with the next record.
    * The timestamp is -1 where rows have none, such as those of plain stores. The headers are ``None`` where the store
      does not keep them.

    The iterator raises StateError if a row is damaged, and OSError if there is no room for the temporary file in which
    the rows of a large versioned store are sorted.
    """
    as_records = kind_of(builder).as_records
    if as_records is None:
        return None
    return _read_records(builder.name, as_records(builder, *_upgraded(builder, engine)))


def _read_records(store: str, records: Iterator[ChangelogRecord]) -> Iterator[ChangelogRecord]:
    try:
        yield from records
    except (ValueError, struct.error) as error:
        raise StateError(
            f"the rows of store {store!r} cannot be written to its changelog, because one of them is damaged: {error};"
            f" {rebuild_store(store)} as far as that has it",
            store=store,
        ) from error


def restored_from_records(restore: Restore, key_serde: Serde[Any], value_serde: Serde[Any]) -> Restore:
    """Returns the function of a restore for the records of a source topic, which may have parts of their keys and
    values in headers; rows have all in front.

    :param key_serde: the serde of the topic, as it is for records.
    """
    if not key_serde.takes_headers and not value_serde.takes_headers:
        return restore

    def restore_moved(
        batch: Batch,
        keys: Iterable[bytes],
        values: Iterable[bytes | None],
        timestamps: Iterable[int],
        headers: Iterable[HeaderList | None],
    ) -> None:
        kept = [Headers(one or ()) for one in headers]
        moved_keys = [key_serde.moved_inside(data, one) for data, one in zip(keys, kept, strict=True)]
        moved = [
            None if data is None else value_serde.moved_inside(data, one)
            for data, one in zip(values, kept, strict=True)
        ]
        restore(batch, iter(moved_keys), iter(moved), timestamps, iter(kept))

    return restore_moved


def restores_blindly(builder: StoreBuilder[Any, Any], engine: Engine) -> bool:
    """Returns whether a restore puts rows without reading the rows that are there."""
    kind = kind_of(builder)
    return kind.restores_rows and not any(engine.holds(f"{builder.name}.{suffix}") for suffix in kind.older)


def _count_nothing(by_ms: int = 0) -> None:
    """Does nothing; stands in stores whose dropped records are not counted."""


def open_store(
    builder: StoreBuilder[Any, Any],
    *,
    engine: Engine,
    cursor: Cursor,
    budget: Budget,
    log: Log | None,
    key_serde: Serde[Any],
    value_serde: Serde[Any],
    log_many: LogMany | None = None,
    log_each: bool = True,
    drop: Callable[..., None] = _count_nothing,
    reads_only: bool = False,
    reads: ReadCounts | None = None,
) -> OpenStore:
    """Opens a store on a task's engine.

    :param log_many: as ``log``, for many rows.
    :param log_each: logs each put of a store without caching when it happens, not the last of each key at the drain.
    :param reads_only: opens it without writing anything, for one thread, which need not be the one that writes. It sees
        what others write to the engine if its budget has no room for a cache.
    :param reads: counts the reads of rows.
    """
    kind, expiry = kind_of(builder), f"{builder.name}.{EXPIRY}"
    if not reads_only and EXPIRY not in kind.notes and engine.holds(expiry):
        engine.clear([expiry])  # a time to live that is set again later starts from the beginning
    engine, codec = _upgraded(builder, cast(Engine, ReadEngine(engine)) if reads_only else engine)
    return kind.open(
        Opening(
            kind=kind,
            builder=builder,
            codec=codec,
            engine=engine,
            cursor=cursor,
            budget=budget,
            log=log,
            log_many=log_many,
            log_each=log_each,
            key_serde=cursor.handing(key_serde.inside(), f"the keys of store {builder.name!r}"),
            value_serde=cursor.handing(value_serde.inside(), f"store {builder.name!r}"),
            drop=drop,
            reads=reads,
        )
    )


def custom_engine(
    builder: StoreBuilder[Any, Any],
    context: Callable[[], StoreContext],
    *,
    inputs: Collection[TopicPartition] = (),
    undoes: bool = False,
) -> CustomStoreEngine:
    """Returns a custom store as an engine (:class:`~state.custom.engine.CustomStoreEngine`).

    :raises StateError: if the store cannot be opened.
    """
    supplier, kind = cast(CustomStoreSupplier, builder.supplier), kind_of(builder)

    def given() -> StoreContext:
        made = context()
        made.changes.logged_for_it = not kind.logs_itself
        return made

    return CustomStoreEngine(
        builder.name,
        lambda: make_custom(builder.name, supplier.factory),
        given,
        family=family_of(builder) if kind.has_rows else None,
        inputs=inputs,
        undoes=undoes,
    )


def read_only(store: OpenStore, node: str, why: str) -> OpenStore:
    """Returns a store for a node that may not write to it.

    :param why: the text of the error when it is written to.
    """
    name = store.builder.name

    def refusal() -> StoreError:
        return StoreError(f"node {node!r} can only read store {name!r}, not write to it: {why}", node=node, store=name)

    return replace(store, facade=guarded(ReadOnly(store.facade, store.kind.writes, refusal)))
