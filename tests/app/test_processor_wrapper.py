"""Wrapped processors (KIP-1112), and suppliers that bring stores along."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from dsl import Grouped, StreamsBuilder
from processor_api.errors import ConfigError, ProcessingError, TopologyError
from processor_api.processor import FixedKeyProcessor, Processor
from processor_api.record import FixedKeyRecord, Record
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology
from processor_api.topology.wrapper import OperatorSupplier, ProcessorWrapper
from runtime_support.running_app import Cluster, counting
from streams.config import StreamsConfig
from streams.testing import TopologyTestDriver

S = Serdes.STRING
SETTINGS = {"default.key.serde": S, "default.value.serde": S}
WRAPPER = "processor.wrapper.class"


def store(name: str) -> StoreBuilder[Any, Any]:
    return Stores.key_value_store_builder(Stores.in_memory_key_value_store(name), S, Serdes.LONG)


class Calls:
    """Counts the calls of a processor in a store of the wrapper's own."""

    def __init__(self, name: str, supplier: Any) -> None:
        self.name = name
        self.supplier = supplier
        self.builder = store(f"calls-{name}")

    def stores(self) -> Iterable[StoreBuilder[Any, Any]]:
        return [*(self.supplier.stores() if hasattr(self.supplier, "stores") else ()), self.builder]

    def __call__(self) -> Any:
        inner = self.supplier()
        base: Any = FixedKeyProcessor if isinstance(inner, FixedKeyProcessor) else Processor

        class Wrapped(base):  # type: ignore[misc]
            def init(wrapped, context: Any) -> None:  # noqa: N805
                wrapped.calls = context.get_state_store(self.builder.name)
                inner.init(context)

            def process(wrapped, record: Any) -> None:  # noqa: N805
                wrapped.calls.put("calls", (wrapped.calls.get("calls") or 0) + 1)
                inner.process(record)

            def close(wrapped) -> None:  # noqa: N805
                inner.close()

        return Wrapped()


class CountingWrapper(ProcessorWrapper):
    def __init__(self) -> None:
        self.configured: list[Any] = []
        self.seen: list[str] = []

    def configure(self, configs: Any) -> None:
        self.configured.append(configs["application.id"])

    def wrap_processor_supplier(self, name: str, supplier: Any) -> Any:
        self.seen.append(name)
        return Calls(name, supplier)

    def wrap_fixed_key_processor_supplier(self, name: str, supplier: Any) -> Any:
        self.seen.append(f"fixed {name}")
        return Calls(name, supplier)


class Upper(FixedKeyProcessor[str, str, str]):
    def process(self, record: FixedKeyRecord[str, str]) -> None:
        self.context.forward(record.with_value(record.value.upper()))


class Numbering:
    """A supplier with a store of its own."""

    def stores(self) -> Iterable[StoreBuilder[Any, Any]]:
        return [store("numbers")]

    def __call__(self) -> Processor[Any, Any, Any, Any]:
        return _Numbering()


class _Numbering(Processor[Any, Any, Any, Any]):
    def init(self, context: Any) -> None:
        super().init(context)
        self.numbers = context.get_state_store("numbers")

    def process(self, record: Record[Any, Any]) -> None:
        number = (self.numbers.get("n") or 0) + 1
        self.numbers.put("n", number)
        self.context.forward(record.with_value(f"{record.value}#{number}"))


def of_processors() -> Topology:
    topology = Topology().add_source("source", "in").add_processor("numbers", Numbering(), "source")
    return topology.add_processor("upper", Upper, "numbers").add_sink("sink", "out", "upper")


def of_operators(config: Any = None) -> Topology:
    builder = StreamsBuilder()
    words = builder.stream("in").flat_map_values(str.split, name="split").filter(lambda k, v: v != "no", name="filter")
    counts = words.group_by(lambda k, v: v, Grouped(name="words")).count(materialized="counts")
    counts.to_stream().map_values(str, name="text").to("out")
    return builder.build(config)


def run(topology: Topology, wrapper: Any, *values: str) -> tuple[list[Any], dict[str, Any]]:
    """What comes out, and the stores' rows."""
    with TopologyTestDriver(topology, {**SETTINGS, WRAPPER: wrapper}) as driver:
        inputs, output = driver.create_input_topic("in", S, S), driver.create_output_topic("out", S, S)
        for value in values:
            inputs.pipe_input("k", value)
        stores = {name: dict(found.all()) for name, found in driver.get_all_state_stores().items()}
        return output.read_key_values(), stores


