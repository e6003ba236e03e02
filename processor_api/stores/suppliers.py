"""Suppliers, which say what kind of store is on which engine; also those of stores that users bring."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from processor_api.errors import StreamsError, TopologyError
from processor_api.stores.custom import TimestampedBytesStore
from processor_api.texts import kind_and_text, repr_of
from processor_api.user_code.checks import check_function
from processor_api.user_code.given_values import attribute_of, exact_text, is_of

ROCKSDB = "rocksdb"
MEMORY = "memory"
ENGINE_WORDS = {"in_memory": MEMORY, "IN_MEMORY": MEMORY, "rocksDB": ROCKSDB, "ROCKS_DB": ROCKSDB}
"""Kafka Streams' words for engines: those of ``default.dsl.store``, and its constants."""


def engine_of_word(word: str) -> str:
    """Returns the name of the engine for one of Kafka Streams' words; other names as they are."""
    text = exact_text(word)
    return ENGINE_WORDS.get(text, text)


CUSTOM = "custom"
"""The kind of a store that brings everything of its own."""
CUSTOM_VERSIONED = "custom-versioned-key-value"
"""The kind of a byte store of versions."""
PLAIN_BYTES = "plain-key-value"
"""The kind of a persistent byte store without timestamps; one of another kind is made of it by its builder."""

_LEGAL_NAME = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]+")
_OWN = ("name", "persistent", "is_open", "init", "commit", "close")
"""The attributes that every custom store has itself."""
_LIFECYCLE = (
    *_OWN,
    "committed_offset",
    "manages_offsets",
    "buffers_writes",
    "approximate_num_uncommitted_bytes",
    "position",
)
_KEY_VALUE_CALLS = ("get", "put_all", "range", "all")
_VERSIONED_CALLS = ("put", "get", "delete")


@dataclass(frozen=True, kw_only=True)
class StoreSupplier:
    """A supplier: a kind of store on an engine; ``parameters`` are the kind's own (retention, ... in ms)."""

    name: str
    kind: str
    engine: str
    """``rocksdb``, ``memory``, or the name of an engine that is registered by ``streams.engines.register_engine``."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    can_be_cached: bool = True
    """Whether changes may wait in a cache: not where each of them counts."""
    can_expire: bool = False
    """Whether its keys can be given a time to live."""
    can_move: bool = True
    """Whether it can be on another engine (:meth:`on_engine`)."""

    def __post_init__(self) -> None:
        given: object = self.name
        if not isinstance(given, str) or not given:
            raise TopologyError(f"a store needs a name, got {repr_of(given)}")
        object.__setattr__(self, "name", exact_text(given))

    @property
    def persistent(self) -> bool:
        """Whether it is not in memory; true for a user's engine, since only that engine knows."""
        return self.engine != MEMORY

    def on_engine(self, engine: str) -> StoreSupplier:
        """Returns the same kind of store on another engine, such as ``on_engine("sqlite")``.

        :param engine: its name. Whether there is such an engine is checked when an application is made.
        :raises TopologyError: if the store cannot be on another engine.
        """
        given: object = engine
        if not isinstance(given, str) or not given:
            raise TopologyError(
                f"store {self.name!r} needs the name of an engine, got {repr_of(given)}", store=self.name
            )
        engine = engine_of_word(engine)
        if not self.can_move and engine != self.engine:
            where = "in memory" if self.engine == MEMORY else f"on the engine {self.engine!r}"
            raise TopologyError(
                f"store {self.name!r} has the kind {self.kind!r}, which is always {where}", store=self.name
            )
        return replace(self, engine=engine)


@dataclass(frozen=True, kw_only=True)
class CustomStoreSupplier(StoreSupplier):
    """A supplier of a store of the user's own; its ``engine`` is a name for the store itself.

    :param factory: makes a new store, not open yet, at each call.
    """

    factory: Callable[[], Any]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not _LEGAL_NAME.fullmatch(self.name):
            raise TopologyError(
                "the name of a custom store is also that of a directory and a topic, so it must consist of letters,"
                f" digits, '.', '_' and '-', got {self.name!r}",
                store=self.name,
            )

    def on_engine(self, engine: str) -> StoreSupplier:
        """Raises an error: a custom store has no engine.

        :raises TopologyError: always.
        """
        raise TopologyError(f"store {self.name!r} is a custom store, which does not have an engine", store=self.name)


