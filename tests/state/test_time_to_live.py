"""Time to live, case by case: what is refused, what is on disk and on the changelog, turning it on, over and off."""

from __future__ import annotations

import struct
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from processor_api.errors import StateError, TopologyError
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.contracts import ValueAndTimestamp, ValueTimestampHeaders
from processor_api.stores.factory import Stores
from processor_api.stores.suppliers import StoreSupplier
from processor_api.stores.time_to_live import TimeToLive
from processor_api.topology.topology import Topology
from state.registry.kinds import open_store
from state.row_format.record_context import Cursor
from state.time_to_live.buffer import SWEEP_FACTOR, SWEEP_LEAST
from state.write_buffer.memory_budget import Budget
from state_support.store_kit import StoreKit, restored

S = Serdes.STRING
SUPPLIER = Stores.persistent_key_value_store("s")
Builder = StoreBuilder[Any, Any]
PLAIN: Builder = Stores.key_value_store_builder(SUPPLIER, S, S)
TIMESTAMPED: Builder = Stores.timestamped_key_value_store_builder(SUPPLIER, S, S)
HEADERS: Builder = Stores.timestamped_key_value_store_with_headers_builder(SUPPLIER, S, S)
BUILDERS = {"plain": PLAIN, "timestamped": TIMESTAMPED, "headers": HEADERS}
KIN = [("h", b"1")]


def given(builder: Builder, value: str, timestamp: int) -> Any:
    if builder.kind == "key-value":
        return value
    if builder.kind == "timestamped-key-value":
        return ValueAndTimestamp(value, timestamp)
    return ValueTimestampHeaders(value, timestamp, KIN)


def at(kit: StoreKit, time: int) -> Any:
    """A record of this time is in work, and time has come to it."""
    kit.cursor.stream_time = max(kit.cursor.stream_time, time)
    return kit.at(time).facade


def put(kit: StoreKit, key: str, value: str, time: int) -> None:
    at(kit, time).put(key, given(kit.builder, value, time))


def keys(kit: StoreKit) -> list[str]:
    with kit.facade.all() as rows:
        return [key for key, _ in rows]


# ------------------------------------------------------------------------ settings


def test_a_time_to_live_is_a_positive_duration_by_one_of_two_measures() -> None:
    assert PLAIN.with_time_to_live(timedelta(minutes=1)).time_to_live == TimeToLive(timedelta(minutes=1), "record_time")
    assert TimeToLive(timedelta(minutes=1)).ms == 60_000
    for bad in (0, -1, timedelta(0)):
        with pytest.raises(TopologyError, match="store 's': a time to live must be at least 1 ms") as caught:
            PLAIN.with_time_to_live(bad)
        assert caught.value.store == "s"
    with pytest.raises(TopologyError, match=r"store 's'.*'record_time' or 'access', got 'reads'"):
        PLAIN.with_time_to_live(5, by="reads")
    with pytest.raises(TypeError, match="timedelta or integer milliseconds"):
        PLAIN.with_time_to_live("1 h")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "builder",
    [
        Stores.window_store_builder(Stores.persistent_window_store("w", 100, 10), S, S),
        Stores.session_store_builder(Stores.in_memory_session_store("w", 100), S, S),
        Stores.versioned_key_value_store_builder(Stores.persistent_versioned_key_value_store("w", 100), S, S),
        Stores.list_store_builder(Stores.persistent_list_store("w"), S, S),
        Stores.key_value_store_builder(Stores.lru_map("w", 5), S, S),
    ],
    ids=lambda builder: builder.kind,
)
def test_kinds_that_bound_themselves_have_none(builder: Builder) -> None:
    with pytest.raises(TopologyError, match=rf"store 'w' is a {builder.kind} store, which cannot have a time to live"):
        builder.with_time_to_live(5)


def test_stores_that_a_topic_fills_have_none() -> None:
    builder = PLAIN.with_time_to_live(5).with_logging_disabled()
    with pytest.raises(TopologyError, match="store 's' cannot have a time to live: its topic"):
        Topology().add_global_store(builder, "source", "topic", "node", lambda: None)  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match="store 's' cannot have a time to live: its topic"):
        Topology().add_read_only_state_store(builder, "source", "topic", "node", lambda: None)  # type: ignore[arg-type]


# ------------------------------------------------------------------------ expiry


