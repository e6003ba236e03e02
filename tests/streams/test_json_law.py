"""What a serde shows of a value as JSON stands for that value again, with the same bytes: for every kind of serde."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import math
import pickle
import uuid
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from dsl.change import ChangeSerde
from dsl.joins.stores import SideValueSerde, TimedSide, TimedSideKeySerde
from dsl.processors.joins.foreign_key import AnswerSerde
from dsl.processors.record_id_serde import RecordIdSerde
from processor_api.serde import CurrentHeaders, Headers, Serde, Serdes
from processor_api.stores.windowed import Window, Windowed
from processor_api.user_code.migrating_serde import MigratingSerde
from serde_support.values import VALUES, Line, Order, Sale, law_serdes, written
from streams import WindowedSerdes, list_serde, serde_of
from streams.serdes import json_serde, pydantic_serde
from streams.serdes.values import fitted, json_reader


def shown_again(serde: Serde[Any], data: bytes) -> bytes | None:
    """Returns the bytes of what a person gives who has seen some, as a line of text that was printed and typed."""
    return fitted(serde, json.loads(json.dumps(json_reader(serde)(data))), is_text=False).data


# ------------------------------------------------------------------------------ serdes of the library

LAW = law_serdes()
NO_JSON = {"json by default as value", "json by default as key"}
"""A serde with forms of the user's own, which come back as what JSON has."""


def in_order(data: bytes | None) -> Any:
    """Returns bytes with the items of sets in order, which have that of their table."""
    if data is None or b'"names":' not in data:
        return data
    found = json.loads(data)
    return {**found, "names": sorted(found["names"])}


@pytest.mark.parametrize("name", LAW)
def test_what_is_shown_has_the_same_bytes(name: str) -> None:
    serde, found = LAW[name], 0
    for value in VALUES:
        data = None if value is None else written(serde, value)
        if data in (None, b"null"):  # as JSON null is no value
            continue
        found += 1
        again = shown_again(serde, data)
        assert in_order(again) == in_order(data), value
    assert found or name.partition(" as ")[0] in ("void", "Masked", "Strict", "window", "session", "list of string")


# ------------------------------------------------------------------------------ drawn values


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Inner(BaseModel):
    model_config = ConfigDict(frozen=True)
    raw: bytes
    at_time: datetime.datetime = Field(alias="atTime")


class Coded(BaseModel):
    """Bytes in base64, as there is no other text of all of them."""

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    raw: bytes


class Many(BaseModel):
    inner: Inner | None
    lasts: datetime.timedelta
    price: Decimal
    colours: set[Colour]
    id: uuid.UUID
    either: int | str | None
    by_day: dict[str, datetime.date]
    large: int
    twice: list[Coded]


@dataclasses.dataclass
class Blob:
    data: bytes
    lasts: datetime.timedelta
    day: datetime.date | None = None
    inner: Blob | None = None


texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=5)
times = st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2300, 1, 1)).map(  # noqa: DTZ001 - it is set
    lambda time: time.replace(tzinfo=datetime.UTC)
)
longs = st.integers(-(1 << 63), (1 << 63) - 1)
documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(texts | st.sampled_from(["base64", "key", "start", "window"]), inner, max_size=3)
    ),
    max_leaves=6,
)
coded = st.binary().map(lambda data: Coded.model_construct(raw=data))
many = st.builds(
    Many,
    inner=st.none() | st.builds(lambda raw, at: Inner(raw=raw.encode(), atTime=at), texts, times),
    lasts=st.timedeltas(),
    price=st.decimals(allow_nan=False, allow_infinity=False),
    colours=st.sets(st.sampled_from(Colour), max_size=1),
    id=st.uuids(),
    either=st.none() | st.integers() | texts,
    by_day=st.dictionaries(texts, st.dates(), max_size=2),
    large=st.integers(),
    twice=st.lists(coded, max_size=2),
)
blobs = st.builds(Blob, texts.map(str.encode), st.timedeltas(), st.none() | st.dates())
STARTS = st.integers(0, 2**50)


def in_windows(keys: Any, size: int) -> Any:
    return st.builds(lambda key, start: Windowed(key, Window(start, start + size)), keys, STARTS)


def shift(text: str, headers: Headers) -> bytes:
    headers.remove_all("shift").add("shift", b"1")
    return bytes(one ^ 1 for one in text.encode())


def unshift(data: bytes, headers: Headers) -> str:
    if headers.last("shift") != b"1":
        raise ValueError("no header says how it is shifted")
    return bytes(one ^ 1 for one in data).decode()


