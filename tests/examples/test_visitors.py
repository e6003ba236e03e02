"""examples/08_custom_stores"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from processor_api.serde import Serdes


def test_visits_and_visitors_are_counted(
    root: Path, script: Callable[[str], ModuleType], start: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(root / "examples" / "08_custom_stores"))
    driver = start(script("08_custom_stores/visitors").topology())
    pages = driver.create_input_topic("visits", Serdes.STRING, Serdes.STRING)
    told = driver.create_output_topic("visits-and-visitors", Serdes.STRING, Serdes.STRING)
    pages.pipe_key_values([("/start", "ann"), ("/start", "bob"), ("/start", "ann"), ("/end", "bob")])
    assert told.read_key_values() == [
        ("/start", "1 visits of 1 visitors"),
        ("/start", "2 visits of 2 visitors"),
        ("/start", "3 visits of 2 visitors"),
        ("/end", "1 visits of 1 visitors"),
    ]
    assert "/start" in driver.get_state_store("visitors")
    assert {"sqlite_engine", "sets_store"} <= sys.modules.keys()
