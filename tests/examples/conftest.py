"""The examples' scripts, loaded by path: their folders are no packages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from golden_support.topologies import load_module
from processor_api.topology.topology import Topology
from streams.testing import TopologyTestDriver

Start = Callable[..., TopologyTestDriver]


@pytest.fixture(name="script", scope="session")
def script_fixture(root: Path) -> Callable[[str], ModuleType]:
    """``script("01_word_count/word_count")``"""
    return lambda name: load_module(str(root / "examples" / f"{name}.py"))


@pytest.fixture(name="start")
def start_fixture(request: pytest.FixtureRequest) -> Start:
    """Starts a driver on what a script's ``topology`` returns; it is closed at the end of the test."""

    def start(made: Any, config: Any = None, **driver: Any) -> TopologyTestDriver:
        settings = {"application.id": "app", **(config or {})}
        topology = made if isinstance(made, Topology) else made.build(settings)
        started = TopologyTestDriver(topology, settings, **driver)
        request.addfinalizer(started.close)
        return started

    return start
