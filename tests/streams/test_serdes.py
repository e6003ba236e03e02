"""JSON, lists, pydantic models and pairs of functions."""

import dataclasses
import datetime
import enum
import subprocess
import sys
import tracemalloc
import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from processor_api.serde import Serde, Serdes
from streams.serdes import json_serde, list_serde, pydantic_serde, serde_of

REPOSITORY = Path(__file__).resolve().parents[2]
BY_ORJSON = json_serde(use_orjson=True)
BY_STANDARD_LIBRARY = json_serde(use_orjson=False)
BOTH = pytest.mark.parametrize("serde", [BY_ORJSON, BY_STANDARD_LIBRARY], ids=["orjson", "stdlib"])


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    label: str
    _hidden: int = 0


scalars = (
    st.none()
    | st.booleans()
    | st.integers(min_value=-(1 << 63), max_value=(1 << 63) - 1)
    | st.floats(min_value=1e-4, max_value=1e15)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=20,
)


@given(documents)
def test_json_is_the_same_with_and_without_orjson(document: Any) -> None:
    data = BY_ORJSON.serialize(document)
    assert BY_STANDARD_LIBRARY.serialize(document) == data
    assert BY_ORJSON.deserialize(data) == BY_STANDARD_LIBRARY.deserialize(data) == document


@BOTH
def test_json_knows_what_python_programs_put_into_it(serde: Serde[Any]) -> None:
    utc = datetime.UTC
    value = {
        "at": datetime.datetime(2024, 1, 2, 3, 4, 5, 600, tzinfo=utc),
        "day": datetime.date(2024, 1, 2),
        "time": datetime.time(3, 4, 5),
        "id": uuid.UUID(int=7),
        "colour": Colour.RED,
        "point": Point(1, "a", 2),
        "tuple": (1, 2),
        "text": "grüße 🚀",
    }
    assert serde.serialize(value).decode() == (
        '{"at":"2024-01-02T03:04:05.000600+00:00","day":"2024-01-02","time":"03:04:05",'
        '"id":"00000000-0000-0000-0000-000000000007","colour":"red","point":{"x":1,"label":"a"},'
        '"tuple":[1,2],"text":"grüße 🚀"}'
    )


