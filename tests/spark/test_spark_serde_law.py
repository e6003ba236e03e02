"""What serdes of the library wrote comes back from DataFrames as it was, or is refused (semantics 189)."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.struct_pb2 import Struct
from hypothesis import given, settings
from hypothesis import strategies as st

from processor_api.errors import SerializationError
from processor_api.record import Headers
from processor_api.serde import Serde
from registry_support.drawn import Case, cases, good_records
from registry_support.drawn import serde as registry_serde
from serde_support.values import VALUES, Sale, law_serdes, written
from streams import Serdes, Window, Windowed, WindowedSerdes, list_serde, serde_of
from streams.spark.rows.columns import column_of
from streams.spark.rows.shipping import packed, unpacked
from streams.spark.rows.values import python_values, writer_of, written_with_headers
from streams.spark.rows.values import written as written_again

LAW = law_serdes() | {
    "window of string": WindowedSerdes.time_windowed_serde_from("string", 10),
    "session of string": WindowedSerdes.session_windowed_serde_from("string"),
    "window of a dataclass": WindowedSerdes.time_windowed_serde_from(Sale, 10),
    "list of uuid": list_serde("uuid"),
    "list of double": list_serde("double"),
    "list of bytes": list_serde("bytes"),
    "list of lists": list_serde(list_serde("long")),
    "list of a dataclass": list_serde(Sale),
}
MORE = [
    [math.nan, -math.inf, 1.5, None], ["a", None, "null"], [b"a"], [uuid.UUID(int=7), None], [[1], None, []],
    [Sale("a", tags={"b": 1}), None],
    *(Windowed(key, Window(0, 10)) for key in ("k", "", '{"a":1}', {"a": [1]}, Sale("a"))),
    Windowed("k", Window(2**40, 2**40 + 10)),
]  # fmt: skip


def place(number: int) -> dict[str, Any]:
    return {"topic": "t", "partition": 0, "offset": number}


def through_a_column(serde: Serde[Any]) -> Callable[[list[bytes | None]], list[bytes | None]]:
    """Returns what is written of what is read, as the tasks of Spark do it."""
    column = unpacked(packed(column_of("value", serde)))
    write = writer_of("value", column.reader)

    def again(data: list[bytes | None]) -> list[bytes | None]:
        return written_again(write, python_values(column.array(data, place)), "value", serde, "t")

    return again


@pytest.mark.parametrize("name", LAW)
def test_what_was_read_is_written_with_the_same_bytes(name: str) -> None:
    """JSON by its name was written as the text of its text, keys in windows as the bytes of their JSON, and lists and
    UUIDs not at all."""
    serde, again = LAW[name], through_a_column(LAW[name])
    data = [each for value in [*VALUES, *MORE] if value is not None and (each := written(serde, value)) is not None]
    shown = [None, *data]
    assert list(map(sets_in_order, again(shown))) == list(map(sets_in_order, shown))
    assert data or name in NOT_WRITTEN


def sets_in_order(data: bytes | None) -> bytes | None:
    """Puts the names of a `Mixed` value in order: they are a set, which has that of its table."""
    if data is None or not data.startswith(b'{"amount":'):
        return data
    found = json.loads(data)
    return json.dumps({**found, "names": sorted(found["names"])}).encode()


NOT_WRITTEN = {f"{name} as {part}" for name in ("void", "Masked", "Strict") for part in ("key", "value")}
"""Serdes that write none of the values."""


documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
DRAWN: dict[str, Any] = {
    "string as value": st.text(),
    "long as value": st.integers(-(2**63), 2**63 - 1),
    "double as value": st.floats(),
    "float as value": st.floats(width=32),
    "bytes as value": st.binary(),
    "uuid as value": st.uuids(),
    "json as value": documents.filter(lambda value: value is not None),
    "json as key": documents.filter(lambda value: value is not None),
    "list of string as value": st.lists(st.none() | st.text()),
    "list of double": st.lists(st.none() | st.just(math.nan) | st.floats(allow_nan=False)),
    "list of lists": st.lists(st.none() | st.lists(st.none() | st.integers(-(2**63), 2**63 - 1))),
    "list of json as value": st.lists(documents),
    "window of string": st.builds(lambda key, at: Windowed(key, Window(at, at + 10)), st.text(), st.integers(0, 2**50)),
    "session as key": st.builds(
        lambda key, at, long: Windowed(key, Window(at, at + long)), documents, st.integers(0, 2**50), st.integers(0, 99)
    ),
    "Sale as value": st.builds(Sale, st.text(), st.integers(), st.dictionaries(st.text(), st.integers())),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWN)
def test_drawn_values_come_back(name: str) -> None:
    again = through_a_column(LAW[name])

    @settings(max_examples=40)
    @given(st.lists(DRAWN[name], min_size=1, max_size=4))
    def law(values: list[Any]) -> None:
        data = [LAW[name].serialize(value) for value in values]
        assert again(data) == data

    law()


@settings(max_examples=100)
@given(cases())
def test_values_with_schemas_in_a_registry_come_back(case: Case) -> None:
    """Messages of Protobuf were shown as the insides of their class, and could not be written. One with a number that
    JSON has none for is refused."""
    for part, (kind, is_key) in enumerate(((case.key, True), (case.value, False))):
        bound = registry_serde(kind, "prefix").bind("spark", is_key=is_key)
        listed, again = list_serde(bound), through_a_column(bound)
        for record in good_records(case):
            data = bound.serialize(record[part])
            if kind[1] is Struct and not all(map(math.isfinite, numbers_in(record[part]))):
                with pytest.raises(SerializationError, match="protobuf Struct"):  # when it is written again
                    again([data])
            else:
                (found,) = again([data])
                # The items of a set have no order, and so none in JSON.
                assert found == data or bound.deserialize(found) == bound.deserialize(data)
                items = listed.serialize([record[part], None])
                (found,) = through_a_column(listed)([items])
                assert found == items or listed.deserialize(found) == listed.deserialize(items)


def numbers_in(message: Struct) -> list[float]:
    return [one.number_value for one in message.fields.values()]


def test_what_json_has_no_numbers_for_are_the_texts_that_spark_reads() -> None:
    """They were null, and were written again as that."""
    serde = list_serde("double")
    (text,) = column_of("value", serde).array([serde.serialize([math.nan, math.inf, -math.inf])], place).to_pylist()
    assert json.loads(text) == ["NaN", "Infinity", "-Infinity"]


@pytest.mark.parametrize(
    ("serde", "value", "error"),
    [
        (list_serde("long"), "{}", "a list is expected"),
        (list_serde("long"), "[1", "it is not JSON"),
        (list_serde("long"), '["1"]', "an integer is expected"),
        (LAW["window of string"], "[]", 'an object {"key": ..., "start": TIME'),
        (LAW["window of string"], '{"key": "a"}', "an object"),
        (LAW["window of string"], '{"key": "a", "window": {"start": 0, "end": 5}}', "00.010Z, not at"),
        (Serdes.UUID, "7", "UUID"),
        (Serdes.JSON, "tea", "cannot be written by the serde 'json'"),
    ],
)  # fmt: skip
def test_text_that_is_not_of_the_serde_is_refused(serde: Serde[Any], value: str, error: str) -> None:
    with pytest.raises(SerializationError, match=r"the value .* cannot be written by the serde") as raised:
        written_again(writer_of("value", serde), [value], "value", serde, "t")
    assert error in str(raised.value)


def test_windows_and_lists_of_serdes_that_take_headers_come_back_too() -> None:
    def write(text: str, headers: Headers) -> bytes:
        headers.add("shift", b"1")
        return bytes(one ^ 1 for one in text.encode())

    def read(data: bytes, headers: Headers) -> str:
        assert headers.last("shift") == b"1"
        return bytes(one ^ 1 for one in data).decode()

    shifted = serde_of(write, read, name="shifted", with_headers=True)
    for serde, value in (
        (list_serde(shifted), ["tea", None]),
        (WindowedSerdes.time_windowed_serde_from(shifted, 10), Windowed("tea", Window(0, 10))),
    ):
        data = serde.with_headers(Headers()).serialize(value)
        (text,) = column_of("value", serde).array([data], place, [[("shift", b"1")]]).to_pylist()
        headers = Headers()
        assert written_with_headers("value", serde, [text], [headers], "value", "t") == [data]
        assert headers.last("shift") == b"1"
