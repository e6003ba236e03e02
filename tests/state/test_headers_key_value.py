"""Stores with headers (KIP-1271): what stands on the changelog, cached or not, and what bad input does."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from processor_api.errors import StoreError
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.contracts import ValueTimestampHeaders
from processor_api.stores.factory import Stores
from state_support.store_kit import StoreKit, restored
from streams.serdes import json_serde

S = Serdes.STRING
HEADER_LISTS = st.lists(st.tuples(st.text(max_size=2), st.one_of(st.none(), st.binary(max_size=2))), max_size=3)


def builder_of(*, rocksdb: bool = False, cached: bool = False, value_serde: Any = S) -> StoreBuilder[Any, Any]:
    make = Stores.persistent_timestamped_key_value_store_with_headers if rocksdb else Stores.in_memory_key_value_store
    builder = Stores.timestamped_key_value_store_with_headers_builder(make("s"), S, value_serde)
    return builder.with_caching_enabled() if cached else builder


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.kit: Any = None

    @initialize(rocksdb=st.booleans(), cached=st.booleans(), log_each=st.booleans())
    def start(self, rocksdb: bool, cached: bool, log_each: bool) -> None:
        builder = builder_of(rocksdb=rocksdb, cached=cached)
        self.kit = StoreKit(builder, self.directory / "db", log_each=log_each)
        self.live: dict[str, Any] = {}
        self.saved: dict[str, Any] = {}

    @rule(key=st.sampled_from("abc"), value=st.text(max_size=2), time=st.integers(0, 9), headers=HEADER_LISTS)
    def put(self, key: str, value: str, time: int, headers: list[Any]) -> None:
        given = ValueTimestampHeaders(value, time, headers)
        self.kit.at(50, [("record", b"")]).facade.put(key, given)
        self.live[key] = ValueTimestampHeaders(value, time, list(headers))
        headers.append(("later", b""))  # the store must not notice

    @rule(key=st.sampled_from("abc"), time=st.integers(50, 99))
    def delete(self, key: str, time: int) -> None:
        self.kit.at(time, [("deleted", str(time).encode())])
        assert self.kit.facade.delete(key) == self.live.pop(key, None)

    @rule()
    def read(self) -> None:
        assert [self.kit.facade.get(key) for key in "abc"] == [self.live.get(key) for key in "abc"]
        assert list(self.kit.facade.all()) == sorted(self.live.items())

    @rule()
    def commit(self) -> None:
        self.kit.commit()
        self.saved = dict(self.live)
        for key, data, time, headers in self.kit.logged:
            if data is None:
                assert headers == [("deleted", str(time).encode())]
            else:
                assert headers != [("record", b"")]
                assert key.decode() in "abc"
        other = restored(builder_of(), self.kit.logged, self.directory)
        assert dict(other.facade.all()) == self.live
        other.close()

    @rule()
    def abort(self) -> None:
        self.kit.abort()
        self.live = dict(self.saved)

    def teardown(self) -> None:
        if self.kit is not None:
            self.kit.close()
        shutil.rmtree(self.directory, ignore_errors=True)


class TestHeaders(Machine.TestCase):  # type: ignore[misc,name-defined]
    settings = settings(max_examples=50, stateful_step_count=30)


@pytest.fixture
def kit(tmp_path: Path) -> StoreKit:
    return StoreKit(builder_of(), tmp_path)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda store: store.put("a", "plain"), "needs ValueTimestampHeaders, got 'plain'"),
        (lambda store: store.put("a", ("v", 1)), "needs ValueTimestampHeaders"),
        (lambda store: store.put("a", ValueTimestampHeaders("v", -1, [])), "from 0 to 2 to the 63 minus 1, got -1"),
        (lambda store: store.put("a", ValueTimestampHeaders("v", None, [])), "63 minus 1, got None"),
        (lambda store: store.put("a", ValueTimestampHeaders(5, 1, [])), "cannot write the value"),
        (lambda store: store.put("a", ValueTimestampHeaders("v", 1, [("name", "text")])), "cannot write the value"),
        (lambda store: store.put(None, ValueTimestampHeaders("v", 1, [])), "null keys"),
        (
            lambda store: store.put_all([("b", ValueTimestampHeaders("v", 1, [])), ("a", 5)]),
            "needs ValueTimestampHeaders, got 5",
        ),
    ],
)
def test_a_call_that_fails_names_the_store_and_changes_nothing(
    kit: StoreKit, call: Callable[[Any], Any], text: str
) -> None:
    kit.facade.put("a", ValueTimestampHeaders("old", 1, [("h", None)]))
    with pytest.raises(StoreError, match=text) as caught:
        call(kit.facade)
    assert caught.value.store == "s"
    assert list(kit.facade.all()) == [("a", ValueTimestampHeaders("old", 1, [("h", None)]))]
    assert len(kit.logged) == 1
    kit.close()


def test_operators_see_values_alone(tmp_path: Path) -> None:
    """What they put has no headers; what a cache forwards to them has values as they put them."""
    kit = StoreKit(builder_of(cached=True, value_serde=json_serde()), tmp_path)
    seen: list[Any] = []
    kit.store.operator.on_flush(lambda *change: seen.append(change[:4]), old_values=True)
    kit.at(5, [("h", b"1")]).store.operator.put("a", {"n": 1}, 7, [("h", b"1")])
    kit.commit()
    kit.store.operator.put("a", {"n": 2}, 8, None)
    kit.facade.put("b", ValueTimestampHeaders({"n": 3}, 9, [("own", b"x")]))
    assert kit.store.operator.get("a") == ({"n": 2}, 8)
    kit.commit()
    assert seen == [("a", {"n": 1}, None, 7), ("a", {"n": 2}, {"n": 1}, 8), ("b", {"n": 3}, None, 9)]
    assert [record[3] for record in kit.logged] == [[], [], [("own", b"x")]]
    kit.close()