@pytest.mark.parametrize("by", ["record_time", "access"])
@pytest.mark.parametrize("name", sorted(BUILDERS))
def test_a_key_is_gone_when_its_time_has_passed(name: str, by: str, tmp_path: Path) -> None:
    kit = StoreKit(BUILDERS[name].with_time_to_live(10, by), tmp_path / "db")
    put(kit, "a", "1", 100)
    kit.cursor.leave()
    kit.cursor.stream_time = 109
    assert kit.facade.get("a") == given(kit.builder, "1", 100)
    kit.commit()
    assert keys(kit) == ["a"]
    kit.cursor.stream_time = 110
    assert kit.facade.get("a") is None
    assert keys(kit) == []
    assert kit.facade.approximate_num_entries() == 1, "it counts what has not been removed yet"
    kit.cursor.stream_time = 114
    kit.commit()
    assert kit.logged[-1][:3] == (b"a", None, 114)
    kit.restart()
    assert kit.facade.approximate_num_entries() == 0
    kit.close()


def test_a_late_put_by_record_time_is_gone_at_once(tmp_path: Path) -> None:
    """It replaces what was there, as puts do."""
    kit = StoreKit(PLAIN.with_time_to_live(10), tmp_path / "db")
    put(kit, "a", "1", 100)
    put(kit, "a", "late", 90)
    assert kit.facade.get("a") is None
    kit.close()


def test_time_does_not_go_back_with_a_restart(tmp_path: Path) -> None:
    """The task may not know its stream time when it starts again: the store does."""
    kit = StoreKit(PLAIN.with_time_to_live(10).with_logging_disabled(), tmp_path / "db")
    put(kit, "a", "1", 100)
    kit.commit()
    kit.cursor.stream_time = 109
    put(kit, "b", "2", 109)
    kit.commit()
    kit.cursor.stream_time = -1
    kit.restart()
    assert keys(kit) == ["a", "b"]
    kit.cursor.stream_time = 50
    assert kit.facade.get("a") == "1"
    kit.cursor.stream_time = 110
    assert keys(kit) == ["b"]
    kit.close()


def test_a_commit_removes_a_bounded_number_of_rows(tmp_path: Path) -> None:
    kit = StoreKit(PLAIN.with_time_to_live(10), tmp_path / "db")
    count = 3 * SWEEP_LEAST
    for number in range(count):
        put(kit, f"{number:06d}", "v", 100)
    kit.commit()
    kit.cursor.stream_time = 200
    logged, commits = len(kit.logged), 0
    while len(kit.logged) - logged < count:
        before = len(kit.logged)
        kit.commit()
        assert 0 < len(kit.logged) - before <= SWEEP_LEAST + SWEEP_FACTOR * count
        commits += 1
    assert commits == 3
    assert {record[1] for record in kit.logged[logged:]} == {None}
    kit.close()


def test_a_sweep_begins_when_half_of_the_time_has_passed_since_the_last(tmp_path: Path) -> None:
    kit = StoreKit(PLAIN.with_time_to_live(10), tmp_path / "db")
    put(kit, "a", "1", 100)
    put(kit, "b", "1", 103)
    kit.commit()
    for time, removed in ((110, 1), (113, 1), (114, 1), (115, 2)):
        kit.cursor.stream_time = time
        kit.commit()
        assert [record[1] for record in kit.logged].count(None) == removed
    kit.close()


def test_a_scan_a_query_and_a_read_of_nobody_refresh_nothing(tmp_path: Path) -> None:
    kit = StoreKit(PLAIN.with_time_to_live(10, "access"), tmp_path / "db")
    put(kit, "a", "1", 100)
    kit.commit()
    assert list(at(kit, 109).all()) == [("a", "1")]
    kit.cursor.leave()
    assert kit.facade.get("a") == "1"
    kit.cursor.stream_time = 110
    assert kit.facade.get("a") is None
    kit.close()


def test_an_open_range_does_not_see_an_expired_row_that_came_back(tmp_path: Path) -> None:
    """Put again, committed and read while it is open: the range shows the moment when it was opened."""
    kit = StoreKit(TIMESTAMPED.with_time_to_live(10, by="access"), tmp_path / "db")
    put(kit, "k", "old", 0)
    kit.commit()
    with at(kit, 50).all() as rows:
        put(kit, "k", "new", 51)
        kit.commit()
        assert at(kit, 52).get("k") == ValueAndTimestamp("new", 51)
        assert list(rows) == []
    assert keys(kit) == ["k"]
    kit.close()