_ABSENT = object()


def lacks(store: Any, call: str) -> bool:
    """Returns whether a store has no such call. One that comes from a protocol is a declaration, without a body."""
    found = getattr(type(store), call, None)
    if found is None:
        return attribute_of(store, call, _ABSENT) is _ABSENT
    declared = getattr(found, "fget", found)
    module = getattr(declared, "__module__", None)
    return module == "processor_api.stores.contracts" or (module == "processor_api.stores.custom" and call in _OWN)


def make_custom(name: str, factory: Callable[[], Any], *calls: str) -> Any:
    """Returns a new store that a user's factory made.

    :param calls: the calls that it must have, besides those of its lifecycle.
    :raises TopologyError: if the factory fails, or makes no such store.
    """
    try:
        store = factory()
    except StreamsError as error:
        raise error.locate(store=name)  # noqa: B904 - the same error, with its place
    except Exception as error:
        raise TopologyError(f"the supplier of store {name!r} failed: {kind_and_text(error)}", store=name) from error
    missing = [call for call in (*_LIFECYCLE, *calls) if lacks(store, call)]
    if missing:
        raise TopologyError(
            f"the supplier of store {name!r} made {repr_of(store)}, which is not a custom store: it lacks"
            f" {', '.join(missing)}. Inherit from CustomStateStore",
            store=name,
        )
    own = store.name
    if type(own) is not str or own != name:
        raise TopologyError(f"the supplier of store {name!r} made a store named {repr_of(own)}", store=name)
    return store


def custom_supplier(name: str, factory: Callable[[], Any]) -> CustomStoreSupplier:
    """Returns a supplier of a store that brings everything of its own.

    :param factory: called twice here, to check that it makes a new store each time.
    :raises TopologyError: if it does not.
    """
    engine = f"store {exact_text(name)}" if is_of(name, str) else ""  # a wrong name is refused by the supplier
    found = CustomStoreSupplier(name=name, kind=CUSTOM, engine=engine, factory=factory, can_be_cached=False)
    _two(found.name, factory)
    return found


def _two(name: str, factory: Callable[[], Any], *calls: str) -> Any:
    check_function(factory, "supplier", f"store {name!r}", (), returns=True, store=name)
    first, second = make_custom(name, factory, *calls), make_custom(name, factory, *calls)
    if first is second:
        raise TopologyError(
            f"the supplier of store {name!r} returned the same object twice; every task has a store of its own",
            store=name,
        )
    return first


def as_supplier(given: Any) -> StoreSupplier:
    """Returns the supplier that the runtime uses for one that may be written by a user.

    :raises TopologyError: if it is not a supplier.
    """
    if isinstance(given, StoreSupplier):
        return given
    name, factory = attribute_of(given, "name"), attribute_of(given, "get")
    if not isinstance(name, str) or not callable(factory):
        hint = ": give its attribute supplier" if isinstance(attribute_of(given, "supplier"), StoreSupplier) else ""
        hint = hint or ": see Stores, or KeyValueBytesStoreSupplier for one of your own"
        raise TopologyError(f"expected a store supplier, got {repr_of(given)}{hint}")
    engine = f"store {name}"
    retention = attribute_of(given, "history_retention_ms")
    if retention is not None:
        if type(retention) is not int or retention < 0:
            raise TopologyError(
                f"history_retention_ms must be a non-negative number of ms, got {repr_of(retention)}", store=name
            )
        made = CustomStoreSupplier(
            name=name,
            kind=CUSTOM_VERSIONED,
            engine=engine,
            parameters={"history_retention_ms": retention},
            factory=factory,
            can_be_cached=False,
        )
        _two(name, factory, *_VERSIONED_CALLS)
        return made
    made = CustomStoreSupplier(name=name, kind=PLAIN_BYTES, engine=engine, factory=factory, can_expire=True)
    store = _two(name, factory, *_KEY_VALUE_CALLS)
    if isinstance(store, TimestampedBytesStore) or not store.persistent:
        return replace(made, kind="key-value")
    return made
