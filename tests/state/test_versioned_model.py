"""Versioned stores against a dictionary of all that was ever put, with commits, aborts, restarts and restores."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from state_support.store_kit import StoreKit, restored
from state_support.versions_model import VersionsModel

KEYS = ["", "a", "a\0", "a\0b", "aa", "b", "\0", "\0\0", "\x01", "é"]
TIMES = st.integers(0, 130)
VALUES = st.one_of(st.none(), st.sampled_from(["", "x", "y", "zz"]))


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.kit: StoreKit | None = None

    @initialize(
        rocksdb=st.booleans(),
        retention=st.sampled_from([0, 10, 30, 100, 1000]),
        segment=st.sampled_from([1, 10, 40, 1000]),
        cache_bytes=st.sampled_from([1, 300, 1 << 20]),
    )
    def start(self, rocksdb: bool, retention: int, segment: int, cache_bytes: int) -> None:
        make = Stores.persistent_versioned_key_value_store if rocksdb else Stores.in_memory_versioned_key_value_store
        builder = Stores.versioned_key_value_store_builder(make("s", retention, segment), Serdes.STRING, Serdes.STRING)
        self.kit = StoreKit(builder, self.directory / "db", cache_bytes=cache_bytes)
        self.live = VersionsModel(retention, segment)
        self.saved = self.live.copy()

    @property
    def store(self) -> Any:
        assert self.kit is not None
        return self.kit.facade

    # ------------------------------------------------------------------ steps of a processor

    @rule(key=st.sampled_from(KEYS), value=VALUES, timestamp=TIMES)
    def put(self, key: str, value: str | None, timestamp: int) -> None:
        assert self.store.put(key, value, timestamp) == self.live.put(key, value, timestamp)

    @rule(key=st.sampled_from(KEYS[:2]), value=VALUES, step=st.integers(0, 3))
    def put_in_order(self, key: str, value: str | None, step: int) -> None:
        timestamp = max(self.live.time, 0) + step
        assert self.store.put(key, value, timestamp) == self.live.put(key, value, timestamp)

    @rule(key=st.sampled_from(KEYS), timestamp=TIMES)
    def delete(self, key: str, timestamp: int) -> None:
        assert self.store.delete(key, timestamp) == self.live.delete(key, timestamp)

    @rule(key=st.sampled_from(KEYS), as_of=st.one_of(st.none(), TIMES, st.just((1 << 63) - 1)))
    def get(self, key: str, as_of: int | None) -> None:
        assert self.store.get(key, as_of) == self.live.get(key, as_of)

    @rule(key=st.sampled_from(KEYS), times=st.tuples(TIMES, TIMES), open_ends=st.tuples(st.booleans(), st.booleans()))
    def versions(self, key: str, times: tuple[int, int], open_ends: tuple[bool, bool]) -> None:
        first, last = sorted(times)
        given = [None if is_open else time for time, is_open in zip((first, last), open_ends, strict=True)]
        expected = self.live.versions(
            key, -1 if given[0] is None else first, (1 << 63) - 1 if given[1] is None else last
        )
        with self.store.versions(key, *given) as rows:
            assert list(rows) == expected
        with self.store.backward_versions(key, *given) as rows:
            assert list(rows) == expected[::-1]

    @rule(bounds=st.tuples(*[st.one_of(st.none(), st.sampled_from(KEYS))] * 2), times=st.tuples(TIMES, TIMES))
    def ranges(self, bounds: tuple[str | None, str | None], times: tuple[int, int]) -> None:
        low, high = bounds
        first, last = sorted(times)
        keys = [
            key
            for key in sorted(KEYS, key=str.encode)
            if (low is None or key.encode() >= low.encode()) and (high is None or key.encode() <= high.encode())
        ]
        between = [(key, record) for key in keys for record in self.live.versions(key, first, last)]
        newest = [(key, record) for key in keys if (record := self.live.get(key, None)) is not None]
        as_of = [(key, record) for key in keys if (record := self.live.get(key, last)) is not None]
        store = self.store
        assert list(store.range_versions(low, high, first, last)) == between
        assert list(store.reverse_range_versions(low, high, first, last)) == between[::-1]
        assert list(store.range(low, high)) == newest
        assert list(store.reverse_range(low, high)) == newest[::-1]
        assert list(store.range(low, high, last)) == as_of
        assert list(store.reverse_range(low, high, last)) == as_of[::-1]

    @rule(prefix=st.sampled_from(["", *KEYS]), time=st.one_of(st.none(), TIMES))
    def prefixes(self, prefix: str, time: int | None) -> None:
        keys = [key for key in sorted(KEYS, key=str.encode) if key.startswith(prefix)]
        expected = [(key, record) for key in keys if (record := self.live.get(key, time)) is not None]
        assert list(self.store.prefix_scan(prefix, as_of=time)) == expected
        assert list(self.store.prefix_scan(prefix.encode(), Serdes.BYTES, time)) == expected

    @rule(key=st.sampled_from(KEYS), timestamp=TIMES, commits=st.booleans())
    def iterators_keep_their_view(self, key: str, timestamp: int, commits: bool) -> None:
        expected = [(key, record) for key in sorted(KEYS, key=str.encode) for record in self.live.all(key)]
        one = list(self.live.all(key))
        with self.store.range_versions() as rows, self.store.backward_versions(key) as some:
            self.put(key, "later", timestamp)
            if commits:
                self.commit()
            self.put(key, None, timestamp)
            assert list(rows) == expected
            assert list(some) == one[::-1]

    # ------------------------------------------------------------------ steps of a task

    @rule()
    def commit(self) -> None:
        assert self.kit is not None
        self.kit.commit()
        self.saved = self.live.copy()

    @rule()
    def abort(self) -> None:
        assert self.kit is not None
        self.kit.abort()
        self.live = self.saved.copy()

    @precondition(lambda self: self.kit is not None and self.kit.builder.supplier.persistent)
    @rule()
    def restart(self) -> None:
        assert self.kit is not None
        self.kit.restart()
        self.live = self.saved.copy()

    @rule(at_once=st.integers(1, 50))
    def restore(self, at_once: int) -> None:
        """Another store has the same history, whatever the batches."""
        assert self.kit is not None
        directory = self.directory / "restored"
        other = restored(self.kit.builder, self.kit.logged, directory, at_once=at_once)
        for key in KEYS:
            assert list(other.facade.versions(key)) == list(self.store.versions(key))
            assert other.facade.put(key, "after", 50) == self.live.copy().put(key, "after", 50)
            other.abort()
        other.close()
        shutil.rmtree(directory, ignore_errors=True)

    def teardown(self) -> None:
        if self.kit is not None:
            self.kit.close()
        shutil.rmtree(self.directory, ignore_errors=True)


class TestVersions(Machine.TestCase):  # type: ignore[misc,name-defined]
    settings = settings(max_examples=30, stateful_step_count=40)


@pytest.mark.slow
class TestVersionsForLong(Machine.TestCase):  # type: ignore[misc,name-defined]
    settings = settings(max_examples=400, stateful_step_count=60)
