"""Views of every kind of store show what the store itself shows, at both isolation levels, through puts, drains,
commits, aborts and evictions, and iterators show it as it was when they were opened.

At READ_UNCOMMITTED a view is compared with the store of the task; at READ_COMMITTED with a second one that is given the
puts of each commit at once, and is opened again from its engine. Key-value stores are compared with dictionaries too.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from processor_api.errors import StoreError
from processor_api.stores.queries import IsolationLevel
from state.read_views.view import StoreView, open_view
from state_support.store_kit import StoreKit
from state_support.view_cases import CASES, Case, Read, keyed, result

COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
LEVELS = st.sampled_from([COMMITTED, UNCOMMITTED])
KEY_VALUE = ("kv", "kv in memory", "timestamped", "headers", "lru")


class Machine(RuleBasedStateMachine):
    kinds: ClassVar[list[str]] = list(CASES)

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="views-"))
        self.kits: list[StoreKit] = []

    @initialize(
        data=st.data(),
        cached=st.booleans(),
        log_each=st.booleans(),
        cache_bytes=st.sampled_from([1, 300, 1 << 20]),
    )
    def start(self, data: st.DataObject, cached: bool, log_each: bool, cache_bytes: int) -> None:
        self.name = data.draw(st.sampled_from(self.kinds))
        self.case: Case = CASES[self.name]
        builder = self.case.builder()
        if cached and self.case.caches:
            builder = builder.with_caching_enabled()
        self.kit = StoreKit(builder, self.directory / "store", cache_bytes=cache_bytes, log_each=log_each)
        self.twin = StoreKit(builder, self.directory / "twin", cache_bytes=cache_bytes, log_each=log_each)
        self.kits = [self.kit, self.twin]
        self.waiting: list[tuple[int, Read]] = []
        self.live: dict[Any, Any] = {}
        self.committed: dict[Any, Any] = {}
        self.open_iterators: list[tuple[Any, list[Any]]] = []
        self.frozen: list[tuple[StoreView, list[tuple[Read, Any]]]] = []
        self.views = self.new_views()

    def new_views(self) -> dict[IsolationLevel, StoreView]:
        """They are kept, so that they see what comes after them."""
        return {level: open_view(self.kit.store, level) for level in IsolationLevel}

    def store(self, level: IsolationLevel) -> Any:
        """What a view of this level is compared with."""
        return (self.twin if level is COMMITTED else self.kit).facade

    def expected(self, level: IsolationLevel, read: Read) -> Any:
        return (keyed if self.name in KEY_VALUE else result)(self.store(level), read)

    # ------------------------------------------------------------------ the task

    @rule(data=st.data(), timestamp=st.integers(0, 120))
    def put(self, data: st.DataObject, timestamp: int) -> None:
        put = self.case.put(data.draw)
        result(self.kit.at(timestamp).facade, put)
        self.waiting.append((timestamp, put))
        if self.name in KEY_VALUE:
            key, value = put[1]
            self.live.pop(key, None)
            if value is not None:
                self.live[key] = value

    @rule()
    def drain(self) -> None:
        self.kit.store.drain()

    @rule()
    def commit(self) -> None:
        self.kit.commit()
        for timestamp, put in self.waiting:
            result(self.twin.at(timestamp).facade, put)
        self.twin.commit()
        self.twin.abort()
        self.waiting.clear()
        self.committed = dict(self.live)

    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        """The task starts its store again: what was open of it fails, clearly."""
        self.kit.abort()
        self.everything_has_ended(self.case.read(data.draw))
        self.waiting.clear()
        self.live = dict(self.committed)
        self.views = self.new_views()

    @precondition(lambda self: self.kits and self.kit.builder.supplier.persistent)
    @rule(data=st.data())
    def restart(self, data: st.DataObject) -> None:
        """With the engine: nothing that is open keeps it from closing."""
        self.kit.restart()
        self.everything_has_ended(self.case.read(data.draw))
        self.waiting.clear()
        self.live = dict(self.committed)
        self.views = self.new_views()

    def everything_has_ended(self, read: Read) -> None:
        for rows, _ in self.open_iterators:
            with pytest.raises(StoreError, match="is closed"):
                next(rows)
        for view in (*self.views.values(), *(view for view, _ in self.frozen)):
            with pytest.raises(StoreError, match="store 's' is closed"):
                getattr(view.store, read[0])(*read[1])
        self.open_iterators.clear()
        self.frozen.clear()

    # ------------------------------------------------------------------ who reads

    @rule(data=st.data(), level=LEVELS, again=st.booleans())
    def read(self, data: st.DataObject, level: IsolationLevel, again: bool) -> None:
        read = self.case.read(data.draw)
        wanted = self.expected(level, read)
        with open_view(self.kit.store, level) if again else self.views[level] as view:
            assert result(view.store, read) == wanted, (level, read)
        self.views = self.new_views() if not again else self.views

    @rule(data=st.data(), level=LEVELS, shown=st.integers(0, 3))
    def iterate(self, data: st.DataObject, level: IsolationLevel, shown: int) -> None:
        """The view is left at once."""
        read = self.case.read(data.draw)
        wanted = self.expected(level, read)
        with open_view(self.kit.store, level) as view:
            rows = getattr(view.store, read[0])(*read[1])
        if hasattr(rows, "close"):
            for _ in range(min(shown, len(wanted))):
                assert next(rows) == wanted.pop(0)
            self.open_iterators.append((rows, wanted))

    @precondition(lambda self: self.kits and self.open_iterators)
    @rule(data=st.data(), count=st.integers(1, 4))
    def read_on(self, data: st.DataObject, count: int) -> None:
        rows, wanted = data.draw(st.sampled_from(self.open_iterators))
        for _ in range(min(count, len(wanted))):
            assert next(rows) == wanted.pop(0)
        if not wanted:
            with pytest.raises(StopIteration):
                next(rows)

    @rule(data=st.data(), level=LEVELS)
    def freeze(self, data: st.DataObject, level: IsolationLevel) -> None:
        reads = [self.case.read(data.draw) for _ in range(3)]
        self.frozen.append((self.views[level].frozen(), [(read, self.expected(level, read)) for read in reads]))

    @precondition(lambda self: self.kits and self.frozen)
    @rule(data=st.data())
    def read_frozen(self, data: st.DataObject) -> None:
        view, reads = data.draw(st.sampled_from(self.frozen))
        for read, wanted in reads:
            assert result(view.store, read) == wanted, read

    @invariant()
    def all_rows(self) -> None:
        if not self.kits or self.name not in KEY_VALUE:
            return
        for level, model in ((COMMITTED, self.committed), (UNCOMMITTED, self.live)):
            store = self.views[level].store
            assert list(store.all()) == sorted(model.items(), key=lambda row: row[0].encode())
            assert {key: store.get(key) for key in model} == model

    def teardown(self) -> None:
        for rows, wanted in getattr(self, "open_iterators", []):
            assert list(rows) == wanted
        for kit in self.kits:
            kit.close()
        shutil.rmtree(self.directory, ignore_errors=True)


class KeyValueMachine(Machine):
    kinds: ClassVar[list[str]] = [name for name in CASES if name in KEY_VALUE]


class TestKeyValueViews(KeyValueMachine.TestCase):  # type: ignore[misc,name-defined]
    settings = settings(max_examples=20, stateful_step_count=40, deadline=None)


class TestViews(Machine.TestCase):  # type: ignore[misc,name-defined]
    settings = settings(max_examples=20, stateful_step_count=40, deadline=None)


@pytest.mark.slow
class TestViewsForLong(Machine.TestCase):  # type: ignore[misc,name-defined]
    settings = settings(max_examples=3000, stateful_step_count=60, deadline=None)
