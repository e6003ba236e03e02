"""Keys and values as a person gives them, for each serde: what is printed can be given back."""

from __future__ import annotations

import json
import random
import uuid
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import Enum, StrEnum
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from pydantic import BaseModel, Field, field_validator

from processor_api.forms.json_values import as_json
from processor_api.forms.times import duration_ms, iso, time_ms
from processor_api.serde import Serde, Serdes
from processor_api.stores.windowed import Window, Windowed
from processor_api.user_code.given_serdes import as_serde
from state.formats.windowed_serdes import WindowedSerdes
from streams.cli.output.causes import CannotRun
from streams.cli.records.generate import Inventor
from streams.cli.records.input_lines import LineReader
from streams.cli.records.json_lines import BadRecord, GivenRecord, headers_as_json, headers_of_json
from streams.serdes import list_serde, serde_of
from streams.serdes.values import DoesNotFit, as_text, fitted, json_reader


def to_bytes(serde: Serde[Any], given_: Any, *, is_text: bool) -> bytes | None:
    return fitted(serde, given_, is_text=is_text).data


NUMBERS = some.integers(-(1 << 63), (1 << 63) - 1)
JSON = some.recursive(
    some.none() | some.booleans() | some.integers(-(1 << 53), 1 << 53) | some.text(),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("serde", "values"),
    [
        (
            Serdes.STRING,
            some.text().filter(lambda text: text.isascii() or text.encode("utf-8", "ignore").decode() == text),
        ),
        (Serdes.LONG, NUMBERS),
        (Serdes.DOUBLE, some.floats(allow_nan=False)),
        (Serdes.BOOLEAN, some.booleans()),
        (Serdes.BYTES, some.binary()),
        (Serdes.UUID, some.uuids()),
        (Serdes.JSON, JSON.filter(lambda value: value is not None)),
        (list_serde(Serdes.LONG), some.lists(NUMBERS, max_size=4)),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_what_is_printed_can_be_given_back(serde: Serde[Any], values: Any) -> None:
    @settings(max_examples=40)
    @given(values)
    def check(value: Any) -> None:
        data = serde.serialize(value)
        shown = json.loads(json.dumps(json_reader(serde)(data)))
        assert to_bytes(serde, shown, is_text=False) == data

    check()


def test_windowed_keys_can_be_given_back() -> None:
    for serde, window in (
        (WindowedSerdes.time_windowed_serde_from(Serdes.STRING, 5), Window(10, 15)),
        (WindowedSerdes.session_windowed_serde_from(Serdes.STRING), Window(10, 400_000)),
    ):
        data = serde.serialize(Windowed("a", window))
        assert to_bytes(serde, json_reader(serde)(data), is_text=False) == data
    assert as_text({"key": "a", "start": "2025-01-01T00:00:00.000Z", "end": "2025-01-01T00:05:00.000Z"}) == (
        "a @ 2025-01-01T00:00:00Z/2025-01-01T00:05:00Z"
    )


def test_a_window_of_known_size_needs_no_end() -> None:
    """A start is all that its bytes have; an end that is given has to be the right one."""
    serde = WindowedSerdes.time_windowed_serde_from(Serdes.STRING, 5)
    expected = Windowed("a", Window(10, 15))
    for more in ({}, {"end": 15}, {"end": "1970-01-01T00:00:00.015Z"}):
        found = fitted(serde, {"key": "a", "start": 10, **more}, is_text=False)
        assert found == (expected, serde.serialize(expected))
    with pytest.raises(
        DoesNotFit,
        match=r"starts at 1970-01-01T00:00:00.010Z ends at 1970-01-01T00:00:00.015Z, not at 1970-01-01T00:00:00.016Z",
    ):
        fitted(serde, {"key": "a", "start": 10, "end": 16}, is_text=False)
    with pytest.raises(DoesNotFit, match=r"ends at 1970-01-01T00:00:00.009Z, before it starts"):
        fitted(serde, {"key": "a", "start": 10, "end": 9}, is_text=False)
    session = WindowedSerdes.session_windowed_serde_from(Serdes.STRING)
    with pytest.raises(DoesNotFit, match="an object"):
        fitted(session, {"key": "a", "start": 10}, is_text=False)
    unknown = WindowedSerdes.time_windowed_serde_from(Serdes.STRING, 0)
    assert fitted(unknown, {"key": "a", "start": 10, "end": 16}, is_text=False).data == serde.serialize(expected)


def test_null_is_no_bytes() -> None:
    """A typed null too, but for serdes whose values are texts."""
    for serde in ("long", "double", "json", "uuid", Point):
        assert fitted(as_serde(serde), "null", is_text=True) == (None, None)
        assert fitted(as_serde(serde), None, is_text=False) == (None, None)
    assert to_bytes(Serdes.STRING, "null", is_text=True) == b"null"
    assert to_bytes(Serdes.BYTES, "null", is_text=True) == b"null"


@pytest.mark.parametrize("text", ["1_000", "\u0665", "", "1.5", "0x10"])
def test_digits_of_python_alone_are_no_integers(text: str) -> None:
    with pytest.raises(DoesNotFit, match="an integer is expected"):
        fitted(Serdes.LONG, text, is_text=True)


class Colour2(StrEnum):
    RED = "red"


class Named(BaseModel):
    at: datetime = Field(alias="atTime")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (datetime(2025, 1, 1, tzinfo=UTC), "2025-01-01T00:00:00+00:00"),
        (date(2025, 1, 1), "2025-01-01"),
        (Colour2.RED, "red"),
        ({Colour2.RED.value: {1}}, {"red": [1]}),
        (float("inf"), "Infinity"),
        ([b"\xff", b"a"], [{"base64": "/w=="}, "a"]),
        (Named(atTime=datetime(2025, 1, 1, tzinfo=UTC)), {"atTime": "2025-01-01T00:00:00+00:00"}),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    ],
)
def test_objects_that_json_has_no_type_for(value: Any, expected: Any) -> None:
    found = as_json(value)
    assert json.loads(json.dumps(found)) == expected