def test_reads_are_logged_once_with_the_commit(tmp_path: Path) -> None:
    kit = StoreKit(TIMESTAMPED.with_time_to_live(10, "access"), tmp_path / "db")
    put(kit, "a", "1", 100)
    put(kit, "b", "1", 100)
    kit.commit()
    before = len(kit.logged)
    for time in (101, 102, 105):
        assert at(kit, time).get("a") == ValueAndTimestamp("1", 100)
    assert len(kit.logged) == before
    assert kit.budget.uncommitted > 0
    kit.commit()
    assert kit.logged[before:] == [(b"a", b"1", 100, [("streams.accessed", struct.pack(">q", 105))])]
    kit.cursor.stream_time = 112
    assert keys(kit) == ["a"]
    kit.close()


# ------------------------------------------------------------------------ bytes


def test_by_record_time_the_changelog_is_as_without(tmp_path: Path) -> None:
    for builder in BUILDERS.values():
        logs = []
        for lives in (builder, builder.with_time_to_live(10)):
            kit = StoreKit(lives, tmp_path / f"{len(logs)} {builder.kind}")
            put(kit, "a", "1", 100)
            put(kit, "b", "2", 100)
            kit.facade.delete("b")
            kit.commit()
            logs.append(list(kit.logged))
            kit.close()
        assert logs[0] == logs[1]


def test_the_rows_by_access(tmp_path: Path) -> None:
    """Frozen on disk: the time of the access, then a row as without."""
    kit = StoreKit(PLAIN.with_time_to_live(10, "access"), tmp_path / "db")
    kit.cursor.stream_time = 107
    put(kit, "a", "1", 100)
    kit.commit()
    assert kit.dump() == {
        "s.accessed": [(b"a", struct.pack(">qq", 107, 100) + b"1")],
        "s.expiry": [(b"access", struct.pack(">qq", 107, 107))],
    }
    kit.close()


def test_headers_of_the_same_name_are_the_users(tmp_path: Path) -> None:
    kit = StoreKit(HEADERS.with_time_to_live(10, "access"), tmp_path / "db")
    theirs = ValueTimestampHeaders("1", 100, [("streams.accessed", b"12345678")])
    at(kit, 105).put("a", theirs)
    kit.commit()
    other = restored(kit.builder, kit.logged, tmp_path / "other")
    other.cursor.stream_time = 114
    assert other.facade.get("a") == theirs
    other.cursor.stream_time = 115
    assert other.facade.get("a") is None
    other.close()
    kit.close()


# ------------------------------------------------------------------------ on, over, off


@pytest.mark.parametrize("by", ["record_time", "access"])
@pytest.mark.parametrize("name", sorted(BUILDERS))
def test_rows_of_before_live_on_from_the_first_commit(name: str, by: str, tmp_path: Path) -> None:
    """Where their own time is not known: nothing is lost at once that was kept for ever."""
    builder = BUILDERS[name]
    kit = StoreKit(builder, tmp_path / "db")
    put(kit, "a", "1", 100)
    kit.commit()
    kit.cursor.stream_time = 200
    kit.restart(builder.with_time_to_live(10, by))
    known = by == "record_time" and name != "plain"
    assert keys(kit) == ([] if known else ["a"])
    kit.commit()
    kit.cursor.stream_time = 209
    assert keys(kit) == ([] if known else ["a"])
    kit.cursor.stream_time = 210
    assert keys(kit) == []
    kit.close()


@pytest.mark.parametrize("name", sorted(BUILDERS))
@pytest.mark.parametrize("rocksdb", [False, True])
def test_an_unknown_access_gives_one_life(name: str, rocksdb: bool, tmp_path: Path) -> None:
    """A store that is restored more often than its time to live kept what nobody ever read: each restore began anew."""
    supplier = SUPPLIER if rocksdb else Stores.in_memory_key_value_store("s")
    builder = replace(BUILDERS[name], supplier=replace(supplier, kind=BUILDERS[name].supplier.kind))
    kit = StoreKit(builder, tmp_path / "db")
    put(kit, "a", "1", 0)
    kit.commit()
    kit.close()
    log, alive = list(kit.committed), []
    for time in (90, 180, 270):
        kit = restored(builder.with_time_to_live(100, "access"), log, tmp_path / str(time))
        kit.committed, kit.logged = list(log), list(log)
        kit.cursor.stream_time = time
        kit.commit()
        kit.cursor.stream_time = time + 9
        alive.append(dict(kit.facade.all()))
        log = list(kit.committed)
        kit.close()
    assert alive == [{"a": given(builder, "1", 0)}, {"a": given(builder, "1", 0)}, {}]


