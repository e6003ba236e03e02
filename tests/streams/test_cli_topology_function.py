"""`module:function` is loaded, or refused with one sentence that says what to do."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from processor_api.errors import TopologyError
from processor_api.topology.topology import Topology
from streams.cli.output.causes import CannotRun
from streams.cli.output.failures import described
from streams.cli.topology_function import load_topology

MODULE = """
from processor_api.topology.topology import Topology

class Builder:
    def build(self, config):
        return Topology().add_source("built", config)

def plain(): return Topology().add_source("source", "topic")
def configured(config): return Topology().add_source("source", config)
def optional(config=None): return Topology().add_source("source", config or "default")
def positional(config, /): return Topology().add_source("source", config)
def several(a, b): return None
def keyword(*, config): return None
def variadic(*args, **kwargs): return Topology().add_source("source", "topic") if not args else None
def builder(): return Builder()
def nothing(): return None
def fails(): return {}["missing"]
def refused(): return Topology().add_source("a", "t").add_source("a", "u")
class Group:
    @staticmethod
    def topology(): return plain()
topology = plain()
made = Builder()
number = 3
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "user_app.py").write_text(MODULE)
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "json.py").write_text("")
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    yield "user_app"
    sys.path[:] = before
    for name in ("user_app", "empty", "found"):
        sys.modules.pop(name, None)


def load(path: str) -> str:
    return load_topology(path, lambda: "configured").describe()


def refusal(path: str) -> str:
    with pytest.raises(CannotRun) as caught:
        load(path)
    return described(caught.value)


@pytest.mark.parametrize(
    ("function", "topic"),
    [
        ("plain", "topic"),
        ("configured", "configured"),
        ("optional", "configured"),
        ("positional", "configured"),
        ("variadic", "topic"),
        ("builder", "configured"),
        ("Group.topology", "topic"),
        ("topology", "topic"),
        ("made", "configured"),
    ],
)
def test_a_function_takes_nothing_or_the_configuration(module: str, function: str, topic: str) -> None:
    assert f"(topics: [{topic}])" in load(f"{module}:{function}")


@pytest.mark.parametrize("given", ["user_app", "user_app.py", "./user_app.py", "user_app.py:plain"])
def test_a_file_or_module_is_enough(module: str, given: str) -> None:
    assert "(topics: [topic])" in load(given)


@pytest.mark.parametrize(
    "what", ["topology = lambda: Builder()", "builder = Builder()", "topology = None; builder = Builder()"]
)
def test_a_topology_is_found_by_its_name(module: str, tmp_path: Path, what: str) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "found.py").write_text(f"from user_app import Builder\n{what}\n")
    load(module)
    assert "(topics: [configured])" in load("sub/found.py")


def test_the_configuration_is_made_only_if_it_is_needed(module: str) -> None:
    def unwanted() -> Any:
        raise AssertionError

    assert isinstance(load_topology(f"{module}:plain", unwanted), Topology)


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        (
            "user_app:",
            "'user_app:' is not an application: give its file or module, such as app.py or app",
        ),
        ("user-app", "'user-app' is not an application"),
        ("other.py:plain", "file "),
        (":plain", "':plain' is not an application"),
        (
            "empty.py",
            "module empty does not have a topology: name the function that makes it topology, or the StreamsBuilder",
        ),
        ("json.py", "another module has the name 'json' ("),
        ("no_such_module:x", "module 'no_such_module' does not exist in "),
        ("user_app:nowhere", "module user_app does not have function 'nowhere'; it has plain, configured, optional"),
        ("user_app:number", "user_app:number is 3, not a topology, a builder, or a function that makes one"),
        (
            "user_app:several",
            "user_app:several takes the arguments a, b, but must take none, or one: the configuration",
        ),
        ("user_app:keyword", "user_app:keyword takes the arguments config, but must take none, or one"),
        (
            "user_app:nothing",
            "user_app:nothing must return a topology, or a builder of one such as a StreamsBuilder, but returned None",
        ),
        ("user_app:fails", "user_app:fails failed (user_app.py, line 17); caused by KeyError: 'missing'"),
    ],
)
def test_what_is_no_topology_is_refused(module: str, path: str, sentence: str) -> None:
    assert refusal(path).startswith(sentence)


def test_a_topology_that_cannot_be_built_says_so_itself(module: str) -> None:
    with pytest.raises(TopologyError, match="a node named 'a' is already added"):
        load(f"{module}:refused")


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("import pandas_of_mine", "module broken failed to import (broken.py, line 1); caused by ModuleNotFoundError"),
        ("x = 1\ny = x / 0", "module broken failed to import (broken.py, line 2); caused by ZeroDivisionError"),
        ("def f(:\n", "module broken failed to import (broken.py, line 1); caused by SyntaxError: "),
        (
            "from processor_api.serde import Serde\n\nSerde(1, 2)",
            "module broken failed to import (broken.py, line 3); caused by TypeError: a serde needs two functions",
        ),
    ],
)
def test_a_module_that_fails_is_named_with_the_line(module: str, tmp_path: Path, source: str, sentence: str) -> None:
    (tmp_path / "broken.py").write_text(source)
    assert refusal("broken:topology").startswith(sentence)


def test_a_module_that_hides_one_of_ours_is_named(module: str, tmp_path: Path) -> None:
    (tmp_path / "state.py").write_text("")
    hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "state"}
    try:
        with pytest.raises(ImportError, match=r"streams needs its own package 'state', but .*state\.py comes first"):
            load("user_app:plain")
    finally:
        sys.modules.update(hidden)
