"""Classes and drawn values for the law of serdes with a registry."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import uuid
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, TypeVar
from zoneinfo import ZoneInfo

from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from streams import Avro, AvroType, JsonSchema, SchemaRegistry

T = TypeVar("T")
BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Words(enum.Enum):
    MANY = "with a blank"


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: int = 0


@dataclasses.dataclass(frozen=True)
class Same:
    """Of the shape of another class."""

    x: int
    y: int = 0


class Base(BaseModel):
    model_config = ConfigDict(frozen=True)
    a: int


class Derived(Base):
    b: int = 0


class Box(BaseModel, Generic[T]):
    inside: T


@dataclasses.dataclass
class Plain:
    text: str
    number: int
    real: float
    flag: bool
    raw: bytes
    maybe: str | None = None
    either: int | str | None = None
    at: datetime.date | datetime.datetime | None = None
    time: datetime.time | None = None
    id: uuid.UUID | None = None
    price: Annotated[Decimal, Field(max_digits=9, decimal_places=2)] = Decimal("0.00")
    small: Annotated[int, AvroType("int")] = 1


@dataclasses.dataclass
class Nested:
    choice: Point | Same
    points: list[Point]
    bases: list[Base | Derived]
    by_name: dict[str, Point | None]
    colours: set[Colour] = dataclasses.field(default_factory=set)
    words: Words = Words.MANY
    level: Level = Level.LOW
    size: Literal["s", "m"] = "s"
    colour_or_text: Colour | str = Colour.RED
    pair: tuple[int, ...] = ()


class Model(BaseModel):
    what: Derived | Base
    kind: Colour = Colour.RED
    price: Decimal | None = Field(None, max_digits=9, decimal_places=2)
    times: list[datetime.datetime] = []
    tags: frozenset[str] = frozenset()
    positive: int = Field(1, gt=0)
    alias_name: str = Field("x", alias="aliasName")
    box: Box[int] | Box[str] = Box[int](inside=1)


class Tree(BaseModel):
    value: int
    left: Tree | None = None
    right: Tree | None = None


@dataclasses.dataclass
class AfterInit:
    cents: int
    twice: int = dataclasses.field(init=False, default=0)

    def __post_init__(self) -> None:
        self.twice = 2 * self.cents


@dataclasses.dataclass(slots=True, kw_only=True)
class Slotted:
    a: int
    b: str = "b"


class Key(BaseModel):
    model_config = ConfigDict(frozen=True)
    price: Annotated[Decimal, Field(max_digits=9, decimal_places=2)]
    at: datetime.datetime
    tags: frozenset[str] = frozenset()
    choice: Base | Derived = Base(a=1)
    id: uuid.UUID = uuid.UUID(int=1)


class DictKey(BaseModel):
    more: dict[str, int] = {}
    price: Decimal = Decimal(1)
    at: datetime.datetime = NOON
    tags: frozenset[str] = frozenset()


# ------------------------------------------------------------------------------ values

texts = st.text(max_size=4) | st.sampled_from(["lone \ud83d", "null", ""])
zones = st.sampled_from([None, datetime.UTC, BERLIN, datetime.timezone(datetime.timedelta(seconds=3601))])
times = st.builds(
    lambda time, zone, fold: time.replace(tzinfo=zone, fold=fold),
    st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2300, 1, 1)),  # noqa: DTZ001 - the zone is drawn
    zones,
    st.integers(0, 1),
)
integers = st.integers(-(1 << 64), 1 << 64) | st.integers(-5, 5) | st.sampled_from(list(Level))
decimals = st.decimals(allow_nan=True) | st.decimals(-9_999_999, 9_999_999, places=2) | st.sampled_from(
    [Decimal("1E+1000000"), Decimal("1E-1000000"), Decimal("0E+100000"), Decimal("1.500"), Decimal("-0")]
)  # fmt: skip
points = st.builds(Point, integers, integers)
bases = st.builds(Base, a=st.integers(-5, 5)) | st.builds(Derived, a=st.integers(-5, 5), b=st.integers(-5, 5))
anything = st.none() | st.booleans() | integers | st.floats() | texts | times | st.uuids() | st.dates() | decimals | (
    st.binary(max_size=3) | points | bases | st.sampled_from(Colour) | st.lists(st.integers(), max_size=2)
)  # fmt: skip
VALUES: dict[Any, Any] = {
    Plain: st.builds(
        Plain,
        text=texts | anything,
        number=integers,
        real=st.floats() | integers,
        flag=st.booleans() | st.integers(0, 1),
        raw=st.binary(max_size=3) | st.binary(max_size=3).map(bytearray),
        maybe=texts | st.none(),
        either=integers | texts | st.none() | anything,
        at=st.dates() | times | st.none(),
        time=st.times(timezones=zones) | st.none(),
        id=st.uuids() | st.none(),
        price=decimals,
        small=integers,
    ),
    Nested: st.builds(
        Nested,
        choice=points | st.builds(Same, st.integers(-5, 5), st.integers(-5, 5)) | bases,
        points=st.lists(points, max_size=3) | st.tuples(points),
        bases=st.lists(bases | points, max_size=3),
        by_name=st.dictionaries(texts, points | st.none(), max_size=2),
        colours=st.sets(st.sampled_from(Colour)) | st.lists(st.sampled_from(Colour), max_size=2),
        words=st.just(Words.MANY) | st.just("with a blank"),
        level=st.sampled_from(Level) | st.integers(0, 3),
        size=st.sampled_from(["s", "m", "xl"]),
        colour_or_text=st.sampled_from(Colour) | texts | st.just("red"),
        pair=st.lists(st.integers(), max_size=2).map(tuple) | st.lists(st.integers(), max_size=2),
    ),
    Model: st.builds(
        Model.model_construct,
        what=bases | points,
        kind=st.sampled_from(Colour) | st.just("red"),
        price=decimals | st.none(),
        times=st.lists(times, max_size=2),
        tags=st.frozensets(texts, max_size=3),
        positive=st.integers(-1, 2),
        alias_name=texts,
        box=st.builds(Box[int], inside=st.integers(0, 3)) | st.builds(Box[str], inside=st.text(max_size=2)),
    ),
    Tree: st.recursive(
        st.builds(Tree, value=st.integers(-5, 5)),
        lambda inner: st.builds(Tree, value=st.integers(-5, 5), left=inner | st.none(), right=inner | st.none()),
        max_leaves=6,
    ),
    AfterInit: st.builds(AfterInit, st.integers(-5, 5)),
    Slotted: st.builds(Slotted, a=integers, b=texts),
    Box[int]: st.builds(Box[int], inside=st.integers(-5, 5)),
    list[Point]: st.lists(points, max_size=3),
    dict[str, Colour]: st.dictionaries(texts, st.sampled_from(Colour), max_size=2),
    datetime.datetime: times,
    Decimal: decimals,
    Key: st.builds(
        Key.model_construct,
        price=decimals,
        at=times,
        tags=st.frozensets(texts, max_size=4),
        choice=bases,
        id=st.uuids(),
    ),
    DictKey: st.builds(
        DictKey.model_construct,
        more=st.dictionaries(texts, integers, max_size=3),
        price=decimals,
        at=times,
        tags=st.frozensets(texts, max_size=4),
    ),
}
TYPES = {**{kind: kind for kind in VALUES}, Decimal: Annotated[Decimal, Field(max_digits=9, decimal_places=2)]}
WITHOUT_AVRO = {DictKey}
"""Types with a decimal whose digits are not known, which has no type of Avro."""
AS_KEYS = {Avro: {Key, Point, Slotted}, JsonSchema: {Key, DictKey, Point, Slotted}}
VALUES[Point] = points


def serdes(make: Any, kind: Any, **options: Any) -> list[Any]:
    registry = SchemaRegistry("mock://law")
    if make is Avro and kind is Decimal:
        options["schema"] = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    serde = make(kind, registry=registry, **options)
    topic = f"{make.__name__}-{kind}"
    found = [serde.bind(topic, is_key=False)]
    if kind in AS_KEYS[make]:
        found.append(serde.bind(topic, is_key=True))
    return found


PAIRS = [(make, kind) for make in (Avro, JsonSchema) for kind in VALUES if make is not Avro or kind not in WITHOUT_AVRO]
