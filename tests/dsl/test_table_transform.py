"""Transforming the values of a table by transformers that use stores."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsl import KStream, KTable, Materialized, StreamsBuilder, ValueTransformerWithKey
from processor_api.context import ProcessingContext
from processor_api.errors import ProcessingError, StreamsError, TopologyError
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology
from streams.testing.driver import TopologyTestDriver

SETTINGS = {"default.key.serde": "string", "default.value.serde": "string", "default.dsl.store": "in_memory"}

Updates = list[tuple[str, str | None]]

updates = st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.sampled_from(["1", "2", "gone"])), max_size=25)
stores = st.sampled_from([None, Materialized(name="r"), Materialized(name="r", caching=False)])


class Shout(ValueTransformerWithKey[str, str, str]):
    """Keeps nothing; one value deletes, and a deletion is a value."""

    def transform(self, key: str, value: str | None) -> str | None:
        return None if value == "gone" else f"{key}{value}!"


SHOUT = Shout()


class Counted(ValueTransformerWithKey[str, str, str]):
    """Counts its calls for each key in a store."""

    closed: ClassVar[list[str]] = []

    def init(self, context: ProcessingContext) -> None:
        super().init(context)
        self.calls = context.get_state_store("calls")

    def transform(self, key: str, value: str | None) -> str | None:
        count = (self.calls.get(key) or 0) + 1
        self.calls.put(key, count)
        return f"{value}#{count}"

    def close(self) -> None:
        self.closed.append("closed")


class Bringing(Counted):
    @staticmethod
    def stores() -> list[StoreBuilder[Any, Any]]:
        return [calls()]


def calls() -> StoreBuilder[str, int]:
    return Stores.key_value_store("calls", Serdes.STRING, Serdes.LONG)


def changes(made: Topology, *given_updates: tuple[str, str | None]) -> Updates:
    with TopologyTestDriver(made, SETTINGS) as driver:
        driver.create_input_topic("in").pipe_key_values(list(given_updates))
        return driver.create_output_topic("out").read_key_values()


@settings(max_examples=40)
@given(updates, stores)
def test_the_result_is_what_the_transformer_makes_of_each_row(
    given_updates: Updates, result: Materialized[str, str] | None
) -> None:
    builder = StreamsBuilder()
    builder.table("in").transform_values(Shout, materialized=result).to_stream().to("out")
    expected = {key: None if value == "gone" else f"{key}{value}!" for key, value in given_updates}
    found = dict(changes(builder.build(), *given_updates))
    assert {key: value for key, value in found.items() if value} == {key: v for key, v in expected.items() if v}


@settings(max_examples=40)
@given(updates, stores)
def test_a_grouped_result_knows_its_old_values(given_updates: Updates, result: Materialized[str, str] | None) -> None:
    """The count of a group is that of the rows that were transformed into it; deleted rows of the source are rows."""
    builder = StreamsBuilder()
    source: KTable[str, str] = builder.table("in", materialized="t")
    table = source.filter(lambda k, v: True).transform_values(Shout, materialized=result)
    counts = table.group_by(lambda k, v: (v[1:], v)).count()
    counts.map_values(str, materialized=Materialized(value_serde=Serdes.STRING)).to_stream().to("out")
    found = {k: int(v) for k, v in dict(changes(builder.build(), *given_updates)).items() if v not in ("0", None)}
    last = [f"{value}!" for value in dict(given_updates).values() if value not in ("gone", None)]
    assert {group: count for group, count in found.items() if group != "None!"} == {
        group: last.count(group) for group in last
    }


@pytest.mark.parametrize("brought", [False, True])
def test_a_transformer_uses_stores_and_is_closed(brought: bool) -> None:
    """Stores that the builder has, or that the supplier brings along."""
    Counted.closed.clear()
    builder = StreamsBuilder()
    table: KTable[str, str] = builder.table("in")
    if brought:
        table.transform_values(Bringing).to_stream().to("out")
    else:
        builder.add_state_store(calls())
        table.transform_values(Counted, "calls").to_stream().to("out")
    assert changes(builder.build(), ("a", "x"), ("b", "y"), ("a", None)) == [
        ("a", "x#1"),
        ("b", "y#1"),
        ("a", "None#2"),
    ]
    assert Counted.closed == ["closed"]


def test_a_join_looks_rows_up_by_a_transformer_of_its_own() -> None:
    """The reader is connected to the transformer's stores; a row that is not there is transformed too."""
    builder = StreamsBuilder()
    source: KTable[str, str] = builder.table("in")
    other: KTable[str, str] = builder.table("other")
    other.join(source.transform_values(Bringing), lambda a, b: f"{a}/{b}").to_stream().to("out")
    with TopologyTestDriver(builder.build(), SETTINGS) as driver:
        driver.create_input_topic("in").pipe_input("a", "x")
        driver.create_input_topic("other").pipe_key_values([("a", "o"), ("b", "p")])
        assert driver.create_output_topic("out").read_key_values() == [("a", "o/x#2"), ("b", "p/None#1")]


