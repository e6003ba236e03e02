"""A store kind is known by what it says of itself, and not by its name: outside of its file only factories name it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.suppliers import ROCKSDB, StoreSupplier
from processor_api.topology.topology import Topology
from state.key_value.store import KINDS as KEY_VALUE
from state.registry.kinds import BUILT_IN, register_kind
from state.row_format.codec import PLAIN
from streams.cli.cluster.topic_formats import format_of
from streams.config import StreamsConfig
from tools.parsed_sources import nodes_of, parsed

FACTORIES = {
    "dsl/joins/stores.py": "the list store of outer joins",
    "dsl/plan/materialization.py": "the builders of a table's store",
    "processor_api/stores/builder.py": "the stores of operators that let records wait",
    "processor_api/stores/factory.py": "Stores",
    "processor_api/stores/suppliers.py": "suppliers and their defaults",
    "streams/spark/rows/changelog_rows.py": "a versioned store that is made of records",
    "streams/queries/store_types.py": "names of the forms in which stores are read",
    "streams/testing/driver_parts/driver_stores.py": "names of the forms in which stores are read",
}
"""Files that name kinds, and what they make by the name."""
OTHER_WORDS = {
    "dsl/mistakes/words.py": "a word of other libraries",
    "processor_api/user_code/calls.py": "a word of other libraries",
    "streams/spark/__init__.py": "a module",
    "streams/http/reads.py": "forms in which stores are read",
    "streams/cli/dlq/listing.py": "a command",
    "streams/cli/state/listing.py": "a column of a table",
    "streams/cli/doctor/snapshot_checks.py": "a right",
    "streams/spark/rows/columns.py": "a field of a key in a window",
    "streams/spark/rows/struct_types.py": "a field of a key in a window",
}
"""Files in which the same words are something else."""


def named(source: str) -> Iterator[str]:
    """The kinds that a module names, and its decisions by a part of a kind's name."""
    tree = parsed(source)
    texts = {id(node.value) for node in nodes_of(tree) if isinstance(node, ast.Expr)}
    for node in nodes_of(tree):
        if isinstance(node, ast.Constant) and node.value in BUILT_IN - {"custom"} and id(node) not in texts:
            yield f"{node.lineno}: {node.value}"
        if isinstance(node, ast.Attribute) and node.attr in ("endswith", "startswith"):
            of_kind = ast.unparse(node.value).endswith(("supplier.kind", "builder.kind"))
            yield from [f"{node.lineno}: {ast.unparse(node)}"] if of_kind else []


def test_only_factories_name_kinds(sources: dict[str, str]) -> None:
    outside = {path: source for path, source in sources.items() if not path.startswith("state/")}
    found = {path: names for path, source in outside.items() if (names := list(named(source)))}
    assert {path: names for path, names in found.items() if path not in {**FACTORIES, **OTHER_WORDS}} == {}


def test_each_exception_is_needed(sources: dict[str, str]) -> None:
    assert [path for path in {**FACTORIES, **OTHER_WORDS} if not list(named(sources[path]))] == []


def test_a_decision_by_a_name_is_found() -> None:
    assert list(named('if builder.supplier.kind.endswith("window"): x = "list"\n'))


class Keeps(Processor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record)


def test_a_kind_from_outside_is_read_by_its_form_and_not_by_its_name() -> None:
    """Its name ends like those of window stores, and its keys are plain."""
    kind = replace(KEY_VALUE["key-value"], codec=replace(PLAIN, family_suffix="running"), offline={})
    register_kind("running-window", kind)
    supplier = StoreSupplier(name="sums", kind="running-window", engine=ROCKSDB)
    sums: StoreBuilder[str, str] = StoreBuilder(supplier=supplier, key_serde=Serdes.STRING, value_serde=Serdes.STRING)
    topology = Topology().add_source("s", "in").add_processor("p", Keeps, "s").add_state_store(sums, "p")
    settings = {"application.id": "app", "bootstrap.servers": "x:1"}
    target = SimpleNamespace(topology=topology, config=StreamsConfig.of(settings), settings=settings, app="app.py")
    assert format_of(target, "sums", None, None).read_key(b"ann") == "ann"  # type: ignore[arg-type]
