"""Storage engines by name: built in, registered in code, or named by an installed distribution."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from processor_api.clock import ManualClock
from processor_api.errors import StateError, TopologyError
from processor_api.stores.factory import Stores
from state.engine.memory import MemoryEngine
from state.engine.registry import check_engine, engine_names, open_registered, register_engine
from streams.runtime.engines.opener import Engines

MODULE = """
from state.engine.memory import MemoryEngine

class Installed(MemoryEngine):
    def __init__(self, path, families, config):
        super().__init__()
        self.given = (path, list(families), dict(config))
"""


@pytest.fixture(name="installed")
def installed_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distribution that names two engines, one of which cannot be loaded."""
    (tmp_path / "installed_engine.py").write_text(MODULE)
    info = tmp_path / "installed_engine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: installed-engine\nVersion: 1.0\n")
    points = "[streams.engines]\ninstalled = installed_engine:Installed\nbroken = installed_engine:NoSuchThing\n"
    (info / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("installed")
def test_an_installed_distribution_names_an_engine(tmp_path: Path) -> None:
    """Its factory is given the engine's place in the task's directory, the families and the settings."""
    assert {"memory", "rocksdb", "installed", "broken"} <= set(engine_names())
    check_engine("installed")
    engine: Any = Engines(ManualClock(0), config={"application.id": "app"}).open("installed", tmp_path / "0_0", ["f"])
    assert engine.given == (tmp_path / "0_0" / "installed", ["f"], {"application.id": "app"})
    with pytest.raises(TopologyError, match="'broken' cannot be loaded from 'installed_engine:NoSuchThing'"):
        open_registered("broken", tmp_path, [], {})


def test_an_engine_registered_in_code_counts_over_an_installed_one(installed: None, tmp_path: Path) -> None:
    made = MemoryEngine()
    register_engine("registered", lambda path, families, config: made)  # type: ignore[arg-type,return-value]
    assert open_registered("registered", tmp_path, [], {}) is made


def fails(*_: Any) -> Any:
    raise OSError("no such disk")


def refuses(*_: Any) -> Any:
    raise StateError("the store is of a newer format")


class WithoutSnapshots:
    """An engine from before there were queries."""

    persistent = False

    def __init__(self, *_: Any) -> None:
        self._engine = MemoryEngine()
        self.family, self.holds, self.clear = self._engine.family, self._engine.holds, self._engine.clear
        self.batch, self.write, self.load = self._engine.batch, self._engine.write, self._engine.load
        self.flush, self.close = self._engine.flush, self._engine.close


@pytest.mark.parametrize(
    ("factory", "error", "says"),
    [
        (fails, TopologyError, "'of-one-test' could not be opened at .*: OSError: no such disk"),
        (refuses, StateError, "the store is of a newer format"),
        (
            WithoutSnapshots,
            TopologyError,
            "returned <.*WithoutSnapshots object at .*>, which lacks snapshot, lock: see",
        ),
        (
            lambda *_: object(),
            TopologyError,
            "returned <object .*, which lacks family, holds, snapshot, lock, batch, write",
        ),
    ],
)
def test_a_factory_that_fails_is_named(factory: Any, error: type[Exception], says: str, tmp_path: Path) -> None:
    register_engine("of-one-test", factory)
    with pytest.raises(error, match=says):
        open_registered("of-one-test", tmp_path, [], {})


@pytest.mark.parametrize(
    ("name", "says"), [("rocksdb", "built-in"), ("", "letters"), ("a/b", "letters"), ("..", "letters")]
)
def test_names_that_cannot_be_are_refused(name: str, says: str) -> None:
    with pytest.raises(TopologyError, match=says):
        register_engine(name, lambda path, families, config: MemoryEngine())  # type: ignore[arg-type,return-value]


def test_a_factory_has_to_be_called(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match="takes a function as its factory"):
        register_engine("mine", "my.module:Engine")  # type: ignore[arg-type]


def test_an_lru_map_stays_in_memory() -> None:
    assert Stores.persistent_key_value_store("s").on_engine("mine").engine == "mine"
    with pytest.raises(TopologyError, match="store 's' has the kind 'lru-map', which is always in memory"):
        Stores.lru_map("s", 3).on_engine("mine")
    with pytest.raises(TopologyError, match="store 's' needs the name of an engine"):
        Stores.persistent_key_value_store("s").on_engine("")
