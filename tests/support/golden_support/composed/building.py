"""Carries out the statements of a drawn topology, as ``ComposedBuilder`` in the recorder does."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from dsl import (
    Branched,
    BufferConfig,
    Consumed,
    EmitStrategy,
    Grouped,
    Joined,
    JoinWindows,
    Materialized,
    Repartitioned,
    SessionWindows,
    SlidingWindows,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TableJoined,
    TimeWindows,
    UnlimitedWindows,
    ValueTransformerWithKey,
)
from golden_support.composed.functions import Functions
from processor_api.processor import FixedKeyProcessor, Processor
from processor_api.record import FixedKeyRecord, Record
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology

__all__ = ["topology_of"]

S, L = Serdes.STRING, Serdes.LONG
Statement = Mapping[str, Any]
STORES: Mapping[str, Callable[[str], Any]] = {
    "memory": Stores.in_memory_key_value_store,
    "versioned": lambda name: Stores.persistent_versioned_key_value_store(name, 30),
}
STREAM_JOINS = {"join.stream": "join", "join.stream_left": "left_join", "join.stream_outer": "outer_join"}
TABLE_JOINS = {"join.tables": "join", "join.tables_left": "left_join", "join.tables_outer": "outer_join"}


def topology_of(text: str) -> Callable[[Any], Topology]:
    """Returns the function of a configuration that builds a drawn topology, from the text that its recording has."""
    program = json.loads(text)

    def build(config: Any) -> Topology:
        whole = {"application.id": "composed", **config} if isinstance(config, Mapping) else config
        builder = StreamsBuilder(whole if program["topology_config"] else None)
        made: list[Any] = []
        for statement in program["nodes"]:
            made.append(_Statement(builder, made, statement).made())
        return builder.build(config)

    return build


def _number(count: int | None) -> str | None:
    return None if count is None else f"n{count}"


class _Statement:
    """One statement, with what those before it made."""

    def __init__(self, builder: StreamsBuilder, made: list[Any], statement: Statement) -> None:
        self._builder = builder
        self._id = len(made)
        self._at = statement
        self._op: str = statement["op"]
        self._of = [made[i] for i in statement.get("of", ())]
        self._name: str | None = statement.get("named")
        quiet = statement.get("window", {}).get("type") == "session" or statement.get("final", False)
        fails = statement.get("fails", False)
        self._f = Functions(self._id, statement.get("fn"), reports=not quiet, fails=fails)

    def made(self) -> Any:
        makers: Mapping[str, Callable[[], Any]] = {
            "source": self._source,
            "stream": self._of_stream,
            "join": self._join,
            "group": self._aggregated,
            "table": self._of_table,
            "regrouped": self._regrouped,
            "windowed": self._of_windowed,
        }
        return makers[self._op.partition(".")[0]]()

    def _stored(self, values: Any = S) -> Materialized[Any, Any] | None:
        how = self._at.get("mat")
        if how is None:
            return None
        kind, name = how.get("kind", "plain"), how.get("name")
        options: dict[str, Any] = {"name": name} if kind == "plain" else {"supplier": STORES[kind](name)}
        if "keeps" in how:
            options = {"supplier": self._window_supplier(name, how["keeps"])}
        options |= {option: how[option] for option in ("caching", "logging", "retention") if option in how}
        return Materialized(key_serde=S, value_serde=values, **options)

    def _window_supplier(self, name: str, keeps_ms: int) -> Any:
        windows = self._at["window"]
        if windows["type"] == "session":
            return Stores.in_memory_session_store(name, keeps_ms)
        return Stores.in_memory_window_store(name, keeps_ms, windows["size"])

    # ------------------------------------------------------------------ sources and streams

    def _source(self) -> Any:
        consumed: Consumed[Any, Any] | None = None if self._name is None else Consumed.as_(self._name)
        if self._op == "source.stream":
            return self._builder.stream(self._at["topics"], consumed)
        make = self._builder.table if self._op == "source.table" else self._builder.global_table
        return make(self._at["topic"], consumed, materialized=self._stored())

    def _of_stream(self) -> Any:
        (first, *others), f, name, op = self._of, self._f, self._name, self._op.partition(".")[2]
        simple: Mapping[str, tuple[str, Any]] = {
            "values": ("map_values", f.value),
            "values_with_key": ("map_values_with_key", f.value_of_key),
            "flat_values": ("flat_map_values", f.values),
            "filter": ("filter", f.test),
            "filter_not": ("filter_not", f.test),
            "peek": ("peek", f.test),
            "key": ("select_key", f.key),
            "map": ("map", lambda k, v: (f.key(k, v), v)),
            "flat_map": ("flat_map", lambda k, v: [(k, v), (f.key(k, v), v)]),
            "merge": ("merge", others[0] if others else None),
            "process_values": ("process_values", lambda: _Marks(f)),
        }
        if op in simple:
            method, argument = simple[op]
            return getattr(first, method)(argument, name=name)
        return getattr(self, f"_{op}")(first)

    def _pick(self, branches: Mapping[str, Any]) -> Any:
        return branches[sorted(branches)[self._at["which"]]]

    def _split(self, stream: Any) -> Any:
        named = Branched.as_(self._at["branch"]) if "branch" in self._at else None
        return stream.split(name=self._name).branch(self._f.test, named).default_branch()

    def _repartition(self, stream: Any) -> Any:
        partitions = self._at.get("partitions")
        return stream.repartition(
            Repartitioned(name=self._name, key_serde=S, value_serde=S, number_of_partitions=partitions)
        )

    def _shift(self, stream: Any) -> Any:
        return stream.process(lambda: _Shifts(self._at["by"]), name=self._name)

    def _to_table(self, stream: Any) -> Any:
        return stream.to_table(name=self._name, materialized=self._stored())

    def _process(self, stream: Any) -> Any:
        store = f"kept-{self._id}"
        self._builder.add_state_store(Stores.key_value_store_builder(Stores.persistent_key_value_store(store), S, S))
        return stream.process(lambda: _Keeps(self._f, store), store, name=self._name)

    def _group_by_key(self, stream: Any) -> Any:
        return stream.group_by_key(None if self._name is None else Grouped.as_(self._name))

    def _group_by(self, stream: Any) -> Any:
        return stream.group_by(self._f.key, None if self._name is None else Grouped.as_(self._name))

    def _to(self, stream: Any) -> Any:
        return stream.to(self._at["topic"])

    # ------------------------------------------------------------------ joins

    def _join(self) -> Any:
        left, right = self._of
        at, f, name = self._at, self._f, self._name
        if self._op in STREAM_JOINS:
            windows = JoinWindows.of_time_difference_and_grace(at["size"], at["grace"])
            windows = windows.before(at["before"]).after(at["after"])
            how: Any = None
            if name is not None or "store" in at:
                how = StreamJoined(
                    name=name, store_name=at.get("store"), key_serde=S, value_serde=S, other_value_serde=S
                )
            return getattr(left, STREAM_JOINS[self._op])(right, f.joined, windows=windows, joined=how)
        if self._op in TABLE_JOINS:
            join = getattr(left, TABLE_JOINS[self._op])
            return join(right, f.joined, name=name, materialized=self._stored())
        if self._op.startswith("join.foreign"):
            keys = Functions(self._id, at["key"], reports=False)
            join = left.foreign_key_left_join if self._op.endswith("left") else left.foreign_key_join
            table = None if name is None else TableJoined.as_(name)
            return join(right, lambda v: keys.key(None, v), f.joined, joined=table, materialized=self._stored())
        join = left.left_join if self._op.endswith("left") else left.join
        if self._op.startswith("join.global"):
            return join(right, f.joined, key_selector=Functions(self._id, at["key"], reports=False).key, name=name)
        how = None
        if name is not None or "grace" in at:
            how = Joined(name=name, key_serde=S, value_serde=S, other_value_serde=S, grace=at.get("grace"))
        return join(right, f.joined, joined=how)

    # ------------------------------------------------------------------ aggregations of streams

    def _windows(self) -> Any:
        how = self._at["window"]
        if how["type"] == "unlimited":
            return UnlimitedWindows.of().start_on(self._at["start"])
        size, grace = how["size"], how["grace"]
        if how["type"] == "session":
            return SessionWindows.of_inactivity_gap_and_grace(size, grace)
        if how["type"] == "sliding":
            return SlidingWindows.of_time_difference_and_grace(size, grace)
        windows = TimeWindows.of_size_and_grace(size, grace)
        return windows.advance_by(how["advance"]) if "advance" in how else windows

    def _aggregated(self) -> Any:
        f, window = self._f, self._at.get("window")
        add = lambda key, value, so_far: f.added(so_far, value)  # noqa: E731
        merger = (lambda key, one, other: f.merged(one, other),) if window and window["type"] == "session" else ()
        if self._op == "group.cogroup":
            first, *others = self._of
            cogrouped = first.cogroup(add)
            for other in others:
                cogrouped = cogrouped.cogroup(other, add)
            groups = cogrouped if window is None else cogrouped.windowed_by(self._windows())
            return groups.aggregate(str, *merger, name=self._name, materialized=self._stored())
        groups = self._of[0] if window is None else self._of[0].windowed_by(self._windows())
        if self._at.get("final"):
            groups = groups.emit_strategy(EmitStrategy.on_window_close())
        if self._op == "group.count":
            return groups.count(name=self._name, materialized=self._stored(L)).map_values(_number)
        if self._op == "group.reduce":
            return groups.reduce(f.added, name=self._name, materialized=self._stored())
        return groups.aggregate(str, add, *merger, name=self._name, materialized=self._stored())

    # ------------------------------------------------------------------ tables

    def _suppressed(self) -> Suppressed:
        most = self._at.get("records", 0)
        buffer = BufferConfig.max_records(most).emit_early_when_full() if most else BufferConfig.unbounded()
        return self._with_name(Suppressed.until_time_limit(self._at["wait"], buffer))

    def _with_name(self, how: Suppressed) -> Suppressed:
        return how if self._name is None else how.with_name(self._name)

    def _of_table(self) -> Any:
        table, f, name, op = self._of[0], self._f, self._name, self._op.partition(".")[2]
        simple: Mapping[str, tuple[str, Any]] = {
            "filter": ("filter", f.test),
            "filter_not": ("filter_not", f.test),
            "values": ("map_values", f.value),
            "values_with_key": ("map_values_with_key", f.value_of_key),
            "transform": ("transform_values", lambda: _Transforms(f)),
        }
        if op in simple:
            method, argument = simple[op]
            return getattr(table, method)(argument, name=name, materialized=self._stored())
        if op == "suppress":
            return table.suppress(self._suppressed())
        if op == "group_by":
            grouped: Grouped[Any, Any] | None = None if name is None else Grouped.as_(name)
            return table.group_by(lambda k, v: (f.key(k, v), v), grouped)
        return table.to_stream(f.key if op == "to_stream_by" else None, name=name)

    def _regrouped(self) -> Any:
        groups, f, name = self._of[0], self._f, self._name
        if self._op == "regrouped.count":
            return groups.count(name=name, materialized=self._stored(L)).map_values(_number)
        if self._op == "regrouped.reduce":
            return groups.reduce(f.added, f.taken, name=name, materialized=self._stored())
        return groups.aggregate(
            str,
            lambda key, value, so_far: f.added(so_far, value),
            lambda key, value, so_far: f.taken(so_far, value),
            name=name,
            materialized=self._stored(),
        )

    def _of_windowed(self) -> Any:
        table, f, name, op = self._of[0], self._f, self._name, self._op.partition(".")[2]
        if op == "filter":
            return table.filter(lambda w, v: f.test(w.key, v), name=name)
        if op == "values":
            return table.map_values(f.value, name=name)
        if op == "suppress":
            return table.suppress(self._suppressed())
        if op == "close":
            return table.suppress(self._with_name(Suppressed.until_window_closes(BufferConfig.unbounded())))
        if op == "to_stream":
            return table.to_stream(lambda w, v: f"{w.key}@{w.window.start}-{w.window.end}", name=name)
        grouped: Grouped[Any, Any] = Grouped(name=name, key_serde=S, value_serde=S)
        return table.group_by(lambda w, v: (w.key, f.value(v)), grouped)


class _Keeps(Processor[Any, Any, Any, Any]):
    """Forwards what came before for a key, with its value."""

    def __init__(self, functions: Functions, store: str) -> None:
        self._functions = functions
        self._store = store

    def process(self, record: Record[Any, Any]) -> None:
        if record.key is None:
            self.context.forward(record)
            return
        store = self.context.get_state_store(self._store)
        before = store.get(record.key)
        store.put(record.key, record.value)
        self.context.forward(record.with_value(self._functions.joined(before, record.value)))


class _Shifts(Processor[Any, Any, Any, Any]):
    """Moves the time of records, and tells so in a header."""

    def __init__(self, by_ms: int) -> None:
        self._by_ms = by_ms

    def process(self, record: Record[Any, Any]) -> None:
        headers = [*record.headers, ("by", str(self._by_ms).encode())]
        time = max(0, record.timestamp + self._by_ms)
        self.context.forward(record.with_headers(headers).with_timestamp(time))


class _Marks(FixedKeyProcessor[Any, Any, Any]):
    def __init__(self, functions: Functions) -> None:
        self._functions = functions

    def process(self, record: FixedKeyRecord[Any, Any]) -> None:
        self.context.forward(record.with_value(self._functions.value(record.value)))


class _Transforms(ValueTransformerWithKey[Any, Any, Any]):
    def __init__(self, functions: Functions) -> None:
        self._functions = functions

    def transform(self, key: Any, value: Any) -> Any:
        return self._functions.value_of_key(key, value)
