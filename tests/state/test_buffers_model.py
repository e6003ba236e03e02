"""The time-ordered buffers against a sorted list, with commits, aborts, restarts and restores."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from processor_api.serde import Serdes
from processor_api.stores.builder import change_buffer_builder, join_buffer_builder
from processor_api.stores.suppliers import MEMORY, ROCKSDB
from state.formats.buffer_value import read_buffer_value
from state.row_format.record_context import OffsetOnly
from state_support.store_kit import StoreKit, restored

S = Serdes.STRING
KEYS = ["", "a", "a\0", "aa", "b"]
VALUES = st.sampled_from([None, "", "x", "yy"])
TIMES = st.integers(0, 20)
HEADERS = st.sampled_from([None, [("h", b"1")], [("é", None), ("h", b"")]])
GRACE = 5
Row = dict[str, Any]


class Machine(RuleBasedStateMachine):
    """Rows come out as their keys on disk stand: by time, then by the key's bytes with the number of the put."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.kit: Any = None
        self.offset = 0

    def open(self, builder: Any, log_each: bool, cache_bytes: int) -> None:
        self.kit = StoreKit(builder, self.directory / "db", log_each=log_each, cache_bytes=cache_bytes)
        self.live: list[Row] = []
        self.saved: list[Row] = []

    def record_in_work(self, timestamp: int, headers: Any) -> Row:
        self.offset += 1
        message = OffsetOnly()
        message.origin = self.offset
        self.kit.cursor.message, self.kit.cursor.source = message, ("töpic", 3)
        self.kit.at(timestamp, headers)
        return {"timestamp": timestamp, "headers": headers, "offset": self.offset}

    def taken(self, most: int) -> list[Row]:
        """What comes out, with the record in work as those downstream see it."""
        found: list[Row] = []
        cursor = self.kit.cursor

        def take(key: Any, value: Any, timestamp: int, headers: Any) -> None:
            assert (cursor.timestamp, cursor.headers) == (timestamp, headers)
            assert cursor.source == ("töpic", 3)
            offset = cursor.message.offset()
            found.append({"key": key, "value": value, "timestamp": timestamp, "headers": headers, "offset": offset})

        before = cursor.timestamp
        self.kit.store.operator.evict_while(lambda: len(found) < most, take)
        assert cursor.timestamp == before
        return found

    @precondition(lambda self: self.kit is not None)
    @invariant()
    def it_knows_how_much_it_has(self) -> None:
        view = self.kit.facade
        assert view.num_records() == len(self.live)
        assert view.min_timestamp() == (min(row["time"] for row in self.live) if self.live else None)
        assert view.buffer_size() == sum(map(self.size, self.live))

    def size(self, row: Row) -> int:
        raise AssertionError  # each machine has its own

    @rule()
    def commit(self) -> None:
        self.kit.commit()
        self.saved = [dict(row) for row in self.live]

    @rule()
    def abort(self) -> None:
        self.kit.abort()
        self.live = [dict(row) for row in self.saved]

    @rule()
    def restart(self) -> None:
        """In memory everything is gone, and comes back from the changelog."""
        if self.kit.builder.supplier.persistent:
            self.kit.restart()
            self.live = [dict(row) for row in self.saved]
        else:
            self.restore()

    @rule()
    def restore(self) -> None:
        self.commit()
        old, self.offset = self.kit, self.offset
        self.kit = restored(old.builder, old.logged, Path(tempfile.mkdtemp(dir=self.directory)) / "db")
        self.kit.logged, self.kit.committed = list(old.logged), list(old.logged)
        old.close()

    def teardown(self) -> None:
        if self.kit is not None:
            self.kit.close()
        shutil.rmtree(self.directory)


def context_size(row: Row) -> int:
    headers = sum(len(name) + len(value or b"") for name, value in row["headers"] or ())
    return 8 + 20 + len("töpic") + headers


UNKNOWN = (-1, None)
"""What a value came with that was not buffered: no timestamp and no headers are known."""
BUFFERED = ("time", "prior", "prior_came_with", "old_came_with")