@BOTH
@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "data was truncated|Expecting value"),
        (b"{", "data was truncated|Expecting property name"),
        (b"NaN", "invalid character|NaN is not JSON"),
        (b"[1,]", "trailing comma|Expecting value: line 1 column 4"),
        (b"\xff", "invalid character|'utf-8' codec can't decode"),
        (b"[Infinity]", "invalid character|Infinity is not JSON"),
    ],
)
def test_what_is_not_json_is_refused(serde: Serde[Any], data: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        serde.deserialize(data)


@BOTH
def test_what_json_cannot_say_is_refused_when_it_is_written(serde: Serde[Any]) -> None:
    with pytest.raises(TypeError, match="not JSON serializable: object"):
        serde.serialize({"a": object()})
    with pytest.raises((TypeError, ValueError), match="surrogates not allowed"):
        serde.serialize("lone \ud83d")


class Sold(BaseModel):
    at: datetime.date
    cents: float


@BOTH
def test_models_are_written_as_dataclasses_are(serde: Serde[Any]) -> None:
    """They come back as dicts; a model as a serde makes models of them."""
    sold = Sold(at=datetime.date(2025, 1, 31), cents=1.5)
    assert serde.serialize([sold, {"last": sold}]) == (
        b'[{"at":"2025-01-31","cents":1.5},{"last":{"at":"2025-01-31","cents":1.5}}]'
    )
    with pytest.raises(TypeError, match="Type is not JSON serializable: set"):
        serde.serialize({"bought": {1, 2}})


def test_a_default_of_ones_own_writes_models_too() -> None:
    for use_orjson in (True, False):
        serde = json_serde(default=lambda value: type(value).__name__, use_orjson=use_orjson)
        assert serde.serialize([Sold(at=datetime.date(2025, 1, 31), cents=1)]) == b'["Sold"]'


@BOTH
def test_a_kept_value_occupies_little_more_than_its_bytes(serde: Serde[Any]) -> None:
    serde.serialize({"warm": 1})
    tracemalloc.start()
    try:
        kept = [serde.serialize({"number": number, "text": "x" * 150}) for number in range(500)]
        occupied, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert occupied < 2 * sum(map(sys.getsizeof, kept))


@BOTH
@pytest.mark.parametrize("border", [2**63, 2**64, -(2**63), 10**19, 2**256])
def test_integers_of_any_size_come_back_as_they_were(serde: Serde[Any], border: int) -> None:
    """orjson refused to write those beyond 64 bits, and read them as floats: a record that only passed was changed."""
    for number in (border - 1, border, border + 1):
        document = {"wei": number, "more": [number, 1.5, "text"], "text": str(number)}
        data = serde.serialize(document)
        assert data == BY_STANDARD_LIBRARY.serialize(document)
        assert repr(serde.deserialize(data)) == repr(document)


@pytest.mark.parametrize("use_orjson", [True, False])
def test_equal_keys_have_equal_bytes_when_sorted(use_orjson: bool) -> None:
    serde = json_serde(sort_keys=True, use_orjson=use_orjson)
    assert serde.serialize({"b": 1, "a": 2}) == serde.serialize({"a": 2, "b": 1}) == b'{"a":2,"b":1}'


@pytest.mark.parametrize("use_orjson", [True, False])
def test_default_says_what_to_write_for_another_type(use_orjson: bool) -> None:
    serde = json_serde(default=lambda value: [value.real, value.imag], use_orjson=use_orjson)
    assert serde.serialize({"z": 1 + 2j}) == b'{"z":[1.0,2.0]}'


def test_json_works_without_orjson() -> None:
    code = (
        "import sys; sys.modules['orjson'] = None\n"
        "from streams.serdes import json_serde\n"
        "assert json_serde().serialize({'a': [1, None]}) == b'{\"a\":[1,null]}'\n"
        "try: json_serde(use_orjson=True)\n"
        "except ImportError as error: assert 'streams-for-kafka[json]' in str(error)\n"
        "else: raise SystemExit('not refused')\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=True)


def test_json_is_read_alike_without_msgspec() -> None:
    code = (
        "import sys; sys.modules['msgspec'] = None\n"
        "from streams.serdes import json_serde\n"
        "serde, document = json_serde(use_orjson=True), {'a': [2**64, -(2**63) - 1, 1.5, 'text'], 'b': 1}\n"
        "assert serde.deserialize(serde.serialize(document)) == document\n"
        "assert type(serde.deserialize(serde.serialize(document))['a'][0]) is int\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=True)


def test_importing_the_serdes_loads_no_pydantic() -> None:
    code = "import sys, streams.serdes; assert 'pydantic' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=True)


@given(st.lists(st.none() | st.integers(min_value=-(1 << 31), max_value=(1 << 31) - 1)))
def test_lists_of_fixed_size_items_come_back(items: list[int | None]) -> None:
    serde = list_serde(Serdes.INTEGER)
    assert serde.deserialize(serde.serialize(items)) == items


@given(st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]))))
def test_lists_of_other_items_come_back(items: list[str | None]) -> None:
    serde = list_serde(Serdes.STRING)
    assert serde.deserialize(serde.serialize(items)) == items


@given(st.binary(max_size=40), st.sampled_from([Serdes.STRING, Serdes.LONG, Serdes.UUID]))
def test_damaged_lists_are_refused_or_are_lists(data: bytes, inner: Serde[Any]) -> None:
    serde = list_serde(inner)
    try:
        items = serde.deserialize(data)
    except ValueError:
        return
    assert serde.deserialize(serde.serialize(items)) == items


