"""Whether values of one model are read by another: in words, and as the models themselves do."""

from __future__ import annotations

import datetime
import enum
import json
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from processor_api.serde import Serdes
from streams.schemas.json_schemas import canonical, problems
from streams.schemas.store_schemas import Fit, KeptSchemas, compare, kept_by
from streams.serdes import pydantic_serde


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Fewer(enum.Enum):
    RED = "red"


class Order(BaseModel):
    item: str
    cents: int
    at: datetime.datetime | None = None


class OrderMore(BaseModel):
    item: str
    cents: float
    at: datetime.datetime | None = None
    tags: list[str] = []


class OrderNew(BaseModel):
    item: str
    cents: int
    zone: str


class OrderText(BaseModel):
    item: str
    cents: str


class OrderStrict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    item: str
    cents: int


class OrderSmall(BaseModel):
    item: str = Field(max_length=2)
    cents: int = Field(ge=0, le=100)


class OrderOptional(BaseModel):
    item: str | None = None
    cents: int | None = None


class Tree(BaseModel):
    value: int
    children: list[Tree] = []
    parent: Tree | None = None


class TreeOfText(BaseModel):
    value: str
    children: list[TreeOfText] = []


@dataclass
class Point:
    x: int
    y: int = 0


@dataclass
class PointOfThree:
    x: int
    y: int
    z: int = 0


NEW_YEAR = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
VALUES: dict[Any, list[Any]] = {
    Order: [
        Order(item="tea", cents=3),
        Order(item="", cents=-1, at=datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)),
    ],
    OrderMore: [OrderMore(item="tea", cents=0.5, tags=["a"])],
    OrderNew: [OrderNew(item="tea", cents=3, zone="x")],
    OrderText: [OrderText(item="tea", cents="many")],
    OrderStrict: [OrderStrict(item="long", cents=1000)],
    OrderSmall: [OrderSmall(item="te", cents=3)],
    OrderOptional: [OrderOptional(), OrderOptional(item="tea", cents=3)],
    Tree: [Tree(value=1, children=[Tree(value=2)], parent=Tree(value=0))],
    TreeOfText: [TreeOfText(value="a", children=[TreeOfText(value="b")])],
    Point: [Point(1, 2)],
    PointOfThree: [PointOfThree(1, 2, 3)],
    int: [1],
    float: [1.5],
    str: ["a"],
    bool: [True],
    list[int]: [[], [1, 2]],
    list[str]: [["a"]],
    dict[str, int]: [{}, {"a": 1}],
    set[int]: [{1, 2}],
    tuple[int, str]: [(1, "a")],
    int | str: [1, "a"],
    int | None: [1, None],
    Literal["a", "b"]: ["a", "b"],
    Literal["a"]: ["a"],
    Colour: [Colour.RED, Colour.BLUE],
    Fewer: [Fewer.RED],
    datetime.date: [datetime.date(2024, 1, 1)],
}


NEEDLESS = [
    "int to bool",
    "str to Literal",
    "str to Literal",
    "bool to int",
    "bool to float",
    "bool to int | str",
    "bool to int | None",
    "list to set",
    "int | None to int",
    "int | None to float",
    "int | None to bool",
    "int | None to int | str",
]
"""Pairs that are called incompatible though each value here is read: others of the type would not be, pydantic takes
more than its schema says, such as a text of digits for a number, or ``None`` is a null record and not data."""


def found(former: Any, now: Any) -> Any:
    old, new = pydantic_serde(former).schema, pydantic_serde(now).schema
    assert old is not None
    assert new is not None
    return [] if old.text == new.text else new.problems(old.kind, old.text)


@pytest.mark.parametrize("former", VALUES, ids=repr)
def test_what_is_called_compatible_is_read(former: Any) -> None:
    """Of each pair of types: where nothing is wrong, every value of the one is read by the other."""
    for now in VALUES:
        wrong = found(former, now)
        assert (wrong == []) or former is not now
        read = pydantic_serde(now).deserialize
        for value in VALUES[former] if wrong == [] else ():
            read(pydantic_serde(former).serialize(value))


def test_most_of_what_is_read_is_called_compatible() -> None:
    """What is refused without need is listed, so that it does not become more."""

    def is_read(former: Any, now: Any) -> bool:
        try:
            for value in VALUES[former]:
                pydantic_serde(now).deserialize(pydantic_serde(former).serialize(value))
        except ValueError:
            return False
        return True

    names = [
        f"{getattr(former, '__name__', former)} to {getattr(now, '__name__', now)}"
        for former, now in product(VALUES, VALUES)
        if found(former, now) and is_read(former, now)
    ]
    assert names == NEEDLESS


