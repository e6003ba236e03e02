"""What a compiled check of a model lets through comes back equal, and ordinary values pass it (semantics 189)."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import math
import uuid
import zoneinfo
from decimal import Decimal
from typing import Any, Literal, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter

from streams import pydantic_serde
from streams.serdes.model_shape import exact_check, shape_of


class Suit(enum.Enum):
    HEARTS = "hearts"
    SPADES = "spades"


@dataclasses.dataclass
class Place:
    name: str
    height: float


@dataclasses.dataclass(slots=True)
class Slotted:
    number: int


class Leaf(BaseModel):
    item: str
    cents: int = 0


class MoreLeaf(Leaf):
    colour: str = "red"


class Tree(BaseModel):
    leaf: Leaf
    branches: list[Tree] = []


class Whole(BaseModel):
    text: str
    number: int
    truth: bool
    amount: float
    price: Decimal
    id: uuid.UUID
    day: datetime.date
    at: datetime.datetime
    clock: datetime.time
    wait: datetime.timedelta
    suit: Suit
    word: Literal["a", "b", 3]
    either: int | float | str | None
    maybe: float | None
    leaf: Leaf
    leaves: list[Leaf]
    place: Place
    slotted: Slotted
    names: frozenset[str]
    amounts: set[float]
    pair: tuple[int, Optional[str]]  # noqa: UP045 - both ways to write it
    many: tuple[float, ...]
    by_name: dict[str, list[float]]
    tree: Tree
    aliased: int = Field(alias="other name")


GIVEN: dict[str, Any] = {
    "text": "a",
    "number": 1,
    "truth": True,
    "amount": 1.5,
    "price": Decimal("1.50"),
    "id": uuid.UUID(int=7),
    "day": datetime.date(2025, 1, 1),
    "at": datetime.datetime(2025, 1, 1, tzinfo=datetime.UTC),
    "clock": datetime.time(12),
    "wait": datetime.timedelta(seconds=1.5),
    "suit": Suit.HEARTS,
    "word": "b",
    "either": 2.5,
    "maybe": None,
    "leaf": Leaf(item="a"),
    "leaves": [Leaf(item="a"), Leaf(item="b")],
    "place": Place("a", 1.5),
    "slotted": Slotted(1),
    "names": frozenset(("a", "b")),
    "amounts": {1.5},
    "pair": (1, "a"),
    "many": (1.5, 2.5),
    "by_name": {"a": [1.5]},
    "tree": Tree(leaf=Leaf(item="a"), branches=[Tree(leaf=Leaf(item="b"))]),
    "other name": 1,
}
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
REFUSED: list[tuple[str, Any]] = [
    ("text", 1),
    ("number", True),
    ("number", 1.0),
    ("truth", 1),
    ("amount", math.nan),
    ("amount", -math.inf),
    ("amount", 1),
    ("price", Decimal("NaN")),
    ("price", 1.5),
    ("id", str(uuid.UUID(int=7))),
    ("day", datetime.datetime(2025, 1, 1, tzinfo=datetime.UTC)),
    ("at", datetime.datetime(2025, 1, 1, tzinfo=BERLIN)),
    ("clock", datetime.time(12, tzinfo=BERLIN)),
    ("suit", "hearts"),
    ("word", "c"),
    ("word", True),
    ("either", math.nan),
    ("either", []),
    ("maybe", math.inf),
    ("leaf", MoreLeaf(item="a")),
    ("leaf", {"item": "a"}),
    ("leaf", Leaf.model_construct(item=1)),
    ("leaves", [Leaf(item="a"), None]),
    ("leaves", (Leaf(item="a"),)),
    ("place", Place("a", math.nan)),
    ("slotted", Slotted("a")),  # type: ignore[arg-type]
    ("names", frozenset((1,))),
    ("amounts", {math.inf}),
    ("pair", (1, "a", 2)),
    ("pair", (1, 2)),
    ("many", (1.5, math.nan)),
    ("by_name", {1: [1.5]}),
    ("by_name", {"a": [math.nan]}),
    ("tree", Tree(leaf=Leaf(item="a"), branches=[Tree(leaf=MoreLeaf(item="b"))])),
]


def check_of(model: Any) -> Any:
    schema = TypeAdapter(model).core_schema
    assert not shape_of(schema).is_uncertain
    found = exact_check(schema)
    assert found is not None
    return found


IS_WHOLE = check_of(Whole)
WHOLE = pydantic_serde(Whole)
ADAPTER = TypeAdapter(Whole)


def test_a_value_of_each_type_passes() -> None:
    value = Whole(**GIVEN)
    assert IS_WHOLE(value)
    again = WHOLE.deserialize(WHOLE.serialize(value))
    assert again == value
    assert IS_WHOLE(again)  # its times have another class for UTC


@pytest.mark.parametrize(("field", "value"), REFUSED, ids=str)
def test_a_value_of_another_type_does_not(field: str, value: Any) -> None:
    whole = Whole(**GIVEN)
    whole.__dict__[field] = value
    assert not IS_WHOLE(whole)


def test_a_subclass_and_a_value_without_a_field_are_refused_when_they_are_written() -> None:
    with pytest.raises(ValueError, match="it would come back as Leaf"):
        pydantic_serde(Leaf).serialize(MoreLeaf(item="a"))
    with pytest.raises(ValueError, match="cents"):
        pydantic_serde(Leaf).serialize(Leaf.model_construct(item="a", cents="many"))
    whole = Whole(**GIVEN)
    del whole.__dict__["text"]
    with pytest.raises(ValueError, match="text"):
        WHOLE.serialize(whole)


def test_a_model_in_itself_is_refused_and_an_integer_that_python_does_not_read_too() -> None:
    tree = Tree(leaf=Leaf(item="a"))
    tree.branches.append(tree)
    with pytest.raises(ValueError, match="Circular reference"):
        pydantic_serde(Tree).serialize(tree)
    with pytest.raises(ValueError, match=r"cents|digits"):
        pydantic_serde(Leaf).serialize(Leaf(item="a", cents=10**4400))
    long = Leaf(item="a" * 5000, cents=10**4000)
    assert pydantic_serde(Leaf).deserialize(pydantic_serde(Leaf).serialize(long)) == long


@given(st.from_type(type(None)) | st.floats() | st.integers() | st.text() | st.booleans() | st.binary(), st.floats())
def test_what_passes_is_written_as_pydantic_checks_it(either: Any, amount: float) -> None:
    whole = Whole(**GIVEN)
    whole.__dict__.update(either=either, maybe=amount, amount=amount)
    if IS_WHOLE(whole):
        data = ADAPTER.serializer.to_json(whole, by_alias=True, warnings="error")
        assert WHOLE.serialize(whole) == data
        assert WHOLE.deserialize(data) == whole
    elif not math.isfinite(amount) or (isinstance(either, float) and not math.isfinite(either)):
        with pytest.raises(ValueError, match=r"would come back|could not be read|Error serializing|UnexpectedValue"):
            WHOLE.serialize(whole)
