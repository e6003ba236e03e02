"""The stores that joins bring along: a window store for each side, and one for what waits without a partner."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dsl.joins.join_windows import JoinWindows
from dsl.plan.materialization import chosen_supplier, logged
from dsl.settings import BuildSettings
from processor_api.errors import TopologyError
from processor_api.forms.times import iso, time_ms
from processor_api.record import Headers
from processor_api.serde import Serde, SerdeSchema, WrappingSerde, schema_around
from processor_api.stores.builder import StoreBuilder, join_buffer_builder
from processor_api.stores.defaults import DslStoreSuppliers, DslWindowParams
from processor_api.stores.factory import Stores
from processor_api.stores.suppliers import StoreSupplier
from state.formats.outer_join import outer_join_key, outer_join_value, read_outer_join_key, read_outer_join_value

# Serdes of the store where records without a partner wait: keys by time, values with their side (formats 6).


_SIDES = ("left", "right")


class TimedSide(NamedTuple):
    """The key of a record that waits."""

    key: Any
    timestamp: int
    left: bool


class TimedSideKeySerde(WrappingSerde[Any]):
    """The serde of ``(key, timestamp, left)``.

    :param inner: writes the key; ``None`` is the application's default serde.
    """

    __slots__ = ()

    def __init__(self, inner: Serde[Any] | None) -> None:
        self.inner = inner
        if inner is None:
            super().__init__(_no_serde, _no_serde, name="key of a join")
        else:
            super().__init__(_key_writer(inner.serialize), _key_reader(inner.deserialize), name=f"timed {inner.name}")

    @property
    def form(self) -> str:
        """The name of formats 6."""
        return "key of a join"

    def to_json(self, value: Any) -> Any:
        """Returns an object with the key, the time and the side."""
        assert self.inner is not None
        key, timestamp, left = value
        return {"key": self.inner.to_json(key), "time": iso(timestamp), "side": _SIDES[not left]}

    def from_json(self, given: Any) -> TimedSide:
        assert self.inner is not None
        return TimedSide(self.inner.from_json(given["key"]), time_ms(given["time"]), given["side"] == _SIDES[0])


class SideValueSerde(Serde[Any]):
    """The serde of ``(value, left)``.

    :param left: writes the values of left records; ``None`` is the application's default serde. So ``right``.
    """

    __slots__ = ("left", "right")

    def __init__(self, left: Serde[Any] | None, right: Serde[Any] | None) -> None:
        self.left, self.right = left, right
        if left is None or right is None:
            super().__init__(_no_serde, _no_serde, name="value of a join")
        else:
            super().__init__(
                _value_writer(left.serialize, right.serialize),
                _value_reader(left.deserialize, right.deserialize),
                name=f"{left.name} or {right.name}",
            )

    def to_json(self, value: tuple[Any, bool]) -> Any:
        """Returns an object with the side and the value."""
        return {"side": _SIDES[not value[1]], "value": self._of_side(value[1]).to_json(value[0])}

    def from_json(self, given: Any) -> tuple[Any, bool]:
        is_left = given["side"] == _SIDES[0]
        return self._of_side(is_left).from_json(given["value"]), is_left

    def _of_side(self, is_left: bool) -> Serde[Any]:
        found = self.left if is_left else self.right
        assert found is not None
        return found

    @property
    def schema(self) -> SerdeSchema | None:
        """Those of both inner serdes."""
        return schema_around("value of a join", {"left": self.left, "right": self.right})

    def with_default(self, default: Serde[Any]) -> Serde[Any]:
        """Returns the serde with the default one instead of each inner serde of ``None``."""
        return SideValueSerde(
            *(default if inner is None else inner.with_default(default) for inner in (self.left, self.right))
        )

    @property
    def is_complete(self) -> bool:
        """Whether both inner serdes are known."""
        return all(inner is not None and inner.is_complete for inner in (self.left, self.right))

    def bind(self, topic: str, *, is_key: bool) -> Serde[Any]:
        """Returns the serde with its inner serdes bound to the topic."""
        return SideValueSerde(
            *(None if inner is None else inner.bind(topic, is_key=is_key).inside() for inner in (self.left, self.right))
        )

    @property
    def takes_headers(self) -> bool:
        """Whether one of the inner serdes does."""
        return any(inner is not None and inner.takes_headers for inner in (self.left, self.right))

    def with_headers(self, headers: Headers) -> Serde[Any]:
        """Returns the serde with its inner serdes for a record with these headers."""
        return SideValueSerde(
            *(None if inner is None else inner.with_headers(headers) for inner in (self.left, self.right))
        )


def _no_serde(anything: Any) -> Any:
    raise ValueError(
        "the streams of the join do not have serdes: give stream(..., value_serde=...) or"
        " StreamJoined(value_serde=..., other_value_serde=...), or set default.value.serde"
    )


def _key_writer(serialize: Callable[[Any], bytes]) -> Callable[[tuple[Any, int, bool]], bytes]:
    def write(key: tuple[Any, int, bool]) -> bytes:
        return outer_join_key(serialize(key[0]), key[1], key[2])

    return write


def _key_reader(deserialize: Callable[[bytes], Any]) -> Callable[[bytes], TimedSide]:
    def read(data: bytes) -> TimedSide:
        key, timestamp, left = read_outer_join_key(data)
        return TimedSide(deserialize(key), timestamp, left)

    return read


def _value_writer(left: Callable[[Any], bytes], right: Callable[[Any], bytes]) -> Callable[[tuple[Any, bool]], bytes]:
    def write(value: tuple[Any, bool]) -> bytes:
        return outer_join_value((left if value[1] else right)(value[0]), value[1])

    return write


def _value_reader(left: Callable[[bytes], Any], right: Callable[[bytes], Any]) -> Callable[[bytes], tuple[Any, bool]]:
    def read(data: bytes) -> tuple[Any, bool]:
        value, is_left = read_outer_join_value(data)
        return (left if is_left else right)(value), is_left

    return read


@dataclass(frozen=True, kw_only=True)
class JoinWindowStore:
    """The window store of one side of a join."""

    name: str
    named: bool
    windows: JoinWindows
    key_serde: Serde[Any] | None = None
    value_serde: Serde[Any] | None = None
    supplier: StoreSupplier | None = None
    store_type: DslStoreSuppliers | str | None = None
    logging: bool = True
    topic_config: Mapping[str, str] = field(default_factory=dict)

    def builder(self, settings: BuildSettings) -> StoreBuilder[Any, Any]:
        """Returns the builder of the store: by its supplier, else by the join's or the application's choice."""
        supplier = self.chosen_supplier(settings)
        builder: StoreBuilder[Any, Any] = Stores.window_store_builder(supplier, self.key_serde, self.value_serde)
        return logged(builder, self.logging, self.topic_config)

    def chosen_supplier(self, settings: BuildSettings) -> StoreSupplier:
        """Returns the supplier of the store.

        :raises TopologyError: if the user's suppliers fail, or give no supplier of this store.
        """
        if self.supplier is not None:
            return self.supplier
        params = DslWindowParams(
            name=self.name,
            retention_period_ms=self.windows.retention_ms,
            window_size_ms=self.windows.size_ms,
            retain_duplicates=True,
            is_timestamped=False,
        )
        found = chosen_supplier(params, self.store_type, settings)
        check_supplier(found, self.windows)
        return found


@dataclass(frozen=True, kw_only=True)
class UnmatchedStore:
    """The store of a left or outer join in which records wait that have no partner yet.

    It is on the engine of the left side's window store.
    """

    name: str
    named: bool
    left: JoinWindowStore
    key_serde: Serde[Any] | None = None
    right_value_serde: Serde[Any] | None = None

    @property
    def logging(self) -> bool:
        """Whether it has a changelog, as the window stores have."""
        return self.left.logging

    def builder(self, settings: BuildSettings) -> StoreBuilder[Any, Any]:
        """Returns the builder of the store."""
        supplier = StoreSupplier(name=self.name, kind="list", engine=self.left.chosen_supplier(settings).engine)
        builder: StoreBuilder[Any, Any] = StoreBuilder(
            supplier=supplier,
            key_serde=TimedSideKeySerde(self.key_serde),
            value_serde=SideValueSerde(self.left.value_serde, self.right_value_serde),
        )
        return logged(builder, self.left.logging, self.left.topic_config)


@dataclass(frozen=True, kw_only=True)
class GraceBuffer:
    """The store of a join with a table in which the stream's records wait for late updates."""

    name: str
    named: bool
    grace_ms: int
    key_serde: Serde[Any] | None = None
    value_serde: Serde[Any] | None = None
    logging: bool = True

    def builder(self, settings: BuildSettings) -> StoreBuilder[Any, Any]:
        """Returns the builder of the store, on the application's engine."""
        return join_buffer_builder(self.name, self.grace_ms, self.key_serde, self.value_serde, engine=settings.engine)


def check_supplier(supplier: StoreSupplier, windows: JoinWindows) -> None:
    """Checks that a window store that the user supplies does for a join.

    :raises TopologyError: if it replaces duplicates, or is for other windows.
    """
    name, given = supplier.name, supplier.parameters
    if "window_size_ms" not in given:
        raise TopologyError(f"store {name!r} of a join must be a window store, not a {supplier.kind} store", store=name)
    if not given.get("retain_duplicates"):
        raise TopologyError(
            f"store {name!r} of a join must keep duplicates because each record counts: give its supplier"
            " retain_duplicates=True",
            store=name,
        )
    if (given["window_size_ms"], given["retention_ms"]) != (windows.size_ms, windows.retention_ms):
        raise TopologyError(
            f"store {name!r} has windows of {given['window_size_ms']} ms with a retention of {given['retention_ms']}"
            f" ms, but the join needs {windows.size_ms} ms with a retention of {windows.retention_ms} ms",
            store=name,
        )
