"""What a serde of the library reads is equal to what it wrote, or nothing was written (semantics 189, 190)."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import math
import os
import pickle
import struct
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from processor_api.topology.partitioner import partition_for_key
from serde_support import values
from serde_support.values import (
    BERLIN,
    DOCUMENTS,
    NEW_YORK,
    NOON,
    SETS,
    VALUES,
    Colour,
    Hidden,
    Keeps,
    Line,
    Mixed,
    More,
    Order,
    Pair,
    Point,
    Sale,
    Size,
    Text,
    law_serdes,
    written,
)
from streams import (
    Serdes,
    Stores,
    StreamsBuilder,
    StreamsConfig,
    TopologyTestDriver,
    Window,
    Windowed,
    WindowedSerdes,
)
from streams.http.reads import StoreSerdes
from streams.queries.owners import Owners
from streams.serdes import json_serde, list_serde, pydantic_serde
from streams.testing import EmbeddedKafka
from waiting import wait_until

LAW = law_serdes()
BY_STANDARD_LIBRARY = json_serde(use_orjson=False)
WITH_AND_WITHOUT = [json_serde(use_orjson=True), BY_STANDARD_LIBRARY]
SCRIPT = Path(values.__file__)


class Refused(Exception):
    """A value that has no form."""


def same(found: Any, given: Any) -> bool:
    """Whether two values are equal: also NaN, times that Python never calls equal, and what is in containers."""
    if isinstance(given, BaseModel):
        return type(found) is type(given) and same(
            {**vars(found), **(found.model_extra or {})}, {**vars(given), **(given.model_extra or {})}
        )
    if dataclasses.is_dataclass(given) and not isinstance(given, type):
        return type(found) is type(given) and same(vars(found), vars(given))
    if isinstance(given, dict):
        return found.keys() == given.keys() and all(same(found[name], each) for name, each in given.items())
    if isinstance(given, (list, tuple)) and not isinstance(given, Windowed):
        kinds = isinstance(found, list) == isinstance(given, list) and len(found) == len(given)
        return kinds and all(map(same, found, given))
    if isinstance(given, datetime.datetime) and given.tzinfo is not None:
        return found.tzinfo is not None and found.astimezone(datetime.UTC) == given.astimezone(datetime.UTC)
    if isinstance(given, float):
        are_equal = found == given and math.copysign(1, found) == math.copysign(1, given)
        return are_equal or (found != found and given != given)
    return bool(found == given)


def json_form(value: Any) -> Any:
    """What JSON has for a value, written here once more; the list of the types is the whole rule."""
    if isinstance(value, enum.Enum):
        return json_form(value.value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        text = str.__str__(value)
        if not text.isascii() and any(0xD800 <= ord(one) < 0xE000 for one in text):
            raise Refused
        return text
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise Refused
        return float(value)
    if isinstance(value, (list, tuple)):
        return [json_form(each) for each in value]
    if isinstance(value, dict):
        if not all(isinstance(name, str) for name in value):
            raise Refused
        return {json_form(name): json_form(each) for name, each in value.items()}
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, uuid.UUID):
        return f"{value}"
    if isinstance(value, BaseModel):
        try:
            return json_form(value.model_dump(mode="json", warnings="error"))
        except ValueError:
            raise Refused from None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if not field.name.startswith("_")]
        return {name: json_form(getattr(value, name)) for name in names}
    raise Refused


def depth(value: Any) -> int:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(depth, parts), default=0) if isinstance(value, (dict, list)) else 0


texts = st.text() | st.sampled_from(["\ud83d", "null", "a\udc00b", "1e5"]) | st.text().map(Text) | st.just(Colour.RED)
integers = st.integers() | st.integers(-(2**70), 2**70) | st.just(Size.SMALL)
times = st.builds(
    lambda time, zone, fold: time.replace(tzinfo=zone, fold=fold),
    st.datetimes(datetime.datetime(1800, 1, 1), datetime.datetime(2200, 1, 1)),  # noqa: DTZ001 - the zone is drawn
    st.sampled_from([None, datetime.UTC, BERLIN, NEW_YORK, datetime.timezone(datetime.timedelta(seconds=3601))]),
    st.integers(0, 1),
)
chosen = st.integers(0, len(VALUES) - 1).map(VALUES.__getitem__)
scalars = (
    st.none() | st.booleans() | integers | st.floats() | texts | times | st.uuids() | st.dates() | st.decimals()
    | st.binary() | st.timedeltas() | chosen
)  # fmt: skip
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(texts, inner, max_size=4)
        | st.dictionaries(integers | texts, inner, max_size=2)
        | st.tuples(inner, inner)
        | st.builds(Pair, inner, inner)
        | st.builds(Point, inner, inner)
        | st.frozensets(st.integers() | st.text(), max_size=3)
    ),
    max_leaves=8,
)


# ------------------------------------------------------------------------------ what comes back


@given(anything)
def test_json_reads_the_form_of_what_it_wrote_and_writes_nothing_else(value: Any) -> None:
    """It wrote NaN as null and, without orjson, names that are no texts as texts."""
    try:
        form = json_form(value)
    except Refused:
        form = Refused
    if form is not Refused and depth(form) > 254:
        form = Refused
    for serde in WITH_AND_WITHOUT:
        data = written(serde, value)
        assert (data is None) == (form is Refused or value is None), (value, data)
        if data is not None:
            for reader in WITH_AND_WITHOUT:
                assert same(reader.deserialize(data), form)


@given(anything)
def test_keys_of_json_have_the_same_bytes_with_and_without_orjson(value: Any) -> None:
    """Dataclasses, offsets of zones and floats with an exponent had others."""
    first, second = (written(serde.bind("t", is_key=True), value) for serde in WITH_AND_WITHOUT)
    assert first == second
    if first is not None:
        again = BY_STANDARD_LIBRARY.deserialize(first)
        assert written(WITH_AND_WITHOUT[0].bind("t", is_key=True), again) == first


def mixed(value: Any) -> Any:
    return st.builds(
        Mixed,
        amount=st.floats(),
        price=st.decimals(allow_nan=False, allow_infinity=False),
        at=st.none() | times,
        tags=st.dictionaries(st.text(), st.integers(), max_size=3),
        names=st.frozensets(st.text(), max_size=4),
        anything=value,
        either=st.none() | st.integers() | st.floats() | st.text(),
    )


orders = st.builds(
    Order,
    id=st.text(),
    lines=st.lists(st.builds(Line, item=st.text(), cents=st.integers()), max_size=3),
    note=st.none() | st.text(),
    key=st.none() | st.uuids(),
    day=st.none() | st.dates(),
    pair=st.none() | st.tuples(st.integers(), st.text()),
    wait=st.none() | st.timedeltas(),
)
sales = st.builds(Sale, item=st.text(), cents=st.integers(), tags=st.dictionaries(st.text(), st.integers(), max_size=3))
windows = st.builds(
    Windowed,
    anything,
    st.builds(lambda start, size: Window(start, start + size), st.integers(0, 2**40), st.sampled_from([10, 10, 11])),
)

TYPED: dict[str, Any] = {
    "string": texts,
    "bytes": st.binary() | st.binary().map(bytearray) | st.binary().map(memoryview),
    "integer": integers,
    "long": integers,
    "short": st.integers(-40_000, 40_000),
    "double": st.floats() | integers | st.decimals() | st.fractions(),
    "boolean": st.booleans(),
    "uuid": st.uuids(),
    "list of long": st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)),
    "list of string": st.lists(st.none() | texts),
    "Order": orders,
    "Line": st.builds(Line, item=texts, cents=integers) | st.builds(More),
    "Mixed": mixed(anything),
    "Hidden": st.builds(Hidden, shown=st.integers(), hidden=st.integers(0, 1)),
    "Keeps": st.builds(Keeps, line=st.builds(Line, item=st.text()) | st.builds(More)),
    "Sale": sales,
    "window": windows,
    "session": windows,
}  # fmt: skip


@pytest.mark.parametrize("name", TYPED)
def test_what_is_read_is_what_was_written_or_nothing_was(name: str) -> None:
    as_value, as_key = LAW[f"{name} as value"], LAW[f"{name} as key"]

    @given(TYPED[name] | chosen)
    def law(value: Any) -> None:
        for serde in (as_value, as_key):
            data = None if value is None else written(serde, value)
            if data is None:
                continue
            found = serde.deserialize(data)
            if name in ("window", "session"):
                assert found.window == value.window
                assert written(serde, found) == data
            else:
                assert same(found, list(value) if name.startswith("list") else value)

    law()


finite = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize(
    ("name", "ordinary"),
    [
        ("string", st.text()),
        ("double", st.floats()),
        ("long", st.integers(-(2**63), 2**63 - 1)),
        ("Order", orders),
        ("Sale", sales),
        ("Mixed", st.builds(Mixed, amount=finite, tags=st.dictionaries(st.text(), st.integers()))),
        ("json", st.dictionaries(st.text(), st.none() | st.booleans() | st.lists(st.integers() | finite))),
    ],
)
def test_ordinary_values_are_written(name: str, ordinary: Any) -> None:
    @given(ordinary)
    def law(value: Any) -> None:
        for part in ("value", "key"):
            assert value is None or written(LAW[f"{name} as {part}"], value) is not None

    law()


@given(st.floats() | integers)
def test_a_float_of_32_bits_is_the_nearest_and_then_stays(value: Any) -> None:
    data = written(Serdes.FLOAT, value)
    if data is not None:
        found = Serdes.FLOAT.deserialize(data)
        assert same(found, struct.unpack(">f", struct.pack(">f", value))[0])
        assert written(Serdes.FLOAT, found) == data


@given(st.binary(max_size=40) | st.text().map(str.encode) | st.uuids().map(lambda one: f"{one}".encode()))
def test_bytes_that_are_read_are_written_again(data: bytes) -> None:
    """Strings and UUIDs read different bytes as one value: two keys became one."""
    for name in ("string", "bytes", "integer", "long", "short", "double", "boolean"):
        serde = LAW[f"{name} as key"]
        try:
            found = serde.deserialize(data)
        except ValueError:
            continue
        assert found != found or serde.serialize(found) == data


@pytest.mark.parametrize(
    "long", [b"123456789-1-1-1-1", b"1-12345-1-1-1", b"1-1-1-1-1234567890123", b"1-1-1-12345-1", b"1-1-12345-1-1"]
)
def test_a_uuid_is_not_cut(long: bytes) -> None:
    with pytest.raises(ValueError, match="not the text of a UUID"):
        Serdes.UUID.deserialize(long)


def test_a_window_of_another_size_is_refused() -> None:
    """It came back with the end that the serde thought of."""
    serde = WindowedSerdes.time_windowed_serde_from("string", 10)
    with pytest.raises(ValueError, match="starts at 0 ends at 5: with the size of this serde, 10 ms"):
        serde.serialize(Windowed("a", Window(0, 5)))
    with pytest.raises(TypeError, match=r"needs Windowed\(key, window\), got 'a'"):
        serde.serialize("a")  # type: ignore[arg-type]


@dataclasses.dataclass
class Sized:
    size: Literal["s", "m"]


def test_the_error_says_where() -> None:
    with pytest.raises(ValueError, match=r"json: nan is not JSON; .* \(at \['lines'\]\[1\]\['price'\]\)"):
        Serdes.JSON.serialize({"lines": [{"price": 1.5}, {"price": math.nan}]})
    with pytest.raises(TypeError, match=r"Dict key must be str.* got 5 \(at \['by id'\]\[5\]\)"):
        Serdes.JSON.serialize({"by id": {5: 1}})
    with pytest.raises(ValueError, match=r"pydantic Keeps: it\.line would come back as Line"):
        pydantic_serde(Keeps).serialize(Keeps(line=More()))
    with pytest.raises(ValueError, match=r"pydantic Hidden: it\.hidden would come back as 1, not 2"):
        pydantic_serde(Hidden).serialize(Hidden(hidden=2))
    with pytest.raises(ValueError, match=r"pydantic Mixed: its written form could not be read: .*amount"):
        pydantic_serde(Mixed).serialize(Mixed(amount=math.nan))
    with pytest.raises(ValueError, match=r"pydantic Sized: its written form could not be read: .*size"):
        pydantic_serde(Sized).serialize(Sized("xl"))  # type: ignore[arg-type]


def test_what_is_no_json_is_refused_by_each_reader() -> None:
    for document in DOCUMENTS:
        found = []
        for serde in WITH_AND_WITHOUT:
            try:
                found.append(repr(serde.deserialize(document)))
            except ValueError:
                found.append("refused")
        assert found[0] == found[1], document


# ------------------------------------------------------------------------------ keys


def shuffled(value: Any, draw: Callable[[Any], Any]) -> Any:
    """The same value, with its dicts and sets filled in another order and its times in another zone."""
    if isinstance(value, Mixed):
        return Mixed(**{name: shuffled(each, draw) for name, each in dict(value).items()})
    if isinstance(value, dict):
        return {name: shuffled(value[name], draw) for name in draw(st.permutations(list(value)))}
    if isinstance(value, (list, tuple)):
        return type(value)([shuffled(each, draw) for each in value])
    if isinstance(value, frozenset):
        return frozenset(draw(st.permutations(list(value))))
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(draw(st.sampled_from([BERLIN, NEW_YORK, datetime.UTC])))
    return value


documents = st.recursive(
    st.none() | st.integers() | st.floats() | st.text() | times,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@given(st.data())
def test_equal_keys_have_equal_bytes(data: Any) -> None:
    """Models had those of the order in which dicts and sets were filled."""
    for name, drawn in (("json", documents), ("Mixed", mixed(st.none())), ("json by default", documents)):
        value = data.draw(drawn)
        found = [written(LAW[f"{name} as key"], each) for each in (value, shuffled(value, data.draw))]
        assert None in found or found[0] == found[1]


def test_a_key_is_looked_for_where_its_one_form_lies() -> None:
    """Queries from outside took the bytes of the order of a dict, and asked another worker than that of the key."""
    config = StreamsConfig(application_id="a", bootstrap_servers="b:1")
    first, second = {"a": 1, "b": 2}, {"b": 2, "a": 1}
    for serde, keys in (("json", (first, second)), (Mixed, (Mixed(tags=first), Mixed(tags=second)))):
        places = [Owners._partition("counts", "in", key, serde, 1000, None) for key in keys]
        written_over_http = StoreSerdes(Stores.key_value_store("counts", serde, "long"), config).write_key
        assert places[0] == places[1] == partition_for_key(written_over_http(keys[1]), 1000)


def test_numbers_of_different_types_are_different_keys() -> None:
    keys = [1, 1.0, True, 0.0, -0.0, "1"]
    assert len({Serdes.JSON.bind("t", is_key=True).serialize(key) for key in keys}) == len(keys)
    assert Serdes.DOUBLE.serialize(0.0) != Serdes.DOUBLE.serialize(-0.0)


def test_models_of_simple_types_have_as_keys_the_bytes_that_they_have_as_values() -> None:
    for model in (Order, Line, Keeps):
        serde = pydantic_serde(model)
        assert serde.bind("t", is_key=True) is serde
    serde = pydantic_serde(Mixed)
    value = Mixed(amount=2.5, tags={"a": 1, "b": 2}, at=NOON)
    assert serde.bind("t", is_key=True).serialize(value) == serde.serialize(value)


def test_a_key_without_what_was_not_given_is_refused() -> None:
    serde = pydantic_serde(Line, exclude_unset=True)
    with pytest.raises(ValueError, match="exclude_unset omits fields that were not given, so equal keys"):
        serde.bind("t", is_key=True).serialize(Line())


@pytest.mark.parametrize("name", LAW)
def test_serdes_of_other_processes_write_the_same(name: str) -> None:
    """They go there by pickle, those of keys too."""
    serde, found = LAW[name], pickle.loads(pickle.dumps(LAW[name]))
    for value in VALUES:
        assert value is None or written(found, value) == written(serde, value)


def of_a_process(seed: int, *missing: str) -> Any:
    done = subprocess.run(
        [sys.executable, SCRIPT, *missing],
        env={**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": str(SCRIPT.parents[1])},
        capture_output=True,
        check=True,
        text=True,
    )
    return json.loads(done.stdout)


def test_each_process_writes_the_same_whichever_packages_it_has() -> None:
    first = of_a_process(1)
    assert sum("as key" in name for name in first) > 150
    for seed, *missing in ((2, "orjson"), (3, "msgspec"), (4, "orjson", "msgspec")):
        assert of_a_process(seed, *missing) == first, missing


# ------------------------------------------------------------------------------ driver and worker


def counted() -> StreamsBuilder:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    lines = builder.stream("in")
    make = {"a": lambda: Mixed(tags={"a": 1, "b": 2}), "b": lambda: Mixed(tags={"b": 2, "a": 1})}
    by_model = lines.group_by(lambda _, value: make[value](), key_serde=Mixed)
    by_model.count(materialized="models").to_stream().to("models", key_serde=Mixed, value_serde="long")
    by_json = lines.group_by(lambda _, value: make[value](), key_serde="json")
    by_json.count(materialized="documents").to_stream().to("documents", key_serde="json", value_serde="long")
    lines.map_values(lambda value: {"model": make[value]()}).to("values", value_serde="json")
    return builder


def test_models_are_keys_and_documents_in_the_driver_and_in_a_worker() -> None:
    with TopologyTestDriver(counted()) as driver:
        driver.create_input_topic("in").pipe_key_values([("1", "a"), ("2", "b")])
        for topic in ("models", "documents"):
            assert [row.value for row in driver.create_output_topic(topic).read_records()] == [1, 2]
    with EmbeddedKafka() as kafka:
        kafka.create_topics("in", "models", "documents", "values")
        app = kafka.start(counted())
        kafka.create_input_topic("in", "string", "string").pipe_key_values([("1", "a"), ("2", "b")])
        for topic, serde in (("models", Mixed), ("documents", "json")):
            total = 0
            while total < 2:
                (row,) = kafka.read_records(topic, 1, serde, "long")
                total = row.value
        assert app.failure is None


def test_a_value_that_would_not_come_back_fails_where_it_is_written_in_both() -> None:
    """NaN became null, and an application failed later, at a None that nobody had written."""
    builder = StreamsBuilder(key_serde="string", value_serde="json")
    builder.stream("in").map_values(lambda value: {"mean": math.nan}).to("out")
    says = r"the value cannot be written to topic 'out': NotFinite: json: nan is not JSON.*\['mean'\]"
    with TopologyTestDriver(builder) as driver, pytest.raises(Exception, match=says):
        driver.create_input_topic("in").pipe_input("a", {})
    with EmbeddedKafka() as kafka:
        kafka.create_topics("in", "out")
        app = kafka.start(builder)
        kafka.create_input_topic("in", "string", "json").pipe_input("a", {})
        wait_until("it has failed", lambda: app.failure is not None)
        assert "json: nan is not JSON" in str(app.failure)


def test_sets_in_the_values_of_the_law_are_tried() -> None:
    assert len(SETS) == 4
    assert written(list_serde("json"), [Order(id="1"), None]) is not None
