"""examples/08_custom_stores/sqlite_engine.py passes the contract of engines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from streams.testing.contracts.engines import FAMILIES, EngineContract


class TestSqliteEngine(EngineContract):
    @pytest.fixture(autouse=True)
    def _engine(self, script: Callable[[str], ModuleType]) -> None:
        self.module = script("08_custom_stores/sqlite_engine")

    def open_engine(self, path: Path) -> Any:
        return self.module.SqliteEngine(path, FAMILIES)