def test_a_list_of_lists_is_a_list() -> None:
    serde = list_serde(list_serde(Serdes.LONG))
    assert serde.name == "list of list of long"
    assert serde.deserialize(serde.serialize([[1, None], None, []])) == [[1, None], None, []]


def test_a_list_binds_its_inner_serde_to_the_topic() -> None:
    class PerTopic(Serde[str]):
        def bind(self, topic: str, *, is_key: bool) -> Serde[str]:
            return serde_of(lambda value: f"{topic}:{is_key}:{value}".encode(), bytes.decode)

    inner = PerTopic(str.encode, bytes.decode)
    bound = list_serde(inner).bind("orders", is_key=True)
    assert bound.deserialize(bound.serialize(["a"])) == ["orders:True:a"]
    plain = list_serde(Serdes.LONG)
    assert plain.bind("orders", is_key=False) is plain


def test_a_string_is_a_str() -> None:
    """A count that was sent as text said that an int has no attribute."""
    with pytest.raises(TypeError, match="string: expected a str, got int"):
        Serdes.STRING.serialize(5)  # type: ignore[arg-type]


def test_a_list_needs_the_serde_of_its_items() -> None:
    with pytest.raises(TypeError, match=r"needs, for its items, a serde, .*; got <class 'str'>; give \"string\""):
        list_serde(str)


def test_only_lists_are_written_as_lists() -> None:
    with pytest.raises(TypeError, match="expected a list, got str"):
        list_serde(Serdes.STRING).serialize("abc")  # type: ignore[arg-type]


class Order(BaseModel):
    order_id: int = Field(alias="orderId")
    note: str | None = None


@dataclasses.dataclass
class Plain:
    amount: int


def test_pydantic_models_are_json_under_their_aliases() -> None:
    serde = pydantic_serde(Order)
    order = Order(orderId=7)
    assert serde.serialize(order) == b'{"orderId":7,"note":null}'
    assert serde.deserialize(serde.serialize(order)) == order
    assert pydantic_serde(Order, exclude_none=True).serialize(order) == b'{"orderId":7}'


def test_pydantic_serves_other_types_too() -> None:
    assert pydantic_serde(Plain).deserialize(b'{"amount":"3"}') == Plain(3)
    either: Serde[Any] = pydantic_serde(Order | Plain)
    assert either.deserialize(b'{"amount":3}') == Plain(3)
    assert either.deserialize(b'{"orderId":3}') == Order(orderId=3)


def test_a_model_that_does_not_fit_is_refused_both_ways() -> None:
    serde = pydantic_serde(Order)
    with pytest.raises(ValueError, match="orderId"):
        serde.deserialize(b'{"note":"x"}')
    with pytest.raises(TypeError, match="pydantic Order: expected Order, got Plain"):
        serde.serialize(Plain(3))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Expected `int`"):
        serde.serialize(Order.model_construct(order_id="seven"))
    with pytest.raises(ValueError, match="Expected"):
        pydantic_serde(Order | Plain).serialize("x")


def test_a_pair_of_functions_is_a_serde() -> None:
    serde = serde_of(str.encode, bytes.decode, name="text")
    assert (serde.serialize("a"), serde.deserialize(b"a"), repr(serde)) == (b"a", "a", "Serde(text)")
    with pytest.raises(TypeError, match="two functions"):
        serde_of("not a function", bytes.decode)  # type: ignore[arg-type]


def test_a_uuid_is_read_as_java_reads_it() -> None:
    assert Serdes.UUID.deserialize(b"1-2-3-4-5") == uuid.UUID("00000001-0002-0003-0004-000000000005")
    for wrong in (b"", b"12345678123456781234567812345678", b"{00000000-0000-0000-0000-000000000000}", b"1-2-3-4-x"):
        with pytest.raises(ValueError, match="not the text of a UUID"):
            Serdes.UUID.deserialize(wrong)
    with pytest.raises(TypeError, match="expected a UUID"):
        Serdes.UUID.serialize("1-2-3-4-5")  # type: ignore[arg-type]