def front(timestamp: int, headers: Any) -> str:
    """What Kafka Streams writes before a value that keeps headers, in hex: all lengths here fit into one byte."""

    def varint(number: int) -> str:
        return f"{number * 2:02x}" if number >= 0 else "01"

    listed = "".join(
        varint(len(name.encode()))
        + name.encode().hex()
        + (varint(-1) if value is None else varint(len(value)) + value.hex())
        for name, value in headers or ()
    )
    counted = varint(len(headers)) + listed if headers else ""
    return varint(len(counted) // 2) + counted + f"{timestamp & (1 << 64) - 1:016x}"


class ChangeMachine(Machine):
    @initialize(rocksdb=st.booleans(), cache_bytes=st.sampled_from([1, 1 << 20]), keeps_headers=st.booleans())
    def start(self, rocksdb: bool, cache_bytes: int, keeps_headers: bool) -> None:
        self.keeps_headers = keeps_headers
        builder = change_buffer_builder("s", S, S, engine=ROCKSDB if rocksdb else MEMORY, headers=keeps_headers)
        self.open(builder, True, cache_bytes)

    @rule(time=TIMES, key=st.sampled_from(KEYS), new=VALUES, old=VALUES, timestamp=TIMES, headers=HEADERS)
    def put(self, time: int, key: str, new: Any, old: Any, timestamp: int, headers: Any) -> None:
        row = self.record_in_work(timestamp, headers) | {"key": key, "value": (new, old)}
        self.kit.store.operator.put(time, key, (new, old), timestamp, headers)
        known = [other for other in self.live if other["key"] == key]
        came_with = UNKNOWN
        for other in known:
            row |= {name: other[name] for name in ("time", "prior", "prior_came_with")}
            self.live.remove(other)
            if other["value"][0] is not None:
                came_with = (other["timestamp"], other["headers"])
        self.live.append({"time": time, "prior": old, "prior_came_with": UNKNOWN} | row | {"old_came_with": came_with})

    @rule(most=st.integers(0, 4))
    def evict(self, most: int) -> None:
        self.live.sort(key=lambda row: (row["time"], row["key"].encode()))
        leaving, self.live = self.live[:most], self.live[most:]
        assert self.taken(most) == [{k: v for k, v in row.items() if k not in BUFFERED} for row in leaving]

    @rule(key=st.sampled_from(KEYS))
    def look(self, key: str) -> None:
        found = [row["prior"] for row in self.live if row["key"] == key]
        expected = (True, found[0]) if found else (False, None)
        assert self.kit.store.operator.prior_value_for_buffered(key) == expected

    @rule()
    def commit(self) -> None:
        """One record for each key that was touched, without a time, with the version of the format."""
        before = len(self.kit.committed)
        super().commit()
        logged = self.kit.logged[before:]
        assert len({key for key, *_ in logged}) == len(logged)
        assert all(timestamp == -1 for _, _, timestamp, _ in logged)
        rows = {row["key"].encode(): row for row in self.live}
        for key, value, _, headers in logged:
            assert headers == (None if value is None else [("v", b"\x03"), *self.headers_of(rows[key])])
            assert value is None or read_buffer_value(value).prefixes is None

    def headers_of(self, row: Row) -> list[tuple[str, bytes]]:
        """Where values keep headers, what the prior and the old one came with; nothing is said twice."""
        prior, old = self.parts(row)
        of_prior = [("vh.prior", bytes.fromhex(front(*row["prior_came_with"])))] if prior and prior != old else []
        of_old = [("vh.old", bytes.fromhex(front(*row["old_came_with"])))] if old else []
        return [*of_prior, *of_old] if self.keeps_headers else []

    def parts(self, row: Row) -> list[Any]:
        """The prior and the old value, with what they came with if that is kept."""
        parts = (row["prior"], row["prior_came_with"]), (row["value"][1], row["old_came_with"])
        return [None if value is None else (value, front(*came) if self.keeps_headers else "") for value, came in parts]

    def size(self, row: Row) -> int:
        (prior, old), new = self.parts(row), row["value"][0]
        fresh = None if new is None else (new, front(row["timestamp"], row["headers"]) if self.keeps_headers else "")
        parts = [prior, fresh] if old == prior else [prior, old, fresh]
        values = sum(len(value.encode()) + len(before) // 2 for value, before in filter(None, parts))
        return context_size(row) + len(row["key"]) + values


class JoinMachine(Machine):
    @initialize(rocksdb=st.booleans(), log_each=st.booleans(), cache_bytes=st.sampled_from([1, 1 << 20]))
    def start(self, rocksdb: bool, log_each: bool, cache_bytes: int) -> None:
        builder = join_buffer_builder("s", GRACE, S, S, engine=ROCKSDB if rocksdb else MEMORY)
        self.open(builder, log_each, cache_bytes)
        self.time = self.saved_time = -1
        self.order = 0

    @rule(key=st.sampled_from(KEYS), value=VALUES.filter(lambda v: v is not None), step=TIMES, headers=HEADERS)
    def put(self, key: str, value: str, step: int, headers: Any) -> None:
        timestamp = max(self.time - 10, 0) + step
        row = self.record_in_work(timestamp, headers) | {"key": key, "value": value, "time": timestamp}
        took = self.kit.store.operator.put(key, value, timestamp, headers)
        assert took == (timestamp >= self.time - GRACE)
        if took:
            self.order += 1
            self.live.append(row | {"order": self.order})
            self.time = max(self.time, timestamp)

    @rule(most=st.integers(0, 4))
    def evict(self, most: int) -> None:
        self.live.sort(key=lambda row: (row["time"], row["key"].encode() + row["order"].to_bytes(4, "big")))
        leaving = [row for row in self.live if row["time"] <= self.time - GRACE][:most]
        self.live = self.live[len(leaving) :]
        assert self.taken(most) == [{k: v for k, v in row.items() if k not in ("time", "order")} for row in leaving]

    @rule()
    def commit(self) -> None:
        super().commit()
        self.saved_time = self.time

    @rule()
    def abort(self) -> None:
        super().abort()
        self.time = self.saved_time

    @rule()
    def restart(self) -> None:
        super().restart()
        self.time = self.saved_time

    def size(self, row: Row) -> int:
        return context_size(row) + 5 + len(row["key"].encode()) + len(row["value"])


@pytest.mark.parametrize("machine", [ChangeMachine, JoinMachine])
def test_a_buffer_is_a_sorted_list(machine: type[Machine]) -> None:
    machine.TestCase.settings = settings(max_examples=20, stateful_step_count=40, deadline=None)
    machine.TestCase().runTest()
