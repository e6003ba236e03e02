"""An error that shows after a node's call names the line of the user's script that made the node."""

from __future__ import annotations

from typing import Any

import pytest

from dsl import StreamsBuilder
from processor_api.errors import StreamsError
from processor_api.user_code.lines import Line, at, text_of, user_line
from streams.kafka.topics.internal import repartition_counts

HEAD = """
from streams import *

class Pass(Processor):
    def process(self, record):
        self.context.forward(record)

builder = StreamsBuilder()
orders = builder.stream("orders")
settings = {"default.key.serde": "string", "default.value.serde": "string"}
"""


def error_of(body: str) -> tuple[StreamsError, list[int]]:
    """Runs a script named orders.py; returns its error, and the numbers of its lines marked ``# here``."""
    script = HEAD + body
    with pytest.raises(StreamsError) as caught:
        exec(compile(script, "orders.py", "exec"), {"__name__": "__main__"})
    return caught.value, [n for n, line in enumerate(script.splitlines(), 1) if line.endswith("# here")]


BUILD: dict[str, str] = {
    "a node's name twice": """
orders.map_values(str.upper, name="m").to("big")
orders.map_values(str.lower, name="m").to("small")  # here
builder.build()
""",
    "a store's name twice": """
orders.group_by_key().count(materialized="n")
orders.group_by_key().count(materialized="n")  # here
builder.build()
""",
    "an unknown store": """
orders.process(Pass, "nowhere")  # here
builder.build()
""",
    "a call of several lines": """
orders.process(  # here
    Pass,
    "nowhere",
)
builder.build()
""",
    "overlapping topics": """
builder.stream(["orders", "more"])  # here
builder.build()
""",
    "another offset reset": """
builder.stream("orders", Consumed(offset_reset=AutoOffsetReset.latest()))  # here
builder.build()
""",
    "two tables of one topic": """
builder.table("t")
builder.table("t")  # here
builder.build()
""",
    "a processor that could change keys": """
orders.process_values(Pass)  # here
builder.build()
""",
    "one processor for all": """
one = Pass()
orders.process(lambda: one)  # here
builder.build()
""",
    "a versioned table is suppressed": """
versions = Materialized.as_(Stores.persistent_versioned_key_value_store("v", 1000))
table = builder.table("t", materialized=versions)
table.suppress(Suppressed.until_time_limit(10, BufferConfig.unbounded()))  # here
builder.build()
""",
    "the user's suppliers fail": """
class Broken(DslStoreSuppliers):
    def key_value_store(self, params): raise OSError("no disk")
    def window_store(self, params): raise OSError("no disk")
    def session_store(self, params): raise OSError("no disk")

orders.group_by_key().count(materialized=Materialized(store_type=Broken()))  # here
builder.build()
""",
    "a wrapper fails": """
def wrap(name, supplier):
    if name == "p":
        raise OSError("no")
    return supplier

orders.process(Pass, name="p")  # here
builder.build({"processor.wrapper.class": wrap})
""",
    "a serde is missing": """
topology = Topology().add_source("s", "orders", value_serde="string")
topology.add_sink("t", "out", "s")  # here
TopologyTestDriver(topology, {"default.key.serde": "string"})
""",
    "a user's function fails": """
orders.map_values(  # here
    lambda order: order + 1,
).to("out")
with TopologyTestDriver(builder.build(), settings) as driver:
    driver.create_input_topic("orders").pipe_value("tea")
""",
    "a joiner fails": """
table = builder.table("t")
orders.left_join(table, lambda order, price: order + price, joined="priced").to("out")  # here
with TopologyTestDriver(builder.build(), settings) as driver:
    driver.create_input_topic("orders").pipe_input("a", "tea")
""",
    "a processor fails at its start": """
class Late(Pass):
    def init(self, context):
        context.get_state_store("nowhere")

topology = Topology().add_source("s", "orders")
topology.add_processor("late", Late, "s")  # here
TopologyTestDriver(topology, settings)
""",
    "a processor fails": """
class Broken(Processor):
    def process(self, record):
        raise ValueError("no")

topology = Topology()
topology.add_source("s", "orders").add_processor("broken", Broken, "s")  # here
with TopologyTestDriver(topology, settings) as driver:
    driver.create_input_topic("orders").pipe_value("tea")
""",
    "a global store's processor fails": """
class Broken(Processor):
    def process(self, record):
        raise ValueError("no")

store = Stores.key_value_store_builder(Stores.in_memory_key_value_store("s"))
builder.add_global_store(store, "prices", None, Broken)  # here
with TopologyTestDriver(builder.build(), settings) as driver:
    driver.create_input_topic("prices").pipe_value("tea")
""",
}


@pytest.mark.parametrize("script", BUILD.values(), ids=BUILD)
def test_an_error_ends_with_the_line_that_made_the_node(script: str) -> None:
    error, (line,) = error_of(script)
    by = "" if error.made_by is None else f" by {error.made_by}"
    assert str(error).endswith(f", made at orders.py:{line}{by}")
    assert error.made_at == f"orders.py:{line}"


def test_an_error_of_a_record_names_the_call_that_made_the_node() -> None:
    """With the names of the user's functions, and those of stores that have one."""
    error, _ = error_of(BUILD["a user's function fails"])
    assert error.made_by == "map_values(lambda)"
    error, _ = error_of(BUILD["a joiner fails"])
    assert error.made_by == "left_join(lambda)"
    error, _ = error_of(BUILD["a processor fails"])
    assert str(error).endswith(" by add_processor(Broken)")
    error, _ = error_of(BUILD["a global store's processor fails"])
    assert error.made_by == "add_global_store(Broken, s)"


