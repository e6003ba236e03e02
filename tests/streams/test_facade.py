"""`from streams import ...` is all an application needs, and loads no more than it must."""

import ast
import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import streams
from processor_api import errors
from tools import public_names

REPOSITORY = Path(__file__).resolve().parents[2]
HEAVY = ("confluent_kafka", "msgspec", "orjson", "pydantic", "pydantic_core", "rocksdict", "structlog")


def imports_for_type_checkers() -> dict[str, str]:
    """Each name that the stub imports, and from where."""
    tree = ast.parse(public_names.STUB.read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


HOMES = imports_for_type_checkers()


def loaded_by(code: str) -> list[str]:
    """Which of the heavy libraries a fresh Python has loaded after the code."""
    report = f"import sys\n{code}\nprint(*(name for name in {HEAVY!r} if name in sys.modules))"
    found = subprocess.run([sys.executable, "-c", report], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return found.stdout.split()


@pytest.mark.parametrize("name", sorted(HOMES))
def test_a_public_name_is_the_one_of_its_home(name: str) -> None:
    try:
        spec = importlib.util.find_spec(HOMES[name])
    except ModuleNotFoundError:
        spec = None
    if spec is None:
        pytest.skip(f"{HOMES[name]} does not exist yet")
    assert getattr(streams, name) is getattr(importlib.import_module(HOMES[name]), name)


def test_type_checkers_and_python_see_the_same_names() -> None:
    assert {*HOMES, "__version__"} == set(streams.__all__)
    assert len(streams.__all__) == len(set(streams.__all__))
    assert set(streams.__all__) <= set(dir(streams))


def test_the_stub_is_made_of_the_names() -> None:
    made = ast.dump(ast.parse(public_names.stub()))
    assert len(HOMES) > 200
    assert sorted(ast.dump(ast.parse(public_names.STUB.read_text())).split("ImportFrom")) == sorted(
        made.split("ImportFrom")
    ), "run python -m tools.public_names"


def test_every_error_and_everything_of_the_dsl_is_public() -> None:
    dsl = importlib.import_module("dsl")
    assert set(errors.__all__) | set(dsl.__all__) <= set(streams.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'streams' has no attribute 'KafkaStream'"):
        streams.KafkaStream  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'Topologie' from 'streams'"):
        exec("from streams import Topologie")


def test_importing_the_facade_loads_no_heavy_library() -> None:
    assert loaded_by("import streams; streams.__version__; dir(streams)") == []


def test_building_a_topology_loads_no_heavy_library() -> None:
    code = (
        "from streams import Consumed, Processor, Record, Serdes, Stores, StreamsBuilder, Topology\n"
        "builder = StreamsBuilder()\n"
        "builder.stream('in', Consumed(key_serde=Serdes.STRING, value_serde=Serdes.LONG)).to('out')\n"
        "assert 'topics: [in]' in builder.build().describe()"
    )
    assert loaded_by(code) == []


def test_what_needs_a_heavy_library_loads_it() -> None:
    assert loaded_by("from streams import StreamsConfig") == ["pydantic", "pydantic_core"]