def test_from_one_measure_to_the_other_and_off_again(tmp_path: Path) -> None:
    for builder in (TIMESTAMPED, HEADERS):
        kit = StoreKit(builder.with_time_to_live(10), tmp_path / builder.kind)
        put(kit, "a", "1", 100)
        put(kit, "b", "2", 108)
        kit.commit()
        kit.cursor.stream_time = 110
        kit.restart(builder.with_time_to_live(10, "access"))
        assert keys(kit) == ["a", "b"], "when they were last used is not known"
        put(kit, "b", "3", 111)
        kit.commit()
        reader = open_store(
            builder, engine=kit.engine, cursor=Cursor(), budget=Budget(0), log=None, reads_only=True,
            key_serde=Serdes.STRING, value_serde=Serdes.STRING,
        )  # fmt: skip
        reader.close()
        assert kit.engine.holds("s.expiry"), "who only reads changes nothing"
        kit.restart(builder)
        assert dict(kit.facade.all()) == {"a": given(builder, "1", 100), "b": given(builder, "3", 111)}
        assert not kit.engine.holds("s.expiry"), "should it get a time to live again, that starts anew"
        put(kit, "a", "4", 112)
        kit.commit()
        kit.restart(builder.with_time_to_live(10))
        kit.cursor.stream_time = 121
        assert keys(kit) == ["a"]
        kit.close()


@pytest.mark.parametrize("by", ["access", "record_time"])
@pytest.mark.parametrize(
    ("name", "between"),
    [
        (name, measure)
        for name in sorted(BUILDERS)
        for measure in ("access", "record_time", None)
        if measure or name != "plain"
    ],
)
def test_a_measure_that_comes_back_starts_again(name: str, by: str, between: str | None, tmp_path: Path) -> None:
    """What was written while another measure counted was measured from the first commit that the store ever made by
    this one: it was hidden at once, and deleted on the changelog."""
    builder = BUILDERS[name]
    lives = builder.with_time_to_live(100, by)
    kit = StoreKit(lives, tmp_path / "db")
    put(kit, "a", "1", 1000)
    kit.commit()
    kit.restart(builder if between is None else builder.with_time_to_live(100, between))
    put(kit, "b", "2", 5000)
    kit.commit()
    kit.restart(lives)
    kit.cursor.stream_time = 5001
    for _ in range(2):
        assert keys(kit) == ["b"]
        kit.commit()
        kit.restart()
        kit.cursor.stream_time = 5002
    assert {key for key, value, *_ in kit.logged if value is None} <= {b"a"}
    assert [row for row, _ in kit.engine.family("s.expiry").range()] == [by.encode()]
    kit.cursor.stream_time = 5101 if by == "access" and between != "access" else 5100
    assert keys(kit) == []
    kit.close()


@pytest.mark.parametrize("last", ["access", "record_time"])
def test_the_notes_of_both_measures_of_before(last: str, tmp_path: Path) -> None:
    """Directories that were written when each measure kept its row for ever: the later one tells which counted last."""
    kit = StoreKit(TIMESTAMPED.with_time_to_live(100, last), tmp_path / "db")
    batch, family = kit.engine.batch(), kit.engine.family("s.expiry")
    other = "access" if last == "record_time" else "record_time"
    batch.put(last.encode(), struct.pack(">qq", 500, 60), family.handle)
    batch.put(other.encode(), struct.pack(">qq", 400, 40), family.handle)
    kit.engine.write(batch)
    del batch, family
    for by, since in ((last, 60), (other, 500)):
        kit.restart(TIMESTAMPED.with_time_to_live(100, by))
        lifetime = kit.store.rows.lifetime  # type: ignore[attr-defined]
        assert (lifetime.now(), lifetime.unknown_time) == (500, since)
    kit.close()


MEASURES = [None, "record_time", "access"]