def test_a_name_that_is_taken_has_the_line_of_the_first() -> None:
    error, (first, second) = error_of("""
orders.map_values(str.upper, name="m")  # here
orders.map_values(str.lower, name="m")  # here
builder.build()
""")
    assert f"a node named 'm' is already added at orders.py:{first}:" in str(error)
    assert error.made_at == f"orders.py:{second}"


def test_a_store_and_a_topic_that_are_taken_have_the_line_of_the_first() -> None:
    error, (first, second) = error_of("""
orders.group_by_key().count(materialized="n")  # here
builder.table("t", materialized="n")  # here
builder.build()
""")
    assert f"a store named 'n' is already added at orders.py:{first}:" in str(error)
    assert error.made_at == f"orders.py:{second}"
    error, (line,) = error_of("""
topology = Topology().add_source("one", "orders")  # here
topology.add_source("two", "orders")
""")
    assert f"is already read by source 'one' at orders.py:{line};" in str(error)


def test_streams_of_two_builders_are_named_with_their_lines() -> None:
    """Their names may be the same."""
    for call in (
        "one.merge(two)",
        "one.join(two, max, windows=JoinWindows.of_time_difference_with_no_grace(5))",
        "one.join(other.table('t'), max)",
        "one.to_table().join(two.to_table(), max)",
        "one.to_table().foreign_key_join(two.to_table(), len, max)",
        "one.group_by_key().cogroup(max).cogroup(two.group_by_key(), max)",
    ):
        error, (first, second) = error_of(
            f"""
one = builder.stream("a")  # here
other = StreamsBuilder()
two = other.stream("b")  # here
{call}
""".replace("max", "lambda *given: None")
        )
        lines = f"orders.py:{first}", f"orders.py:{second}"
        assert "come from different builders: use one StreamsBuilder" in str(error)
        if "table" not in call:
            assert all(f" at {line}" in str(error) for line in lines)
    error, (first, second) = error_of("""
one = builder.stream("a")  # here
prices = StreamsBuilder().global_table("g")  # here
one.join(prices, lambda order, price: None, key_selector=lambda key, value: key)
""")
    assert f"'KSTREAM-SOURCE-0000000001' at orders.py:{first} and 'KTABLE-SOURCE-0000000002' at orders.py:{second}" in (
        str(error)
    )


def test_each_generated_name_has_its_line() -> None:
    error, lines = error_of("""
words = orders.group_by(lambda key, value: value)
words.count()  # here
later = Suppressed.until_time_limit(10, BufferConfig.unbounded())
builder.table("t", materialized="t").suppress(later)  # here
orders.join(orders, lambda one, other: one, windows=JoinWindows.of_time_difference_with_no_grace(5))  # here
builder.build({"ensure.explicit.internal.resource.naming": True})
""")
    for line in lines:
        assert f" at orders.py:{line}" in str(error)


def test_topics_that_cannot_be_copartitioned_have_the_lines_that_read_them() -> None:
    builder = StreamsBuilder()
    table: Any = builder.table("prices")
    builder.stream("orders").join(table, lambda order, price: order).to("out")
    here = text_of(user_line())
    assert here is not None
    name, number = here.rsplit(":", 1)
    with pytest.raises(StreamsError) as caught:
        repartition_counts(builder.build(), {"prices": 3, "orders": 2})
    assert "need the same number of partitions: 'orders' has 2, 'prices' has 3" in str(caught.value)
    at_orders, at_prices = f"{name}:{int(number) - 1} (topic 'orders')", f"{name}:{int(number) - 2} (topic 'prices')"
    assert str(caught.value).endswith(f", made at {at_orders}, {at_prices}")
    with pytest.raises(StreamsError, match=r"source topics do not exist: 'orders'.*, made at .*\(topic 'orders'\)$"):
        repartition_counts(builder.build(), {"prices": 3})


def test_nodes_of_merged_repartition_topics_keep_a_line() -> None:
    builder = StreamsBuilder()
    moved: Any = builder.stream("in").select_key(lambda key, value: value)
    moved.group_by_key().count(materialized="a")
    here = user_line()
    moved.group_by_key().count(materialized="b")
    topology = builder.build({"topology.optimization": "all"})
    assert here is not None
    made = {name: topology.line_of(name) for name in topology.nodes}
    assert all(made.values())
    assert made["a-repartition-source"] == str(here._replace(number=here.number - 1))


def test_a_file_in_the_working_directory_is_named_from_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    line = Line(str(tmp_path / "apps" / "orders.py"), 14)
    assert str(line) == f"{tmp_path}/apps/orders.py:14"
    monkeypatch.chdir(tmp_path)
    assert (str(line), at(line), at(None), text_of(None)) == ("apps/orders.py:14", " at apps/orders.py:14", "", None)


def test_equal_plans_are_equal_wherever_they_were_made() -> None:
    """The line is no part of what a node is."""

    def built(name: str) -> StreamsBuilder:
        builder = StreamsBuilder()
        builder.stream("in").group_by_key().count(materialized=name)
        return builder

    one = built("n")
    other = StreamsBuilder()
    other.stream("in").group_by_key().count(materialized="n")
    assert one.build().nodes == other.build().nodes
