"""Columns of keys and values: types by serdes, and JSON for objects, the same with and without orjson."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from processor_api.errors import DeserializationError
from processor_api.serde import Serdes
from processor_api.stores.windowed import Window, Windowed
from state.formats.windowed_serdes import TimeWindowedSerde
from streams.serdes import json_serde, list_serde, pydantic_serde, serde_of
from streams.spark import SerdeNotPicklable, SparkBridgeError
from streams.spark.rows.columns import column_of, headers_array, time_array
from streams.spark.rows.shipping import packed, unpacked


def place(number: int) -> Mapping[str, Any]:
    return {"topic": "t", "partition": 1, "offset": 100 + number}


@pytest.mark.parametrize(
    ("serde", "values", "kind"),
    [
        (Serdes.STRING, ["a", None, "", "é"], "string"),
        (Serdes.LONG, [1, None, -(1 << 63)], "long"),
        (Serdes.SHORT, [None, -3], "short"),
        (Serdes.DOUBLE, [0.1, None, float("inf")], "double"),
        (Serdes.BOOLEAN, [True, None, False], "boolean"),
        (Serdes.BYTES, [b"", None, b"\xff"], "binary"),
    ],
)
def test_simple_values_come_back(serde: Any, values: list[Any], kind: str) -> None:
    column = column_of("value", serde)
    data = [None if value is None else serde.serialize(value) for value in values]
    assert column.spark_type.replace("bigint", "long") == kind
    for one in (column, unpacked(packed(column))):
        assert one.array(data, place).to_pylist() == values
        assert one.array([], place).to_pylist() == []


def test_objects_are_json() -> None:
    from spark_support.models import Order

    windowed = TimeWindowedSerde(Serdes.STRING, 1000)
    samples = [
        (json_serde(), {"b": [1, None], "a": "é"}, {"b": [1, None], "a": "é"}),
        (pydantic_serde(Order), Order(id=1), {"id": 1, "note": None}),
        (list_serde(Serdes.LONG), [1, 2], [1, 2]),
        (windowed, Windowed("k", Window(0, 1000)), {"key": "k", "window": {"start": 0, "end": 1000}}),
    ]
    for serde, value, expected in samples:
        (text,) = column_of("value", serde).array([serde.serialize(value)], place).to_pylist()
        assert json.loads(text) == expected


def test_what_json_cannot_say_is_said_as_near_as_it_can() -> None:
    odd = {1: float("nan"), "b": b"\x01", "big": 1 << 70}
    column = column_of("value", serde_of(lambda value: b"", lambda data: odd))
    (text,) = column.array([b""], place).to_pylist()
    assert json.loads(text) == {"1": "NaN", "b": {"base64": "AQ=="}, "big": 1 << 70}


def test_bytes_that_are_no_text_are_refused_with_their_place() -> None:
    """As an application refuses them; they became replacement characters."""
    with pytest.raises(DeserializationError, match="are not UTF-8, from index 1 on; give the right key serde"):
        column_of("key", Serdes.STRING).array([b"a\xff", None], place)


def test_the_record_that_cannot_be_read_is_named() -> None:
    with pytest.raises(DeserializationError, match=r"the value b'12' cannot be read by the serde 'long'") as failure:
        column_of("value", Serdes.LONG).array([bytes(8), None, b"12"], place)
    assert (failure.value.topic, failure.value.partition, failure.value.offset) == ("t", 1, 102)


def test_times_out_of_sparks_range_are_named() -> None:
    assert time_array([0, -1, None], place).to_pylist()[2] is None
    with pytest.raises(SparkBridgeError, match="9300000000000000 ms is out of the range") as failure:
        time_array([0, 9_300_000_000_000_000], place)
    assert failure.value.offset == 101


def test_headers_keep_names_twice_and_nulls() -> None:
    given: list[Any] = [None, [("a", b"1"), ("a", None)], []]
    assert headers_array(given).to_pylist() == [
        [],
        [{"key": "a", "value": b"1"}, {"key": "a", "value": None}],
        [],
    ]


def test_a_serde_that_holds_a_lock_is_refused() -> None:
    import threading

    lock = threading.Lock()
    with pytest.raises(SerdeNotPicklable, match="cannot be sent to the executors"):
        packed(column_of("value", serde_of(lambda value: b"%d" % lock.locked(), bytes)))