def test_models_are_shown_as_they_are_written() -> None:
    """Under their aliases, so that they can be given back."""
    serde = as_serde(Named)
    data = b'{"atTime":"2025-01-01T00:00:00"}'
    shown = json_reader(serde)(data)
    assert shown == {"atTime": "2025-01-01T00:00:00"}
    assert to_bytes(serde, shown, is_text=False) == data
    with pytest.raises(ValueError, match="atTime"):
        json_reader(serde)(b"{}")


@dataclass
class Point:
    x: int
    y: float = 0.5


UPPER = serde_of(lambda text: text.upper().encode(), bytes.decode, name="upper")
CSV = serde_of(lambda pair: ",".join(pair).encode(), lambda data: tuple(data.decode().split(",")), name="csv")


@pytest.mark.parametrize(
    ("serde", "text", "data"),
    [
        ("string", "a b", b"a b"),
        ("long", "-5", b"\xff" * 7 + b"\xfb"),
        ("short", "1", b"\x00\x01"),
        ("double", "1.5", b"\x3f\xf8" + bytes(6)),
        ("boolean", "true", b"\x01"),
        ("uuid", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", b"6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
        ("bytes", "a", b"a"),
        ("json", '{"a": [1]}', b'{"a":[1]}'),
        (Point, '{"x": "5"}', b'{"x":5,"y":0.5}'),
        (UPPER, "abc", b"ABC"),
        (CSV, "a,b", b"a,b"),
    ],
)
def test_texts_are_typed_for_each_serde(serde: Any, text: str, data: bytes) -> None:
    assert to_bytes(as_serde(serde), text, is_text=True) == data


@pytest.mark.parametrize(
    ("serde", "given_", "is_text", "reason"),
    [
        ("long", "five", True, "'five' does not fit the serde 'long': an integer is expected"),
        ("long", True, False, "true does not fit the serde 'long': an integer is expected"),
        ("long", 1 << 64, False, "is not an integer from"),
        ("boolean", "yes", True, "true or false is expected"),
        ("uuid", "x", True, "a UUID such as 6ba7b810-9dad-11d1-80b4-00c04fd430c8 is expected"),
        ("bytes", {"base64": "?"}, False, 'a text or {"base64": "..."} is expected'),
        ("string", 5, False, "a text is expected"),
        ("double", "x", True, "a number is expected"),
        ("json", "{", True, "it is not JSON: "),
        (Point, {"y": "z"}, False, "x: Field required; y: Input should be a valid number"),
        (WindowedSerdes.session_windowed_serde_from(Serdes.STRING), "a", False, 'an object {"key": ..., "start": TIME'),
        (
            serde_of(lambda value: 1 / 0, lambda data: 1 / 0, name="own"),
            "x",
            True,
            "ZeroDivisionError: division by zero",
        ),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(serde: Any, given_: Any, is_text: bool, reason: str) -> None:
    with pytest.raises(DoesNotFit) as raised:
        to_bytes(as_serde(serde), given_, is_text=is_text)
    assert reason in str(raised.value)
    assert "\n" not in str(raised.value)


# ---------------------------------------------------------------------- lines


@pytest.mark.parametrize(
    ("line", "has_topics", "expected"),
    [
        ("a b", False, (None, None, "a b")),
        ("k\ta\tb", False, (None, "k", "a\tb")),
        ("k\t", False, (None, "k", "")),
        ("t\ta", True, ("t", None, "a")),
        ("t\tk\ta\tb", True, ("t", "k", "a\tb")),
        ("a", True, (None, None, "a")),
        ('{"no": "record"}', False, (None, None, '{"no": "record"}')),
        ('{"value": 1, "other": 2}', False, (None, None, '{"value": 1, "other": 2}')),
        ("{", False, (None, None, "{")),
        ("@ann hello", False, (None, None, "@ann hello")),
        ('{"topic": "t", "key": null, "value": [1]}', True, ("t", None, [1])),
    ],
)
def test_lines_are_records(line: str, has_topics: bool, expected: tuple[Any, ...]) -> None:
    found = LineReader(has_topics).item("x:1", line)
    assert isinstance(found, GivenRecord)
    assert (found.topic, found.key, found.value) == expected
    assert found.is_text is not line.startswith(('{"topic"',))


@settings(max_examples=60)
@given(some.binary())
def test_any_bytes_are_records_or_complaints(data: bytes) -> None:
    for only_json in (False, True):
        reader = LineReader(has_topics=False, only_json=only_json)
        for item in reader.items("x", data.splitlines(keepends=True)):  # type: ignore[arg-type]
            assert not isinstance(item, BadRecord) or "\n" not in item.reason


@settings(max_examples=40)
@given(some.lists(some.tuples(some.text(), some.none() | some.binary())))
def test_headers_can_be_given_back(headers: list[tuple[str, bytes | None]]) -> None:
    assert headers_of_json(json.loads(json.dumps(headers_as_json(headers)))) == headers


# ---------------------------------------------------------------------- times


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("5m", 300_000),
        ("1h30m", 5_400_000),
        ("10ms", 10),
        ("1d1s", 86_401_000),
        ("PT5M", 300_000),
        ("P1DT1.5S", 86_401_500),
        ("p2d", 172_800_000),
    ],
)
def test_durations(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "m",
        "-5m",
        "5m ",
        "1.5h",
        "5x",
        "\u0665m",
        "9" * 5000 + "d",
        "9" * 19 + "d",
        "P",
        "PT",
        "P1H",
        "P5",
        "PT1M2H",
        "PT1.S",
        "P" + "9" * 19 + "D",
    ],
)
def test_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        duration_ms(text)


