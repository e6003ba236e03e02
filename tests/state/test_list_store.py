"""List stores against a dictionary of lists, and what bad input does."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from processor_api.errors import StoreError, TopologyError
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.factory import Stores
from state.formats.outer_join import outer_join_key
from state.formats.values import add_item, read_items
from state_support.store_kit import StoreKit, restored

S = Serdes.STRING
KEYS = ["", "a", "aa", "b", "é"]


def builder_of(*, rocksdb: bool, key_serde: Any = S) -> StoreBuilder[Any, Any]:
    make = Stores.persistent_list_store if rocksdb else Stores.in_memory_list_store
    return Stores.list_store_builder(make("s"), key_serde, S)


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.kit: Any = None

    @initialize(rocksdb=st.booleans(), log_each=st.booleans(), cache_bytes=st.sampled_from([1, 1 << 20]))
    def start(self, rocksdb: bool, log_each: bool, cache_bytes: int) -> None:
        self.kit = StoreKit(
            builder_of(rocksdb=rocksdb), self.directory / "db", cache_bytes=cache_bytes, log_each=log_each
        )
        self.live: dict[str, list[str]] = {}
        self.saved: dict[str, list[str]] = {}

    @rule(key=st.sampled_from(KEYS), value=st.sampled_from(["", "1", "22"]))
    def put(self, key: str, value: str) -> None:
        self.kit.facade.put(key, value)
        self.live[key] = [*self.live.get(key, []), value]

    @rule(key=st.sampled_from(KEYS), by_put=st.booleans())
    def delete(self, key: str, by_put: bool) -> None:
        self.kit.facade.put(key, None) if by_put else self.kit.facade.delete(key)
        self.live.pop(key, None)

    @rule(low=st.one_of(st.none(), st.sampled_from(KEYS)), high=st.one_of(st.none(), st.sampled_from(KEYS)))
    def read(self, low: str | None, high: str | None) -> None:
        store = self.kit.facade
        wanted = [(key, value) for key in sorted(self.live, key=str.encode) for value in self.live[key]]
        assert list(store.all()) == wanted
        low_bytes, high_bytes = (low or "").encode(), ("\U0010ffff" if high is None else high).encode()
        assert list(store.range(low, high)) == [row for row in wanted if low_bytes <= row[0].encode() <= high_bytes]
        assert list(store.reverse_range(low, high)) == list(store.range(low, high))[::-1]
        assert list(store.reverse_all()) == wanted[::-1]
        assert list(store.prefix_scan(low or "")) == [row for row in wanted if row[0].startswith(low or "")]
        assert list(store.prefix_scan(b"\xc3", Serdes.BYTES)) == [row for row in wanted if row[0] == "é"]
        assert [store.get(key) for key in KEYS] == [self.live.get(key, []) for key in KEYS]

    @rule(key=st.sampled_from(KEYS))
    def iterators_keep_their_view(self, key: str) -> None:
        wanted = [(known, value) for known in sorted(self.live, key=str.encode) for value in self.live[known]]
        with self.kit.facade.all() as rows:
            self.put(key, "late")
            assert list(rows) == wanted

    @rule()
    def commit(self) -> None:
        self.kit.commit()
        self.saved = {key: list(values) for key, values in self.live.items()}
        other = restored(builder_of(rocksdb=False), self.kit.logged, self.directory)
        assert list(other.facade.all()) == list(self.kit.facade.all())
        other.close()

    @rule()
    def abort(self) -> None:
        self.kit.abort()
        self.live = {key: list(values) for key, values in self.saved.items()}

    @precondition(lambda self: self.kit is not None and self.kit.builder.supplier.persistent)
    @rule()
    def restart(self) -> None:
        self.kit.restart()
        self.live = {key: list(values) for key, values in self.saved.items()}

    def teardown(self) -> None:
        if self.kit is not None:
            self.kit.close()
        shutil.rmtree(self.directory, ignore_errors=True)


class TestLists(Machine.TestCase):  # type: ignore[misc,name-defined]
    settings = settings(max_examples=50, stateful_step_count=30)


@pytest.mark.parametrize("rocksdb", [True, False])
def test_keys_that_sort_by_time_come_oldest_first(rocksdb: bool, tmp_path: Path) -> None:
    """As outer joins need it: what was put last is found too, at the cost of what is read."""
    kit = StoreKit(builder_of(rocksdb=rocksdb, key_serde=Serdes.BYTES), tmp_path)
    for time in (500, 20, 300):
        for left in (True, False):
            kit.at(time).facade.put(outer_join_key(b"k", time, left), f"{time} {left}")
            put = {(500, True): (500, True), (500, False): (500, False), (20, True): (20, True)}
            assert next(kit.facade.all())[0] == outer_join_key(b"k", *put.get((time, left), (20, False)))
    kit.commit()
    assert [value for _, value in kit.facade.all()] == [
        "20 False", "20 True", "300 False", "300 True", "500 False", "500 True",
    ]  # fmt: skip
    assert [record[2] for record in kit.logged] == [500, 500, 20, 20, 300, 300]
    kit.close()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda store: store.put(None, "v"), "null keys"),
        (lambda store: store.delete(None), "null keys"),
        (lambda store: store.get(None), "null keys"),
        (lambda store: store.put("a", 5), "cannot write the value"),
        (lambda store: store.put(5, "v"), "cannot write the key"),
        (lambda store: store.range(5), "cannot write the key"),
    ],
)
def test_a_call_that_fails_names_the_store_and_changes_nothing(
    call: Callable[[Any], Any], text: str, tmp_path: Path
) -> None:
    kit = StoreKit(builder_of(rocksdb=False), tmp_path)
    kit.facade.put("a", "1")
    with pytest.raises(StoreError, match=text) as caught:
        call(kit.facade)
    assert caught.value.store == "s"
    assert (list(kit.facade.all()), len(kit.logged)) == ([("a", "1")], 1)
    rows = kit.facade.all()
    kit.close()
    for late in (lambda: next(rows), lambda: kit.facade.put("a", "2"), lambda: kit.facade.all()):
        with pytest.raises(StoreError, match="'s' is closed"):
            late()


def test_a_list_store_is_never_cached() -> None:
    with pytest.raises(TopologyError, match="never cached"):
        builder_of(rocksdb=True).with_caching_enabled()


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("", "at least 5 bytes, got 0"),
        ("01 0000", "at least 5 bytes, got 3"),
        ("00 00000001", "not a list of byte arrays: strategy 0, 1 items"),
        ("01 ffffffff", "not a list of byte arrays: strategy 1, -1 items"),
        ("01 00000001", "ends early, after 0 items"),
        ("01 00000001 00000002 61", "needs 11 bytes, got 10"),
        ("01 00000000 61", "needs 5 bytes, got 6"),
    ],
)
def test_what_is_no_list_is_not_read(row: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_items(bytes.fromhex(row))


def test_a_damaged_row_names_the_store(tmp_path: Path) -> None:
    kit = StoreKit(builder_of(rocksdb=False), tmp_path)
    batch = kit.engine.batch()
    batch.put(b"a", b"\x00", kit.engine.family("s.list").handle)
    kit.engine.write(batch)
    for call in (lambda: kit.facade.get("a"), lambda: list(kit.facade.all()), lambda: kit.facade.put("a", "v")):
        with pytest.raises(StoreError, match="store 's' has a damaged row"):
            call()
    kit.close()


@pytest.mark.parametrize("items", [[], [b""], [b"a", None, b""], [b"x" * 300]])
def test_lists_come_back(items: list[bytes | None]) -> None:
    row = None
    for item in items:
        row = add_item(row, item)
    assert (read_items(row) if row is not None else []) == items