@pytest.mark.parametrize("rocksdb", [False, True])
@pytest.mark.parametrize("source", sorted(BUILDERS))
@pytest.mark.parametrize("source_by", MEASURES)
def test_any_kind_restores_what_any_other_logged(
    source: str, source_by: str | None, rocksdb: bool, tmp_path: Path
) -> None:
    """Whatever measured the time: our header about the access was shown to users by a store with headers that did not
    measure it, which the kept directory did not; put back by users, it aged the row."""
    supplier = SUPPLIER if rocksdb else Stores.in_memory_key_value_store("s")

    def built(name: str, by: str | None) -> Builder:
        builder = replace(BUILDERS[name], supplier=replace(supplier, kind=BUILDERS[name].supplier.kind))
        return builder if by is None else builder.with_time_to_live(100, by)

    kit = StoreKit(built(source, source_by), tmp_path / "db")
    put(kit, "a", "1", 50)
    kit.cursor.stream_time = 60
    kit.commit()
    kit.close()
    for name in BUILDERS:
        for by in MEASURES:
            other = restored(built(name, by), kit.committed, tmp_path / f"{name} {by}")
            other.cursor.stream_time = 61
            headers = KIN if source == name == "headers" else []
            value = ValueTimestampHeaders("1", 50, headers) if name == "headers" else given(other.builder, "1", 50)
            assert dict(other.facade.all()) == {"a": value}
            other.close()


@pytest.mark.parametrize("by", [None, "record_time"])
def test_our_header_never_comes_back_through_users(by: str | None, tmp_path: Path) -> None:
    """Restored under another measure, read, changed and put back, and restored by access again: the row was taken for
    one that had been read long ago."""
    lives = HEADERS.with_time_to_live(100, "access")
    between = HEADERS if by is None else HEADERS.with_time_to_live(10_000, by)
    kit = StoreKit(lives, tmp_path / "db")
    put(kit, "a", "1", 60)
    kit.commit()
    kit.close()
    other = restored(between, kit.committed, tmp_path / "other")
    other.committed, other.logged = list(kit.committed), list(kit.committed)
    found = at(other, 5000).get("a")
    other.facade.put("a", ValueTimestampHeaders("2", 5000, found.headers))
    other.commit()
    again = restored(lives, other.committed, tmp_path / "again")
    again.cursor.stream_time = 5001
    assert again.facade.get("a") == ValueTimestampHeaders("2", 5000, KIN)
    again.close()
    other.close()


@pytest.mark.parametrize("by", MEASURES)
def test_headers_that_look_like_ours_are_restored_as_they_were(by: str | None, tmp_path: Path) -> None:
    """A user may have one of that name, from a topic that is a changelog."""
    builder = HEADERS if by is None else HEADERS.with_time_to_live(1000, by)
    kit = StoreKit(builder, tmp_path / "db")
    theirs = [("streams.accessed", struct.pack(">q", 1)), ("streams.accessed", struct.pack(">q", 2))]
    for key, headers in (("a", theirs), ("b", theirs[1:]), ("c", [])):
        at(kit, 100).put(key, ValueTimestampHeaders("1", 100, headers))
    kit.commit()
    other = restored(builder, kit.committed, tmp_path / "other")
    other.cursor.stream_time = 100
    assert list(other.facade.all()) == list(kit.facade.all())
    other.close()
    kit.close()


def test_a_plain_store_cannot_lose_its_time_to_live_and_keep_its_rows(tmp_path: Path) -> None:
    kit = StoreKit(PLAIN.with_time_to_live(10, "access"), tmp_path / "db")
    put(kit, "a", "1", 100)
    kit.commit()
    with pytest.raises(StateError, match="store 's' is a key-value store, but the rows on disk were written by a key"):
        kit.restart(PLAIN)
    kit.engine.close()
    other = restored(PLAIN, kit.committed, tmp_path / "other")
    assert other.facade.get("a") == "1"
    other.close()


def test_a_damaged_note_of_the_time_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    kit = StoreKit(PLAIN.with_time_to_live(10), tmp_path / "db")
    family, batch = kit.engine.family("s.expiry"), kit.engine.batch()
    batch.put(b"record_time", b"short", family.handle)
    kit.engine.write(batch)
    kit.close_store()
    with pytest.raises(StateError, match=r"store 's' is damaged.*run `streams state rebuild s`"):
        kit.open()
    del family, batch
    kit.engine.close()


def test_a_store_in_memory_takes_it_too(tmp_path: Path) -> None:
    supplier: StoreSupplier = Stores.in_memory_key_value_store("s")
    builder: Builder = Stores.key_value_store_builder(supplier, S, S).with_time_to_live(10).with_caching_enabled()
    kit = StoreKit(builder, tmp_path / "none")
    put(kit, "a", "1", 100)
    kit.commit()
    kit.cursor.stream_time = 110
    kit.commit()
    assert [record[:2] for record in kit.logged] == [(b"a", b"1"), (b"a", None)]
    assert kit.engine.family("s.timestamped").rows == {}
    kit.close()