@pytest.mark.parametrize(
    ("given_", "ms"),
    [(0, 0), ("7", 7), ("1970-01-01T00:00:01Z", 1000), ("1970-01-01T01:00:01+01:00", 1000), ("1970-01-02", 86_400_000)],
)
def test_times(given_: Any, ms: int) -> None:
    assert time_ms(given_) == ms
    assert time_ms(iso(ms)) == ms


@pytest.mark.parametrize("given_", [-1, True, 1.5, None, "noon", "1969-12-31", "\u0667", 1 << 63, [], "9" * 5000])
def test_no_times(given_: Any) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        time_ms(given_)


def test_times_beyond_the_calendar_are_milliseconds() -> None:
    assert iso((1 << 63) - 1) == (1 << 63) - 1


def test_times_before_1970_are_milliseconds() -> None:
    """They are no times of records: only -1 is there, which says that a record has none."""
    assert iso(-1) == -1


# ---------------------------------------------------------------------- made up


class Colour(Enum):
    RED = "red"


class Line(BaseModel):
    item: str = Field(min_length=2, max_length=3)
    count: int = Field(gt=0, lt=10, multiple_of=3)
    price: float = Field(ge=0.5)


class Everything(BaseModel):
    id: uuid.UUID
    at: datetime
    day: date
    lines: list[Line] = Field(min_length=1)
    colour: Colour
    kind: Literal["a", "b"]
    pair: tuple[int, str]
    more: dict[str, int]
    maybe: Line | None = None
    flag: bool = True
    above: Everything | None = None
    even: int = 0

    @field_validator("even")
    @classmethod
    def is_even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("must be even")
        return value


@pytest.mark.parametrize(
    "serde",
    [as_serde(Everything), as_serde(Point), *(Serdes.STRING, Serdes.LONG, Serdes.FLOAT, Serdes.BOOLEAN, Serdes.UUID)],
    ids=lambda serde: serde.name,
)
def test_made_up_values_fit_and_are_those_of_the_seed(serde: Serde[Any]) -> None:
    def values(seed: int) -> list[Any]:
        inventor = Inventor(seed)
        return [inventor.value(serde, "t", "value") for _ in range(50)]

    for value in values(1):
        to_bytes(serde, value, is_text=False)
    assert values(1) == values(1)
    assert values(1) != values(2)


class Never(BaseModel):
    code: str = Field(pattern="^[0-9]{20}$")


@pytest.mark.parametrize(
    ("serde", "reason"),
    [
        (as_serde(Never), "code: String should match pattern"),
        (Serdes.JSON, "has no description"),
        (CSV, "has no description"),
    ],
)
def test_what_cannot_be_made_up_is_said(serde: Serde[Any], reason: str) -> None:
    with pytest.raises(CannotRun, match=reason):
        Inventor(random.randrange(100)).value(serde, "t", "value")