def test_a_transformer_cannot_forward() -> None:
    class Forwarding(Shout):
        def transform(self, key: str, value: str | None) -> str | None:
            context: Any = self.context
            context.forward(Record(key, value, 0))
            return value

    builder = StreamsBuilder()
    builder.table("in").transform_values(Forwarding, name="t").to_stream().to("out")
    with pytest.raises(StreamsError, match="a value transformer cannot forward: return the new value"):
        changes(builder.build(), ("a", "1"))


def test_an_error_of_init_names_the_node() -> None:
    builder = StreamsBuilder()

    class Broken(Shout):
        def init(self, context: ProcessingContext) -> None:
            raise ValueError("no connection")

    builder.table("in").transform_values(Broken, name="t")
    with pytest.raises(
        ProcessingError, match="the transformer of node 't' could not be initialised: ValueError: no con"
    ):
        changes(builder.build())


@pytest.mark.parametrize(
    ("supplier", "message"),
    [
        (Shout(), "needs a supplier, a class or function that makes a new ValueTransformerWithKey"),
        (lambda: SHOUT, "returned the same object twice"),
        (object, "which is not a ValueTransformerWithKey"),
        (lambda: 1 / 0, "the supplier of 't' failed: ZeroDivisionError"),
    ],
)
def test_what_makes_no_transformers_is_refused(supplier: Any, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        StreamsBuilder().table("in").transform_values(supplier, name="t")


def test_stores_are_connected_by_their_names() -> None:
    store: Any = calls()
    with pytest.raises(TopologyError, match="must be connected to stores by their names"):
        StreamsBuilder().table("in").transform_values(Counted, store)
    builder = StreamsBuilder()
    builder.table("in").transform_values(Counted, "nowhere")
    with pytest.raises(TopologyError, match="store 'nowhere' is not added"):
        builder.build()


# ------------------------------------------------------------------ the time and headers of the row


class Dated(ValueTransformerWithKey[Any, Any, Any]):
    """Puts the time and a header of the row behind its value."""

    def transform(self, key: Any, value: Any) -> Any:
        header = self.context.headers.last("h")
        return f"{value} @ {self.context.timestamp} {None if header is None else header.decode()}"


def test_a_transformer_reads_the_time_and_headers_of_its_row() -> None:
    """Was that its context had neither. A deletion has those of its record; outside of a call there are none."""
    made: list[Dated] = []

    def supplier() -> Dated:
        made.append(Dated())
        return made[-1]

    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.table("in").transform_values(supplier).to_stream().to("out")
    with TopologyTestDriver(builder) as driver:
        topic = driver.create_input_topic("in")
        topic.pipe_input("a", "x", timestamp=100, headers=[("h", b"1")])
        topic.pipe_input("a", "y", timestamp=40)
        topic.pipe_input("a", None, timestamp=70, headers=[("h", b"2")])
        found = driver.create_output_topic("out").read_values()
    assert found == ["x @ 100 1", "y @ 40 None", "None @ 70 2"]
    assert [(one.context.timestamp, one.context.headers) for one in made if hasattr(one, "context")] == [(-1, [])]


def test_a_row_that_is_looked_up_has_its_own_time() -> None:
    """As in Kafka Streams, and no headers."""
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    table: KTable[str, str] = builder.table("in").transform_values(Dated)
    stream: KStream[str, str] = builder.stream("asks")
    stream.join(table, lambda ask, found: found).to("out")
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("in").pipe_input("a", "x", timestamp=100, headers=[("h", b"1")])
        for key in ("a", "b"):
            driver.create_input_topic("asks").pipe_input(key, "?", timestamp=500, headers=[("h", b"2")])
        assert driver.create_output_topic("out").read_values() == ["x @ 100 None", "None @ -1 None"]
