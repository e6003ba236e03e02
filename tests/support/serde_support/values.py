"""Types and values for the law of serdes: what comes back is what was written.

As a script it prints what each serde writes for each value, so that processes can be compared.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import math
import sys
import uuid
from decimal import Decimal
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field, SecretStr, computed_field

BERLIN, NEW_YORK = ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York")
NOON = datetime.datetime(2024, 7, 1, 12, tzinfo=datetime.UTC)


class Text(str):
    """A text of a class of its own."""


class Whole(int):
    """An integer of a class of its own."""


class Real(float):
    """A float of a class of its own."""


class Pair(NamedTuple):
    left: Any
    right: Any


class Size(enum.IntEnum):
    SMALL = 1


class Colour(enum.StrEnum):
    RED = "red"


class Kind(enum.Enum):
    WORDS = ("a", "b")
    ONE = 1


@dataclasses.dataclass(frozen=True)
class Point:
    y: Any = 1
    x: Any = 2
    _seen: int = 0


class Line(BaseModel):
    item: str = "tea"
    cents: int = 300


class Order(BaseModel):
    """Of types that come back as they are, with one form."""

    id: str
    lines: list[Line] = []
    note: str | None = None
    size: Size = Size.SMALL
    key: uuid.UUID | None = None
    day: datetime.date | None = None
    pair: tuple[int, str] | None = None
    wait: datetime.timedelta | None = None


class Mixed(BaseModel):
    """Of types with several forms, or with values that do not come back."""

    model_config = ConfigDict(extra="allow")
    amount: float = 1.5
    price: Decimal = Decimal(1)
    at: datetime.datetime | None = None
    tags: dict[str, int] = {}
    names: frozenset[str] = frozenset()
    anything: Any = None
    either: int | float | str | None = None
    limited: int = Field(default=1, ge=0)


class Hidden(BaseModel):
    shown: int = 1
    hidden: int = Field(default=1, exclude=True)


class Masked(BaseModel):
    secret: SecretStr


class TwoNames(BaseModel):
    number: int = Field(default=1, validation_alias="in", serialization_alias="out")


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    number: int = 1

    @computed_field  # type: ignore[prop-decorator]
    @property
    def twice(self) -> int:
        return 2 * self.number


class More(Line):
    more: int = 1


class Keeps(BaseModel):
    line: Line = Line()


@dataclasses.dataclass
class Sale:
    item: str
    cents: int = 0
    tags: dict[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class LaterSale(Sale):
    later: int = 0


def of_complex(value: Any) -> Any:
    """A form of a user's own."""
    if isinstance(value, complex):
        return [value.real, value.imag]
    raise TypeError("no complex number")


def deep(levels: int) -> Any:
    found: Any = 1
    for _ in range(levels):
        found = [found]
    return found


