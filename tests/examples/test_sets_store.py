"""examples/08_custom_stores/sets_store.py passes the contract of custom stores."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from streams.testing.contracts.stores import CustomStoreContract


class TestSetsStore(CustomStoreContract):
    @pytest.fixture(autouse=True)
    def _module(self, script: Callable[[str], ModuleType]) -> None:
        self.module = script("08_custom_stores/sets_store")

    def make_store(self) -> Any:
        return self.module.SetsStore("store")

    def change(self, store: Any, number: int) -> None:
        store.add(f"key-{number % 5}", f"value-{number}")

    def contents(self, store: Any) -> Any:
        return {key: sorted(store.values(key)) for key in (f"key-{n}" for n in range(6)) if key in store}