class Lasting(Serde[datetime.timedelta]):
    """A serde with a form of the user's own in JSON."""

    def __init__(self) -> None:
        super().__init__(pickle.dumps, pickle.loads, name="lasting")

    def to_json(self, value: datetime.timedelta) -> Any:
        return {"µs": value // datetime.timedelta(microseconds=1)}

    def from_json(self, given: Any) -> datetime.timedelta:
        return datetime.timedelta(microseconds=given["µs"])


SHIFTED = serde_of(shift, unshift, name="shifted", with_headers=True)
CSV = serde_of(lambda pair: ",".join(pair).encode(), lambda data: tuple(data.decode().split(",")), name="csv")
ROMAN = serde_of(lambda text: text.encode("utf-16"), lambda data: data.decode("utf-16"), name="utf-16")
OWN_JSON = serde_of(lambda value: json.dumps(value).encode(), json.loads, name="json of one's own")
HEX = serde_of(lambda number: hex(number).encode(), lambda data: int(data, 16), name="hex")
MODEL = pydantic_serde(Blob)
words = st.text("abc", max_size=3)
DRAWN: dict[str, tuple[Serde[Any], Any]] = {
    "string": (Serdes.STRING, texts),
    "bytes": (Serdes.BYTES, st.binary()),
    "long": (Serdes.LONG, longs),
    "double": (Serdes.DOUBLE, st.floats(allow_nan=False) | st.just(math.nan)),
    "float": (Serdes.FLOAT, st.floats(width=32, allow_nan=False)),
    "uuid": (Serdes.UUID, st.uuids()),
    "json": (Serdes.JSON, documents.filter(lambda one: one is not None)),
    "json of keys": (Serdes.JSON.bind("t", is_key=True), documents.filter(lambda one: one is not None)),
    "json that was made": (json_serde(), documents.filter(lambda one: one is not None)),
    "model": (pydantic_serde(Many), many),
    "model of keys": (pydantic_serde(Many).bind("t", is_key=True), many),
    "bytes in base64": (pydantic_serde(Coded), coded),
    "dataclass": (MODEL, blobs | st.builds(Blob, texts.map(str.encode), st.timedeltas(), inner=blobs)),
    "union of models": (pydantic_serde(Blob | Line), blobs | st.builds(Line, item=texts, cents=st.integers())),
    "list of bytes": (list_serde("bytes"), st.lists(st.none() | st.binary())),
    "list of double": (list_serde("double"), st.lists(st.none() | st.floats(allow_nan=False))),
    "list of lists of models": (list_serde(list_serde(Blob)), st.lists(st.lists(st.none() | blobs, max_size=2))),
    "list of one's own": (list_serde(Lasting()), st.lists(st.none() | st.timedeltas())),
    "window": (WindowedSerdes.time_windowed_serde_from("bytes", 10), in_windows(st.binary(), 10)),
    "window of json": (WindowedSerdes.time_windowed_serde_from("json", 10), in_windows(documents, 10)),
    "window of unknown size": (WindowedSerdes.time_windowed_serde_from(Blob, 0), in_windows(blobs, 0)),
    "session": (WindowedSerdes.session_windowed_serde_from("double"), in_windows(st.floats(allow_nan=False), 7)),
    "change": (ChangeSerde(MODEL), st.tuples(blobs, st.none() | blobs) | st.tuples(st.none(), blobs)),
    "answer": (
        AnswerSerde(Serdes.BYTES),
        st.tuples(st.none() | st.binary(min_size=16, max_size=16), st.none() | st.binary()),
    ),
    "waiting key": (TimedSideKeySerde(MODEL), st.builds(TimedSide, blobs, STARTS, st.booleans())),
    "waiting value": (
        SideValueSerde(Serdes.BYTES, MODEL),
        st.tuples(st.binary(), st.just(True)) | st.tuples(blobs, st.just(False)),
    ),
    "key and id": (
        RecordIdSerde(Serdes.BYTES),
        st.tuples(st.binary(), st.sampled_from(["a", b"a", 5, b"\xff"]) | st.tuples(st.just(b"a"), texts)),
    ),
    "migrating": (MigratingSerde(Lasting(), lambda plain: plain), st.timedeltas()),
    "with headers": (SHIFTED, texts),
    "one's own": (Lasting(), st.timedeltas()),
    "csv": (CSV, st.tuples(words, words)),
    "utf-16": (ROMAN, texts | st.sampled_from(["5", "null", '"a"', "[1]"])),
    "json of one's own": (OWN_JSON, documents.filter(lambda one: one is not None)),
    "hex": (HEX, st.integers()),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWN)
def test_a_drawn_value_is_shown_and_given_again(name: str) -> None:
    serde, values = DRAWN[name]

    @settings(max_examples=60)
    @given(values)
    def law(value: Any) -> None:
        current = CurrentHeaders()
        data = current.handed_to(serde).serialize(value)
        shown = json.loads(json.dumps(json_reader(serde, current)(data)))
        headers = Headers()
        assert fitted(serde, shown, is_text=False, headers=headers).data == data
        assert headers == current.now
        if name not in ("csv", "utf-16", "hex", "with headers", "string", "bytes", "double", "float", "uuid"):
            assert fitted(serde, json.dumps(shown), is_text=True).data == data, "typed as JSON"

    law()


def test_a_text_of_ones_own_is_what_it_was_first_and_what_it_may_be_read_as_then() -> None:
    """A text that was given as JSON was written as each of its characters."""
    assert fitted(CSV, "a,b", is_text=True).data == b"a,b"
    assert fitted(CSV, ["a", "b"], is_text=False).data == b"a,b"
    assert fitted(HEX, 255, is_text=False).data == b"0xff"
    assert fitted(HEX, "0xff", is_text=True).data == b"0xff"


def test_a_model_shows_what_the_record_has_besides() -> None:
    assert json_reader(pydantic_serde(Line))(b'{"item":"tea","cents":1,"shop":"x"}') == {
        "item": "tea", "cents": 1, "shop": "x",
    }  # fmt: skip
    with pytest.raises(ValueError, match="cents"):
        json_reader(pydantic_serde(Line))(b'{"cents":"x"}')


def test_what_a_model_does_not_write_is_shown_all_the_same() -> None:
    """It was read from what others wrote."""
    assert pydantic_serde(Sale).to_json(Sale("a", cents="x")) == {"item": "a", "cents": "x", "tags": {}}  # type: ignore[arg-type]
    assert pydantic_serde(Order).to_json(Order(id="1"))["lines"] == []