TIMES = [
    NOON,
    NOON.astimezone(BERLIN),
    NOON.astimezone(NEW_YORK),
    NOON.replace(tzinfo=None),
    datetime.datetime(1850, 1, 1, tzinfo=BERLIN),
    datetime.datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN),
    datetime.datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=BERLIN),
    datetime.datetime(1, 1, 1),  # noqa: DTZ001 - no zone is what is tried
    datetime.datetime(2024, 1, 1, 1, 1, 1, 1, tzinfo=datetime.UTC),
]
NUMBERS = [
    0, 1, -1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**40, True, False, Whole(7), Size.SMALL,
    0.0, -0.0, 1.0, 0.1, 1e16, 1e22, 1e-5, 1.5e-7, 5e-324, 1.7976931348623157e308, Real(1.5), math.nan, math.inf,
    -math.inf, Decimal("1.5"), Decimal("0.1"), Decimal("NaN"), Decimal("1.10"),
]  # fmt: skip
TEXTS = ["", "a", "null", "grüße 🚀", "\0", "lone \ud83d", "\ud83d\ude80", Text("own"), Colour.RED]
OTHERS = [
    None, b"", b"a\xff", bytearray(b"a"), memoryview(b"abcd"), memoryview(b"abcdefgh").cast("i"),
    (1, 2), Pair(1, "b"), [1, None], [], {}, {"a": None}, {"b": 1, "a": 2}, {1: 2},
    {None: 1}, {True: 1}, {1.5: 1}, {Text("k"): 1}, {Colour.RED: 1}, {Size.SMALL: 1}, uuid.UUID(int=7), NOON.date(),
    NOON.time(), NOON.timetz(), datetime.timedelta(seconds=1.5), Kind.WORDS, Kind.ONE, Point(), Point(math.nan),
    Point({"b": 1, "a": 2}), deep(254), deep(255), object(), int, range(3), 1 + 2j,
]  # fmt: skip
LAW_OF_MODELS = [
    Order(id="1"), Order(id="1", lines=[Line(), Line(item="ß")], key=uuid.UUID(int=7), day=NOON.date(), pair=(1, "a")),
    Order(id="1", wait=datetime.timedelta(microseconds=1)), Order.model_construct(id="lone \ud83d"), Line(), More(),
    Order.model_construct(id=5), Line(cents=10**30), Line.model_construct(cents="x"), Keeps(), Keeps(line=More()),
    Mixed(), Mixed(amount=math.nan), Mixed(amount=1e16), Mixed(price="1.10"), Mixed(price="1.1"),
    Mixed.model_construct(price=Decimal("NaN")), *(Mixed(at=time) for time in TIMES), Mixed(tags={"b": 1, "a": 2}),
    Mixed(anything=(1, 2)), Mixed(anything=NOON),
    Mixed(anything=[1, None, {"a": 1.5}]), Mixed(either="1"), Mixed(either=1.0), Mixed(either=1),
    Mixed.model_construct(limited=-1), Mixed(z=1, a=2), Hidden(), Hidden(hidden=2), Masked(secret="a"), TwoNames(),
    TwoNames(**{"in": 2}), Strict(), Sale("a"), Sale("a", tags={"b": 1, "a": 2}), LaterSale("a"),
]  # fmt: skip
SETS = [
    Mixed(names=frozenset(("a", "b", "c", "d"))), Mixed(anything={"c", "a", "b"}), {1, 2}, frozenset(("a", "b", "c")),
]  # fmt: skip
"""Values whose order is another one in each process."""
VALUES = [*SETS, *NUMBERS, *TEXTS, *TIMES, *OTHERS, *LAW_OF_MODELS]
MODELS: list[type] = [Order, Line, Keeps, Mixed, Hidden, Masked, TwoNames, Strict, Sale]
DOCUMENTS = [
    b"", b"null", b"NaN", b"[Infinity]", b"1e400", b"-1e400", b"1e308", b"-0", b"-0.0", b"1E5", b"18446744073709551616",
    b'"\\ud83d"', b'"\\ud83d\\ude80"', b'"\\\\ud83d"', b'{"a":1,"a":2}', b"\xff", b'"\xed\xa0\xbd"', b'"\x01"', b"[1,]",
    b" 1 ", b"\xef\xbb\xbf1", b"01", b"+1", b".5", b"[1] x", b"0.1000000000000000055511151231257827", b"9" * 4301,
]  # fmt: skip


def law_serdes() -> dict[str, Any]:
    """Each serde of the library by a name, as it is for keys and for values."""
    from streams import Serde, Serdes, WindowedSerdes
    from streams.serdes import json_serde, list_serde, pydantic_serde

    found: dict[str, Any] = {one.name: one for one in vars(Serdes).values() if isinstance(one, Serde)}
    found |= {model.__name__: pydantic_serde(model) for model in MODELS}
    found["exclude_none"] = pydantic_serde(Order, exclude_none=True)
    found["list of long"] = list_serde("long")
    found["list of string"] = list_serde("string")
    found["list of json"] = list_serde("json")
    found["json by default"] = json_serde(default=of_complex)
    found["window"] = WindowedSerdes.time_windowed_serde_from("json", 10)
    found["session"] = WindowedSerdes.session_windowed_serde_from("json")
    bound = {}
    for name, serde in found.items():
        bound[f"{name} as value"] = serde.bind("topic", is_key=False)
        bound[f"{name} as key"] = serde.bind("topic", is_key=True)
    return bound


def written(serde: Any, value: Any) -> bytes | None:
    """Returns what a serde writes; ``None`` if it refuses the value, by one of the errors that serdes may raise."""
    try:
        return bytes(serde.serialize(value))
    except (TypeError, ValueError):
        return None


def _seen() -> dict[str, Any]:
    seen: dict[str, Any] = {}
    for name, serde in law_serdes().items():
        for number, value in enumerate(VALUES):
            data = None if value is None else written(serde, value)
            if data is not None and name.endswith("as key"):
                seen[f"{name}: {number}"] = data.hex()
            elif data is not None and number >= len(SETS):
                seen[f"{name}: {number}"] = repr(serde.deserialize(data))
        if name.startswith("json as"):
            for document in DOCUMENTS:
                try:
                    seen[f"{name} reads {document[:30]!r}"] = repr(serde.deserialize(document))
                except ValueError:
                    seen[f"{name} reads {document[:30]!r}"] = None
    return seen


if __name__ == "__main__":
    for missing in sys.argv[1:]:
        sys.modules[missing] = None  # type: ignore[assignment]
    print(json.dumps(_seen(), sort_keys=True))
