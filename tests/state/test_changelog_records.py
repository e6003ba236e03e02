"""A store returns its rows as records of its changelog. A restore of them makes the same rows, which are those that the
changelog itself gives: every kind, on both engines, whatever was put, removed, late, committed, aborted or lost.
"""

from __future__ import annotations

import shutil
import struct
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from processor_api.errors import StateError
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.factory import Stores
from processor_api.stores.suppliers import ROCKSDB, StoreSupplier, as_supplier
from state.key_value.store import KINDS as KEY_VALUE
from state.registry.kinds import KINDS, changelog_records_of, family_of, kind_of, register_kind
from state.row_format.codec import PLAIN
from state.versioned.as_records import in_order
from state.versioned.history import VERSIONS, read_version_row
from state.windowed.key_layout import TimeFirst
from state.windowed.segments import FACTS, FACTS_KEY
from state_support.bytes_stores import PlainBytesSupplier
from state_support.restorable import RESTORABLE, WRITES, Restorable, Step, all_of
from state_support.store_kit import LogRecord, StoreKit, restored
from streams.testing.contracts.store_kit import StoreKit as ContractKit

S = Serdes.STRING
STEPS = st.lists(st.one_of(WRITES, WRITES, WRITES, st.sampled_from(["commit", "abort", "restart"])), max_size=40)
CHOSEN = st.fixed_dictionaries(
    {
        "rocksdb": st.sampled_from([False, False, False, True]),
        "cached": st.booleans(),
        "log_each": st.booleans(),
        "at_once": st.integers(1, 9),
    }
)
FACTS_OF_JOIN = b"\xff"
NO_FACTS = struct.pack(">iq", 0, -1)
"""The last sequence number and the stream time."""
LRU_NUMBER_BYTES = 8


def lived(kind: Restorable, chosen: dict[str, Any], steps: Sequence[Any], directory: Path) -> StoreKit:
    """A store after these steps, with everything committed."""
    builder = kind.build(chosen["rocksdb"])
    builder = builder.with_caching_enabled() if chosen["cached"] and kind.caches else builder
    kit = StoreKit(builder, directory / "live", log_each=chosen["log_each"])
    latest = committed = -1
    for step in steps:
        if step == "commit":
            kit.commit()
            committed = latest
        elif isinstance(step, str):
            persistent = builder.supplier.persistent
            (kit.restart if step == "restart" and persistent else kit.abort)()
            latest = kit.cursor.stream_time = committed
        else:
            call, key, value, ahead, length = step
            time = max(latest + ahead, 0)
            latest = kit.cursor.stream_time = max(latest, time)
            kit.cursor.source = "topic", 0
            kit.at(time, [("h", b"1")] if length else None)
            kind.write(kit, Step(call, key, value, time, length, time))
    kit.commit()
    return kit


def records_of(kit: StoreKit) -> list[LogRecord]:
    found = changelog_records_of(kit.builder, kit.engine)
    assert found is not None
    return list(found)


def compacted(records: Sequence[LogRecord], kind: Restorable) -> list[LogRecord]:
    if not kind.compacts:
        return list(records)
    last = {record[0]: i for i, record in enumerate(records)}
    return [records[i] for i in sorted(last.values())]


def rows_of(kit: StoreKit, *, shown: bool = False) -> dict[str, Any]:
    """The rows that a restore makes, without what depends on when it is made.

    :param shown: leaves out what a changelog may give in another way: windows and sessions that have expired, and the
        order of an LRU map, in which keys stand where they were first put in a commit.
    """
    kind, found = kind_of(kit.builder), {}
    for name, rows in kit.dump().items():
        if shown and hasattr(kit.store.operator, "timed"):
            rows = [row for row in rows if row[0] == FACTS_KEY or _is_live(kit, row[0])]
        suffix = name.removeprefix(f"{kit.builder.name}.")
        if suffix in kind.notes or suffix == "suppressed-times":
            continue  # made again when the store is opened and used
        found[suffix] = _comparable(kit, suffix, rows, shown)
    return found


def _is_live(kit: StoreKit, row: bytes) -> bool:
    timed = kit.store.operator.timed
    layout = timed.layout
    if isinstance(layout, TimeFirst) and row[8] == 1:
        layout = layout.index
    return bool(layout.parts(row)[1] >= timed.segments.live_from)