# ------------------------------------------------------------------ wrappers


def test_users_processors_are_wrapped_with_their_stores() -> None:
    """Of both kinds; the wrapper's stores are connected beside those of the supplier."""
    wrapper = CountingWrapper()
    out, stores = run(of_processors(), wrapper, "a", "b")
    assert out == [("k", "A#1"), ("k", "B#2")]
    assert stores == {"numbers": {"n": 2}, "calls-numbers": {"calls": 2}, "calls-upper": {"calls": 2}}
    assert wrapper.seen == ["numbers", "fixed upper"]
    assert wrapper.configured == ["test-application"]


def test_operators_of_the_dsl_are_wrapped_too() -> None:
    """With the results they have without, and their own stores."""
    plain, stores = run(of_operators(), lambda name, supplier: supplier, "x y no", "x")
    wrapper = CountingWrapper()
    wrapped, with_calls = run(of_operators(), wrapper, "x y no", "x")
    assert wrapped == plain == [("x", "1"), ("y", "1"), ("x", "2")]
    calls = {name.removeprefix("calls-"): found["calls"] for name, found in with_calls.items() if "calls-" in name}
    assert (calls["split"], calls["filter"], calls["text"]) == (2, 4, 3)
    assert set(calls) == set(wrapper.seen)
    assert stores.keys() <= with_calls.keys()


def test_a_wrapper_may_look_at_what_is_forwarded() -> None:
    """By a context of its own, which hands on what it does not know."""
    forwarded: list[tuple[str, Any]] = []

    class Watching:
        def __init__(self, name: str, context: Any) -> None:
            self._name, self._context = name, context

        def __getattr__(self, name: str) -> Any:
            return getattr(self._context, name)

        def forward(self, record: Any, child: str | None = None) -> None:
            forwarded.append((self._name, record.value))
            self._context.forward(record, child)

    def watch(name: str, supplier: Any) -> Callable[[], Any]:
        class Watched(Processor[Any, Any, Any, Any]):
            def init(self, context: Any) -> None:
                self.inner = supplier()
                self.inner.init(Watching(name, context))

            def process(self, record: Any) -> None:
                self.inner.process(record)

        return Watched

    out, _ = run(of_operators(), watch, "x y no")
    assert out == [("x", "1"), ("y", "1")]
    assert [value for name, value in forwarded if name == "split"] == ["x", "y", "no"]
    assert [value for name, value in forwarded if name == "filter"] == ["x", "y"]
    assert [value for name, value in forwarded if name == "text"] == ["1", "1"]


def test_a_topology_built_with_the_configuration_shows_the_wrappers_stores() -> None:
    """And is not wrapped again where it runs, nor is the first one changed by it."""
    wrapper = CountingWrapper()
    config = StreamsConfig.of({"application.id": "a", "bootstrap.servers": "b:1", **SETTINGS, WRAPPER: wrapper})
    built = of_operators(config)
    assert "calls-split" in built.describe()
    seen = len(wrapper.seen)
    with TopologyTestDriver(built, config) as driver:
        driver.create_input_topic("in", S, S).pipe_input("k", "x")
        assert dict(driver.get_state_store("calls-split").all()) == {"calls": 1}
    assert len(wrapper.seen) == seen
    assert wrapper.configured == ["a"]
    plain = of_processors()
    assert plain.wrapped_by(CountingWrapper(), {"application.id": "a"}) is not plain
    assert "calls-" not in plain.describe()


def test_a_wrapper_that_leaves_everything_alone_costs_nothing() -> None:
    topology = of_operators()
    same = topology.wrapped_by(ProcessorWrapper(), {})
    assert [node.supplier for node in same.nodes.values() if hasattr(node, "supplier")] == [
        node.supplier for node in topology.nodes.values() if hasattr(node, "supplier")
    ]


