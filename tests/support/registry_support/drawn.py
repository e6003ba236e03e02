"""Drawn records with serdes of a registry: which of them can be written, and whether what is read is equal."""

from __future__ import annotations

from typing import Any, NamedTuple

from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import strategies as st

from serde_support.registry_values import AS_KEYS, PAIRS, TYPES, VALUES, anything
from serde_support.values import written
from streams import Avro, Protobuf, SchemaRegistry, Windowed
from streams.serdes.model_forms import difference


@st.composite
def messages(draw: Any) -> Any:
    message = Struct()
    message.update(draw(st.dictionaries(st.text(max_size=3), st.none() | st.booleans() | st.floats(), max_size=3)))
    return message


KINDS: dict[tuple[Any, Any], Any] = {(make, kind): VALUES[kind] for make, kind in PAIRS}
KINDS[Protobuf, Struct] = messages()
moments = st.builds(Timestamp, seconds=st.integers(0, 1 << 33), nanos=st.integers(0, 999_999_999))
KEY_KINDS: dict[tuple[Any, Any], Any] = {
    **{(make, kind): VALUES[kind] for make, kinds in AS_KEYS.items() for kind in kinds},
    (Protobuf, Timestamp): moments,
}


class Case(NamedTuple):
    """Records, and the serdes of their keys and values."""

    key: tuple[Any, Any]
    value: tuple[Any, Any]
    records: list[tuple[Any, Any]]


@st.composite
def cases(draw: Any) -> Case:
    """Draws records of one kind of keys and one of values; a part of one in ten may be of any type."""
    key = draw(st.sampled_from(sorted(KEY_KINDS, key=str)))
    value = draw(st.sampled_from(sorted(KINDS, key=str)))

    def one_of(own: Any) -> Any:
        return draw(own if draw(st.integers(0, 9)) else anything)

    records = [(one_of(KEY_KINDS[key]), one_of(KINDS[value])) for _ in range(draw(st.integers(1, 8)))]
    return Case(key, value, records)


def serde(kind: tuple[Any, Any], ids: str) -> Any:
    make, model = kind
    options = {}
    if make is Avro and model in TYPES and TYPES[model] is not model:
        options["schema"] = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    return make(model, registry=SchemaRegistry("mock://house", schema_ids=ids), **options)


def good_records(case: Case) -> list[tuple[Any, Any]]:
    """Returns the records of a case that its serdes write."""
    key = serde(case.key, "prefix").bind("reference", is_key=True)
    value = serde(case.value, "prefix").bind("reference", is_key=False)
    return [record for record in case.records if _is_written(key, record[0]) and _is_written(value, record[1])]


def _is_written(bound: Any, part: Any) -> bool:
    return part is not None and written(bound, part) is not None


def same(found: Any, given: Any) -> bool:
    if isinstance(given, Windowed):
        return bool(found.window == given.window) and same(found.key, given.key)
    if isinstance(given, Message):
        return type(found) is type(given) and found.SerializeToString(True) == given.SerializeToString(True)
    if isinstance(given, list) and isinstance(found, list):
        return len(found) == len(given) and all(map(same, found, given))
    return difference(found, given) is None