def _comparable(kit: StoreKit, suffix: str, rows: list[tuple[bytes, bytes]], shown: bool) -> list[Any]:
    match suffix:
        case "lru":  # only the order of the numbers counts
            ordered = rows if shown else sorted(rows, key=lambda row: row[1])
            return [(key, row[LRU_NUMBER_BYTES:]) for key, row in ordered]
        case "join-buffer":  # the counts are made again, sequence and stream time are not
            facts = dict(rows).get(FACTS_OF_JOIN, NO_FACTS)[-len(NO_FACTS) :]
            return [*((key, row) for key, row in rows if key != FACTS_OF_JOIN), facts]
        case str() if suffix == VERSIONS:  # expired rows are deleted by pieces, with any commit
            history: Any = kit.store.participants[0]
            ends = [(row, read_version_row(*row)) for row in rows]
            return [row for row, found in ends if found is None or found[1] >= history.expired_before()]
    if kit.builder.supplier.parameters.get("retain_duplicates"):
        return [_without_lost_number(row, rows) for row in rows]
    return rows


def _without_lost_number(row: tuple[bytes, bytes], rows: list[tuple[bytes, bytes]]) -> Any:
    """The facts with the last number that a row has: a late put has left none."""
    if row[0] != FACTS_KEY:
        return row
    time, interval, sequence = FACTS.unpack(row[1])
    numbers = [struct.unpack(">i", key[-4:])[0] for key, _ in rows if key != FACTS_KEY]
    assert sequence >= max(numbers, default=0)
    return time, interval, max(numbers, default=0)


def _may_have_expired(kit: StoreKit, record: Any) -> bool:
    """Whether a restore may have dropped a record as an expired version, which its store had not deleted yet; that it
    drops no other, the rows show."""
    history: Any = kit.store.participants[0]
    return VERSIONS in rows_of(kit) and record[2] < history.expired_before()


def check(kit: StoreKit, kind: Restorable, directory: Path, at_once: int) -> None:
    before = kit.dump()
    records = records_of(kit)
    assert kit.dump() == before, "the engine was written"
    numbered = bool(kit.builder.supplier.parameters.get("retain_duplicates"))
    shown = [] if numbered else all_of(kit, kind)  # which duplicate `fetch` gives depends on numbers without rows
    for name, log in (("own", records), ("topic", compacted(kit.committed, kind))):
        other = restored(kit.builder, log, directory / name, at_once=at_once)
        other.cursor.stream_time = kit.cursor.stream_time
        is_topic = name == "topic"
        assert rows_of(other, shown=is_topic) == rows_of(kit, shown=is_topic), name
        assert numbered or all_of(other, kind) == shown, name
        if not is_topic:
            again = rows_as_set(records_of(other))
            assert again <= rows_as_set(records)
            assert [one for one in rows_as_set(records) - again if not _may_have_expired(kit, one)] == []
        other.close()


def rows_as_set(records: Sequence[LogRecord]) -> set[Any]:
    return {(key, value, timestamp, tuple(headers or ())) for key, value, timestamp, headers in records}


def live_and_write_back(kind: str, chosen: dict[str, Any], steps: Sequence[Any]) -> None:
    directory = Path(tempfile.mkdtemp(prefix="records-"))
    try:
        kit = lived(RESTORABLE[kind], chosen, steps, directory)
        check(kit, RESTORABLE[kind], directory, chosen["at_once"])
        kit.close()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


EXPIRED = [("put", "", "", 0, 0)] * 7 + [("put", "", "", 20, 0), ("put", "", "", 41, 0)]
"""A version that has expired by the last put, and waits for a later commit to be deleted."""


@pytest.mark.parametrize("kind", RESTORABLE)
@settings(max_examples=8)
@example(chosen={"rocksdb": False, "cached": False, "log_each": False, "at_once": 1}, steps=EXPIRED)
@given(chosen=CHOSEN, steps=STEPS)
def test_rows_are_written_back(kind: str, chosen: dict[str, Any], steps: Sequence[Any]) -> None:
    live_and_write_back(kind, chosen, steps)


@pytest.mark.slow
@pytest.mark.parametrize("kind", RESTORABLE)
@settings(max_examples=400)
@given(chosen=CHOSEN, steps=STEPS)
def test_rows_are_written_back_for_long(kind: str, chosen: dict[str, Any], steps: Sequence[Any]) -> None:
    live_and_write_back(kind, chosen, steps)