def test_a_wrapper_is_named_by_its_import_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: Cluster
) -> None:
    """In a running application; a class is made an object of."""
    (tmp_path / "my_wrapper.py").write_text(
        "from streams import ProcessorWrapper\n"
        "seen = []\n"
        "class Mine(ProcessorWrapper):\n"
        "    def wrap_processor_supplier(self, name, supplier):\n"
        "        seen.append(name)\n"
        "        return supplier\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    app = cluster.app(counting(), {WRAPPER: "my_wrapper:Mine"})
    cluster.send("a")
    cluster.until_out("a=1")
    assert sys.modules["my_wrapper"].seen == ["p"]
    assert app.failure is None


@pytest.mark.parametrize(
    ("wrapper", "says"),
    [
        (lambda name, supplier: 1 / 0, "the processor wrapper failed at node 'numbers': ZeroDivisionError"),
        (
            lambda name, supplier: None,
            "the processor wrapper returned None for node 'numbers', which is not a supplier",
        ),
        (lambda name, supplier: object, "the supplier of processor 'numbers' made <object"),
        (lambda name, supplier: Upper, "the processor wrapper must make a Processor at node 'numbers'"),
    ],
)
def test_a_wrapper_that_gives_no_supplier_names_the_node(wrapper: Any, says: str) -> None:
    with pytest.raises(TopologyError) as caught:
        of_processors().wrapped_by(wrapper, {})
    assert says in str(caught.value)


def test_what_is_no_wrapper_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"processor.wrapper.class must be a ProcessorWrapper, a function, or"):
        StreamsConfig.of({"application.id": "a", "bootstrap.servers": "b:1", WRAPPER: 5})


def test_an_operator_needs_the_context_of_a_task() -> None:
    class Blind:
        def forward(self, record: Any, child: str | None = None) -> None: ...

    def blind(name: str, supplier: Any) -> Any:
        class Wrapped(Processor[Any, Any, Any, Any]):
            def init(self, context: Any) -> None:
                inner = supplier()
                inner.init(Blind())

            def process(self, record: Any) -> None: ...

        return Wrapped if isinstance(supplier, OperatorSupplier) else supplier

    with pytest.raises((TopologyError, ProcessingError), match="Blind is not the context of a task"):
        run(of_operators(), blind, "x")


# ------------------------------------------------------------------ suppliers with stores


class Numbered(FixedKeyProcessor[str, str, str]):
    @classmethod
    def stores(cls) -> Iterable[StoreBuilder[Any, Any]]:
        return [store("numbers")]

    def init(self, context: Any) -> None:
        super().init(context)
        self.numbers = context.get_state_store("numbers")

    def process(self, record: FixedKeyRecord[str, str]) -> None:
        number = (self.numbers.get("n") or 0) + 1
        self.numbers.put("n", number)
        self.context.forward(record.with_value(f"{record.value}#{number}"))


@pytest.mark.parametrize("fixed_key", [False, True])
def test_the_dsl_takes_the_stores_of_a_supplier(fixed_key: bool) -> None:
    """With those that are named besides."""
    builder = StreamsBuilder()
    builder.add_state_store(store("more"))
    stream = builder.stream("in")
    result = stream.process_values(Numbered, "more") if fixed_key else stream.process(Numbering(), "more")
    result.to("out")
    topology = builder.build()
    (name,) = [name for name in topology.nodes if "PROCESS" in name]
    assert topology.stores_of(name) == ("numbers", "more")
    out, stores = run(topology, None, "a", "b")
    assert out == [("k", "a#1"), ("k", "b#2")]
    assert stores["numbers"] == {"n": 2}


def test_two_suppliers_may_bring_the_same_store_along() -> None:
    """The very same builder; another one of its name is refused."""
    shared = store("numbers")

    class Sharing(Numbering):
        def stores(self) -> Iterable[StoreBuilder[Any, Any]]:
            return [shared]

    topology = Topology().add_source("source", "in")
    topology.add_processor("one", Sharing(), "source").add_processor("two", Sharing(), "one")
    topology.add_sink("sink", "out", "two")
    out, stores = run(topology, None, "a")
    assert out == [("k", "a#1#2")]
    assert stores == {"numbers": {"n": 2}}
    with pytest.raises(TopologyError, match="a store named 'numbers' is already added"):
        topology.add_processor("three", Numbering(), "source")


def test_a_class_given_to_the_builder_in_a_mapping_wraps_once() -> None:
    """At the build, where it was left out without a word, and not again by the object that the run makes."""
    settings = {**SETTINGS, "application.id": "app", WRAPPER: CountingWrapper}
    builder = StreamsBuilder()
    builder.stream("in").map_values(str.upper, name="upper").to("out")
    built, plain = builder.build(settings), builder.build()
    assert "Processor: upper (stores: [calls-upper])" in built.describe()
    assert "Processor: upper (stores: [])" in plain.describe()
    with TopologyTestDriver(built, settings) as driver:
        driver.create_input_topic("in").pipe_value("a")
        assert list(driver.get_all_state_stores()) == ["calls-upper"]
        assert driver.create_output_topic("out").read_values() == ["A"]
