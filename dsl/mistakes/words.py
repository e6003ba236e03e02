"""Names of methods in Java, other libraries and pandas, with what stands for them here."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import NoReturn

WORDS: Mapping[str, str] = {
    "agent": "a chain of calls, such as stream(...).map_values(f).to(topic)",
    "agg": "aggregate(initializer, aggregator)",
    "apply": "map_values(f), or map_values_with_key(f)",
    "assign": "map_values(f)",
    "astype": "map_values(f)",
    "concat": "merge(other)",
    "collect": "aggregate(list, lambda key, value, items: [*items, value])",
    "drop": "map_values(f), or filter_not(predicate) for whole records",
    "drop_duplicates": "deduplicate(within=...)",
    "dropna": "filter(lambda key, value: value is not None)",
    "echo": "print(Printed.to_sys_out())",
    "events": "a processor, by process(supplier)",
    "expand": "flat_map_values(f)",
    "fillna": "map_values(f)",
    "final": "emit_strategy(EmitStrategy.on_window_close()) before the aggregation",
    "for_each": "foreach(action)",
    "from_topic": "stream(topic)",
    "groupby": "group_by(lambda key, value: ...)",
    "head": "print(Printed.to_sys_out()), or peek(action)",
    "hopping_window": "group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(size).advance_by(advance))",
    "hopping": "windowed_by(TimeWindows.of_size_with_no_grace(size).advance_by(advance))",
    "inspect": "peek(action)",
    "items": "map(f), filter(f) and other methods whose functions take the key and the value",
    "join_asof": "join(table, joiner)",
    "join_interval": "join(other, joiner, windows=JoinWindows.of_time_difference_with_no_grace(...))",
    "join_lookup": "join(global_table, joiner, key_selector=...)",
    "key_by": "select_key(mapper), or group_by(mapper)",
    "key_on": "select_key(mapper), or group_by(mapper)",
    "map_partitions": "map_values_batch(function)",
    "max": "reduce(max)",
    "mean": "aggregate(...), with the sum and the count in the aggregate",
    "min": "reduce(min)",
    "output": "to(topic)",
    "pipe": "map_values(f)",
    "produce": "to(topic)",
    "publish": "to(topic)",
    "read": "stream(topic)",
    "redistribute": "repartition()",
    "rekey": "select_key(mapper)",
    "repartition_by": "select_key(mapper).repartition()",
    "select": "map_values(f)",
    "session_window": "group_by_key().windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(gap))",
    "set_timestamp": "Consumed(timestamp_extractor=f), or a processor that forwards record.with_timestamp(...)",
    "sink": "to(topic)",
    "sliding_window": "group_by_key().windowed_by(SlidingWindows.of_time_difference_with_no_grace(difference))",
    "subscribe": "stream(topics)",
    "sum": "reduce(lambda one, other: one + other)",
    "through": "repartition(), or to(topic) and then stream(topic) of the builder",
    "to_topic": "to(topic)",
    "topic": "stream(topic, value_serde=...)",
    "transform": "process(supplier), or transform_values(supplier) of a table",
    "transform_values": "process_values(supplier)",
    "tumbling": "windowed_by(TimeWindows.of_size_with_no_grace(size))",
    "tumbling_window": "group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(size))",
    "union": "merge(other)",
    "update": "peek(action) to look at values, or map_values(f) to change them",
    "where": "filter(predicate)",
    "window": "windowed_by(windows)",
    "with_columns": "map_values(f)",
    "write_to": "to(topic)",
}
"""Each name in snake case."""

_UPPER = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_METHODS: dict[str, frozenset[str]] = {}
_REACHED: Mapping[str, tuple[tuple[str, str], ...]] = {
    "KTable": (("KStream", "to_stream()"),),
    "KStream": (("KGroupedStream", "group_by_key()"), ("BranchedKStream", "split()"), ("KTable", "to_table()")),
    "StreamsBuilder": (("KStream", "stream(topic)"),),
    "BranchedKStream": (),
    "GlobalKTable": (),
}
_REACHED_FROM_GROUPS = (("KTable", "count()"), ("KStream", "count().to_stream()"))
"""The classes whose methods can be reached by a call, with that call."""


def answer_other_words(*kinds: type) -> None:
    """Lets objects of these classes name the right method where they are asked for one that they do not have."""
    for kind in kinds:
        _METHODS[kind.__name__] = frozenset(name for name in dir(kind) if not name.startswith("_"))
        kind.__getattr__ = _unknown  # type: ignore[attr-defined]


def _unknown(self: object, name: str) -> NoReturn:
    text = f"{type(self).__name__!r} object has no attribute {name!r}{_instead(type(self), name)}"
    raise AttributeError(text, name=name, obj=self)


def _instead(kind: type, name: str) -> str:
    """Returns the end of the sentence about a name that a class does not have: what stands for it."""
    if name.startswith("_"):
        return ""
    has = [one for one in dir(kind) if not one.startswith("_")]
    snake = _UPPER.sub("_", name).lower()
    if snake in has:
        return f": it is {snake} here"
    if snake in WORDS:
        return f": use {WORDS[snake]}"
    for of, call in _REACHED.get(kind.__name__, _REACHED_FROM_GROUPS if _is_group(kind) else ()):
        if snake in _METHODS.get(of, ()):
            return f": call {call}.{snake}(...)"
    near = difflib.get_close_matches(snake, has, n=1)
    return f": did you mean {near[0]}?" if near else f": it has {', '.join(has)}"


def _is_group(kind: type) -> bool:
    return any(part in kind.__name__ for part in ("Grouped", "Windowed", "Cogrouped"))