# ---------------------------------------------------------------------- cases


def test_rows_of_an_older_kind_are_given_as_rows_of_the_present_one(tmp_path: Path) -> None:
    """The timestamp of a row that a plain store wrote is not known."""
    plain = Stores.key_value_store_builder(Stores.persistent_key_value_store("s"), S, S)
    stamped = Stores.timestamped_key_value_store_builder(Stores.persistent_timestamped_key_value_store("s"), S, S)
    kit = StoreKit(plain, tmp_path / "live")
    kit.at(5).facade.put("a", "1")
    kit.facade.put("b", "2")
    kit.commit()
    kit.restart(stamped)
    records = records_of(kit)
    assert records == [(b"a", b"1", -1, None), (b"b", b"2", -1, None)]
    other = restored(stamped, records, tmp_path / "other")
    with kit.facade.all() as live, other.facade.all() as again:
        assert list(live) == list(again)
    other.close()
    kit.close()


def test_a_byte_store_of_a_user_is_written_back(tmp_path: Path) -> None:
    supplier: Any = as_supplier(PlainBytesSupplier("store"))
    builder: StoreBuilder[Any, Any] = Stores.key_value_store_builder(supplier, S, S)
    kit = ContractKit(builder, tmp_path)
    kit.restore([])
    kit.start().put("a", "1")
    kit.commit()
    found = changelog_records_of(builder, kit.engine)
    assert found is not None
    assert [record[:2] for record in found] == [(b"a", b"1")]
    kit.close()


def test_a_kind_with_a_restore_of_its_own_has_to_say_how(tmp_path: Path) -> None:
    """Its rows may be anything, so the default is not taken for it."""
    kind = replace(
        KEY_VALUE["key-value"],
        codec=replace(PLAIN, family_suffix="own-restore"),
        offline={},
        restoring=KINDS["headers-key-value"].restoring,
    )
    register_kind("own-restore", kind)
    supplier = StoreSupplier(name="s", kind="own-restore", engine=ROCKSDB)
    kit = StoreKit(StoreBuilder(supplier=supplier, key_serde=S, value_serde=S), tmp_path)
    assert changelog_records_of(kit.builder, kit.engine) is None
    kit.close()


def test_a_damaged_row_is_reported_with_the_store(tmp_path: Path) -> None:
    stamped = Stores.timestamped_key_value_store_builder(Stores.persistent_timestamped_key_value_store("s"), S, S)
    kit = StoreKit(stamped, tmp_path)
    batch = kit.engine.batch()
    batch.put(b"a", b"short", kit.engine.family(family_of(stamped)).handle)
    kit.engine.write(batch)
    with pytest.raises(
        StateError, match=r"the rows of store 's' cannot be written to its changelog.* at least 8 bytes"
    ):
        records_of(kit)
    kit.close()


PUTS = st.lists(
    st.tuples(
        st.integers(0, 9),
        st.binary(max_size=3),
        st.integers(0, 2),
        st.none() | st.binary(max_size=9),
        st.integers(0, 9),
    ),
    unique_by=lambda put: put[:3],
)


@given(puts=PUTS, memory=st.integers(1, 3000))
def test_puts_are_sorted_in_a_file_as_they_are_in_memory(puts: list[Any], memory: int) -> None:
    assert list(in_order(iter(puts), memory)) == list(in_order(iter(puts))) == sorted(puts, key=lambda put: put[:3])


def test_late_deletions_are_put_behind_what_ends_them(tmp_path: Path) -> None:
    """A version store whose order of keys is not that of time, with older latest versions than the history reaches."""
    builder = RESTORABLE["versioned"].build(True)
    kit = StoreKit(builder, tmp_path / "live")
    for key, value, time in [("z", "old", 1), ("a", "1", 500), ("a", None, 520), ("a", "2", 530), ("a", None, 505)]:
        kit.at(time).facade.put(key, value, time)
    kit.at(530).facade.put("a", None, 495)
    kit.commit()
    records = [record[:3] for record in records_of(kit)]
    assert records[0] == (b"z", b"old", 1)
    other = restored(builder, records_of(kit), tmp_path / "other")
    assert other.dump() == kit.dump()
    assert other.facade.get("z").value == "old"
    other.close()
    kit.close()
