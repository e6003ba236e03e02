"""The names that other libraries give to arguments, and examples of arguments that calls often lack."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

_OTHER_NAMES: Mapping[str, tuple[str, ...]] = {
    "key_serde": ("key_type", "key_format", "key_deserializer", "key_serializer", "key_schema", "key_decoder"),
    "value_serde": (
        "value_type", "value_format", "value_deserializer", "value_serializer", "value_schema", "value_decoder",
        "serde", "schema", "deserializer", "serializer", "format",
    ),
    "materialized": ("store", "store_name", "state_store", "table_name", "queryable_store_name", "table"),
    "name": ("named", "node", "node_name", "as_", "step_id"),
    "windows": ("window", "within", "join_windows", "window_size"),
    "joined": ("join_options", "stream_joined"),
    "mapper": ("func", "function", "f", "fn", "map_func"),
    "predicate": ("func", "function", "f", "fn", "condition", "filter_func"),
    "aggregator": ("reducer", "func", "function", "folder", "fold"),
    "initializer": ("initial", "initial_value", "init", "default", "start"),
    "reducer": ("func", "function", "aggregator", "f"),
    "joiner": ("on_match", "func", "function", "value_joiner"),
    "size": ("duration", "duration_ms", "size_ms", "length", "step"),
    "grace": ("grace_ms", "allowed_lateness", "wait_for"),
    "topics": ("topic", "topic_name", "input_topic", "names"),
    "topic": ("topics", "topic_name", "output_topic", "input_topic"),
    "number_of_partitions": ("partitions", "num_partitions"),
    "offset_reset": ("auto_offset_reset", "reset"),
    "key_selector": ("on", "key", "key_mapper"),
    "config": ("settings", "properties", "props", "configuration"),
}  # fmt: skip
"""Names that other libraries, and other methods here, give to an argument."""

_EXAMPLES: Mapping[str, str] = {
    "buffer": "BufferConfig.unbounded()",
    "windows": "JoinWindows.of_time_difference_with_no_grace(...)",
    "initializer": "int",
    "within": "timedelta(minutes=10)",
    "size": "timedelta(minutes=1)",
    "grace": "timedelta(seconds=10)",
    "key_selector": "lambda key, value: value[\"id\"]",
}  # fmt: skip


def meant_name(name: str, names: Sequence[str]) -> str | None:
    """Returns the argument that is meant by a name that a call does not take; ``None`` if none is like it."""
    other = [one for one in names if name in _OTHER_NAMES.get(one, ())]
    near = other or difflib.get_close_matches(name, names, n=1)
    return near[0] if near else None


def examples_of(names: Sequence[str]) -> str:
    """Returns arguments as a call gives them: ``buffer=BufferConfig.unbounded()``."""
    return ", ".join(f"{name}={_EXAMPLES.get(name, '...')}" for name in names)
