"""Each foreign library lives in one room, so that replacing it, or its next major version, is one room's work."""

import ast
import sys
from collections.abc import Iterator

from tools.parsed_sources import nodes_of, parsed

# A room is a module or a package; both spellings of `streams.config` are the same room.
ROOMS = {
    "aiohttp": ("streams.http",),
    "opentelemetry": ("streams.telemetry",),
    "yarl": ("streams.http",),
    "prometheus_client": ("streams.http.exposition",),
    "confluent_kafka": ("streams.kafka.confluent", "streams.registry.client"),
    "fastavro": ("streams.registry.avro",),
    "google": ("streams.registry.protobuf", "streams.schemas.proto_sources"),
    "obstore": ("streams.snapshots.cloud",),
    "mmh3": ("state.formats.foreign_keys",),
    "rocksdict": tuple(f"state.rocksdb.{room}" for room in ("engine", "options", "metadata", "reader", "table_files")),
    "numpy": ("streams.spark",),
    "pandas": ("streams.spark",),
    "pyarrow": ("streams.cli.state.export", "streams.cli.records.files", "streams.spark"),
    "pyspark": ("streams.spark",),
    "pydantic": ("streams.config", "streams.serdes.pydantic_model", "streams.observing.answers"),
    "rich": ("streams.cli.run.restore_bar", "streams.cli.top.command", "streams.cli.output.terminal"),
    "shtab": ("streams.cli.completion",),
    "structlog": ("streams.cli",),
    "pytest": ("streams.testing.pytest_plugin",),
}


def module_name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imported(source: str) -> Iterator[tuple[int, str]]:
    """The line and the top-level package of each import, wherever in the file it is."""
    for node in nodes_of(parsed(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.lineno, node.module.partition(".")[0]


def strangers(path: str, source: str) -> Iterator[str]:
    module = module_name(path)
    for line, library in imported(source):
        rooms = ROOMS.get(library, (module,))
        if not any(module == room or module.startswith(room + ".") for room in rooms):
            yield f"{path}:{line} imports {library}, which lives in {' and '.join(rooms)}"


def beyond_standard_library(path: str, source: str) -> Iterator[str]:
    for line, library in imported(source):
        if library not in sys.stdlib_module_names and library != "processor_api":
            yield f"{path}:{line} imports {library}"


def test_each_foreign_library_stays_in_its_room(sources: dict[str, str]) -> None:
    assert [complaint for path, source in sources.items() for complaint in strangers(path, source)] == []


def test_the_vocabulary_needs_the_standard_library_only(sources: dict[str, str]) -> None:
    vocabulary = {path: source for path, source in sources.items() if path.startswith("processor_api/")}
    assert [line for path, source in vocabulary.items() for line in beyond_standard_library(path, source)] == []


def test_an_import_outside_the_room_is_found_also_inside_a_function() -> None:
    lazy = "def f():\n    from confluent_kafka.admin import AdminClient\n"
    assert list(strangers("streams/runtime/tasks/task.py", lazy)) == [
        "streams/runtime/tasks/task.py:2 imports confluent_kafka, which lives in streams.kafka.confluent and"
        " streams.registry.client"
    ]
    assert list(strangers("streams/kafka/confluent.py", lazy)) == []
    assert list(strangers("streams/kafka/confluent/admin.py", lazy)) == []
    assert list(strangers("streams/kafka/confluent_2.py", lazy)) != []


def test_a_room_may_be_a_package_and_have_doors() -> None:
    assert list(strangers("streams/config/__init__.py", "import pydantic")) == []
    assert list(strangers("streams/serdes/__init__.py", "import pydantic")) != []


def test_the_vocabulary_may_import_neither_libraries_nor_its_siblings() -> None:
    source = "import os.path\nimport orjson\nfrom state import engine\nfrom processor_api import record\n"
    assert list(beyond_standard_library("processor_api/a.py", source)) == [
        "processor_api/a.py:2 imports orjson",
        "processor_api/a.py:3 imports state",
    ]
