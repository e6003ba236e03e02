"""A store that refuses a call is as it was before it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from golden_support.state_harness import StateHarness
from processor_api.errors import StoreError
from processor_api.stores.contracts import ValueAndTimestamp


@pytest.fixture(params=["kv", "timestamped-kv"])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StateHarness]:
    store = {"kind": request.param, "engine": "memory", "logging": True, "caching": False}
    opened = StateHarness(store, tmp_path, commits=False)
    yield opened
    opened.close()


def _value(harness: StateHarness, value: Any) -> Any:
    return ValueAndTimestamp(value, 1) if harness.kind == "timestamped-kv" else value


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [(None, "1", "null keys"), (5, "1", "cannot write the key"), ("b", 5, "cannot write the value")],
)
def test_put_all_puts_all_or_nothing(harness: StateHarness, key: Any, value: Any, says: str) -> None:
    """When a key is null, or a key or value cannot be written, nothing is stored and nothing logged."""
    entries = [("a", _value(harness, "1")), (key, _value(harness, value))]
    with pytest.raises(StoreError, match=says):
        harness.run(1, 0, lambda store: store.put_all(entries))
    assert harness.run(1, 1, lambda store: store.get("a")) is None
    assert harness.take_changelog() == []


def test_a_negative_timestamp_is_refused(tmp_path: Path) -> None:
    """No changelog record could carry it."""
    store = {"kind": "timestamped-kv", "engine": "memory", "logging": True, "caching": False}
    harness = StateHarness(store, tmp_path, commits=False)
    with pytest.raises(StoreError, match="needs timestamps in ms from 0 to 2 to the 63 minus 1, got -1"):
        harness.run(1, 0, lambda opened: opened.put("a", ValueAndTimestamp("1", -1)))
    assert harness.run(1, 1, lambda opened: opened.get("a")) is None
    harness.close()