@pytest.mark.parametrize(
    ("former", "now", "wrong"),
    [
        (Order, OrderNew, ["field 'zone' is new and does not have a default"]),
        (Order, OrderText, ["field 'cents' was integer and is string"]),
        (OrderMore, Order, ["field 'cents' was number and is integer"]),
        (Order, OrderStrict, ["field 'at' was removed, and other fields are forbidden"]),
        (
            OrderStrict,
            OrderSmall,
            [
                "field 'item' has maxLength 2, and had null",
                "field 'cents' has minimum 0, and had null",
                "field 'cents' has maximum 100, and had null",
            ],
        ),
        (OrderOptional, Order, ["field 'item' was null and is string", "field 'cents' was null and is integer"]),
        (Tree, TreeOfText, ["field 'value' was integer and is string"]),
        (Colour, Fewer, ['the value could be "blue", which was removed']),
        (str, Colour, ['the value was string and is one of ["red", "blue"]']),
        (list[str], list[int], ["field '*' was string and is integer"]),
        (str, datetime.date, ['the value has format "date", and had null']),
        (Point, PointOfThree, []),
        (PointOfThree, Point, []),
        (Order, OrderMore, []),
        (Order, OrderOptional, []),
        (Tree, dict[str, Any], []),
    ],
    ids=repr,
)
def test_each_difference_is_named_by_its_field(former: Any, now: Any, wrong: list[str]) -> None:
    assert found(former, now) == wrong


def test_names_and_descriptions_change_nothing() -> None:
    class Inner(BaseModel):
        """Said."""

        x: int = Field(description="first", title="X")

    class Outer(BaseModel):
        inner: Inner

    def renamed() -> Any:
        class Other(BaseModel):
            x: int

        class Outer(BaseModel):
            """Told."""

            inner: Other

        return Outer

    texts = [None if (one := pydantic_serde(kind).schema) is None else one.text for kind in (Outer, renamed())]
    assert texts[0] is not None
    assert texts[0] == texts[1]


def test_any_value_tells_nothing() -> None:
    assert problems("{}", canonical({"type": "integer"})) is None
    assert problems("{}", "{}") == []


class KeyFirst(BaseModel):
    item: str
    zone: int = 0


class KeyLimited(BaseModel):
    item: str = Field(description="of the shop")
    zone: int = Field(default=1)


class KeyTurned(BaseModel):
    zone: int = 0
    item: str


@pytest.mark.parametrize(
    ("former", "now", "fit"),
    [
        (KeyFirst, KeyFirst, Fit.SAME),
        (KeyFirst, KeyLimited, Fit.SAME),
        (KeyFirst, KeyTurned, Fit.INCOMPATIBLE),
        (KeyFirst, Order, Fit.INCOMPATIBLE),
        (Point, PointOfThree, Fit.INCOMPATIBLE),
        (Tree, Tree, Fit.SAME),
    ],
)
def test_keys_keep_their_bytes(former: Any, now: Any, fit: Fit) -> None:
    key, value = pydantic_serde(now), Serdes.LONG
    assert compare(kept_by(pydantic_serde(former), value), key, value)[0].fit is fit


def test_limits_of_keys_are_no_part_of_their_bytes() -> None:
    """Another release of pydantic may write them otherwise."""
    schema = pydantic_serde(KeyFirst).schema
    assert schema is not None
    text = json.loads(schema.text)
    text["properties"]["zone"]["minimum"] = -(2**63)
    kept = KeptSchemas((schema.kind, json.dumps(text)), None)
    assert compare(kept, pydantic_serde(KeyFirst), Serdes.LONG)[0].fit is Fit.COMPATIBLE


def test_each_field_with_the_same_difference_is_named() -> None:
    former = {"type": "object", "properties": {name: {"type": "integer"} for name in "ab"}}
    either = {"anyOf": [{"type": "string"}, {"type": "boolean"}]}
    for now in ({"type": "string"}, either):
        found = problems(json.dumps(former), json.dumps({**former, "properties": {"a": {"type": "string"}, "b": now}}))
        assert found == [f"field {name!r} was integer and is string" for name in "ab"]


def test_definitions_that_double_each_other_are_compared_once() -> None:
    levels = range(40)
    definitions: dict[str, Any] = {
        f"L{level}": {"type": "object", "properties": {name: {"$ref": f"#/$defs/L{level + 1}"} for name in "ab"}}
        for level in levels
    }
    former = {**definitions["L0"], "$defs": {**definitions, "L40": {"type": "integer"}}}
    now: dict[str, Any] = {"type": "string"}
    for _ in levels:
        now = {"type": "object", "additionalProperties": now}
    assert problems(json.dumps(former), json.dumps(now)) != []
