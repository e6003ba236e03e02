"""What a versioned store does besides answering: room on disk, bad input, warnings, and what it costs to fail."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from processor_api.errors import StateError, StoreError, TopologyError
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serde, Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.contracts import PUT_RETURN_CODE_NOT_PUT, PUT_RETURN_CODE_VALID_TO_UNDEFINED, VersionedRecord
from processor_api.stores.factory import Stores
from processor_api.stores.suppliers import StoreSupplier
from processor_api.topology.topology import Topology
from state_support.store_kit import StoreKit, restored
from streams.serdes import json_serde

S = Serdes.STRING
MAKERS = {
    "rocksdb": Stores.persistent_versioned_key_value_store,
    "memory": Stores.in_memory_versioned_key_value_store,
}


def builder_of(
    engine: str, retention: int = 1000, segment: int | None = 100, value_serde: Serde[Any] = S
) -> StoreBuilder[Any, Any]:
    return Stores.versioned_key_value_store_builder(MAKERS[engine]("history", retention, segment), S, value_serde)


@pytest.fixture(params=["rocksdb", "memory"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., StoreKit]]:
    opened: list[StoreKit] = []

    def opener(*parameters: Any, **named: Any) -> StoreKit:
        kit = StoreKit(builder_of(request.param, *parameters, **named), tmp_path / str(len(opened)))
        opened.append(kit)
        return kit

    yield opener
    for kit in opened:
        kit.close()


# ----------------------------------------------------------------------- expiry on disk


def test_versions_that_expired_leave_the_engine(make: Callable[..., StoreKit]) -> None:
    """Also those of keys that are never put again; what stays is at most about twice the history."""
    kit = make(1000, 100)
    for time in range(50_000):
        kit.facade.put(f"key {time % 97 if time > 5000 else time}", str(time), time)
        if time % 500 == 0:
            kit.commit()
            kit.logged.clear()
    kit.commit()
    rows = kit.dump()["history.versions"]
    assert 900 < len(rows) < 3000
    assert len(kit.dump()["history.latest"]) > 4900


def test_a_jump_of_time_clears_a_long_history_piece_by_piece(make: Callable[..., StoreKit]) -> None:
    kit = make(10_000, 1000)
    for time in range(9000):
        kit.facade.put("key", str(time), time)
    kit.commit()
    assert len(kit.dump()["history.versions"]) > 8000
    kit.facade.put("other", "x", 1_000_000)
    assert list(kit.facade.versions("key")) == [VersionedRecord("8999", 8999, None)]
    sizes = []
    while not sizes or sizes[-1] > 1:
        kit.facade.put("other", "x", 1_000_000)
        kit.commit()
        sizes.append(len(kit.dump()["history.versions"]))
    assert 3 < len(sizes) < 12, "not at once, since a commit must not take long; and not forever"


def test_a_history_of_nothing_keeps_one_version_of_each_key(make: Callable[..., StoreKit]) -> None:
    """A plain store with the calls of a versioned one."""
    kit = make(0)
    store = kit.facade
    assert store.put("a", "1", 10) == PUT_RETURN_CODE_VALID_TO_UNDEFINED
    assert store.put("a", "2", 11) == PUT_RETURN_CODE_VALID_TO_UNDEFINED
    assert store.put("a", "late", 10) == PUT_RETURN_CODE_NOT_PUT
    assert store.delete("b", 12) is None
    assert store.get("a") == store.get("a", 11) == store.get("a", 100) == VersionedRecord("2", 11, None)
    assert store.get("a", 10) is None
    assert list(store.versions("a")) == [VersionedRecord("2", 11, None)]
    kit.commit()
    assert [key for key, _ in kit.dump()["history.versions"]] == [b""], "only the stream time"


def test_stream_time_is_kept_over_a_restart(tmp_path: Path) -> None:
    """What was too late stays too late."""
    kit = StoreKit(builder_of("rocksdb"), tmp_path)
    kit.facade.put("a", "1", 5000)
    kit.commit()
    kit.facade.put("a", "2", 9000)
    kit.restart()
    assert kit.facade.put("b", "late", 3999) == PUT_RETURN_CODE_NOT_PUT
    assert kit.facade.put("b", "in time", 4000) == PUT_RETURN_CODE_VALID_TO_UNDEFINED
    assert kit.dropped == 1
    kit.close()


def test_a_restore_does_not_bring_deleted_values_back(tmp_path: Path) -> None:
    """Java's, which looks at the largest timestamp of a batch first, does so."""
    kit = StoreKit(builder_of("memory", 60_000, 20_000), tmp_path)
    kit.facade.put("absent", None, 100)
    kit.facade.put("absent", "v", 50)
    kit.facade.put("other", "now", 200_000)
    other = restored(kit.builder, kit.logged, tmp_path, at_once=100)
    for store in (kit.facade, other.facade):
        assert (store.get("absent"), store.get("absent", 60)) == (None, None)
    kit.close()
    other.close()


def test_what_is_waiting_for_a_commit_counts(make: Callable[..., StoreKit]) -> None:
    kit = make()
    sizes = [kit.budget.uncommitted]
    for time in range(5):
        kit.facade.put("a", "x" * 1000, time)
        sizes.append(kit.budget.uncommitted)
    assert sizes == sorted(sizes)
    assert sizes[-1] > 4000
    kit.commit()
    assert kit.budget.uncommitted == 0


def test_every_put_is_logged(make: Callable[..., StoreKit]) -> None:
    """In order, with the version's timestamp, also one that is dropped or changes nothing."""
    kit = make()
    kit.at(7777, [("h", b"1")])
    for value, time in (("1", 5000), ("2", 5000), (None, 5000), (None, 5000), ("late", 10)):
        kit.facade.put("a", value, time)
    kit.facade.delete("b", 4000)
    assert kit.logged == [
        (b"a", b"1", 5000, None),
        (b"a", b"2", 5000, None),
        (b"a", None, 5000, None),
        (b"a", None, 5000, None),
        (b"a", b"late", 10, None),
        (b"b", None, 4000, None),
    ]


# ---------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda store: store.put(None, "v", 1), "null keys"),
        (lambda store: store.get(None), "null keys"),
        (lambda store: store.get(None, 1), "null keys"),
        (lambda store: store.delete(None, 1), "null keys"),
        (lambda store: store.versions(None), "null keys"),
        (lambda store: store.put("a", "v", -1), "non-negative"),
        (lambda store: store.put("a", "v", None), "non-negative"),
        (lambda store: store.put("a", "v", True), "non-negative"),
        (lambda store: store.put("a", "v", 1 << 63), "non-negative"),
        (lambda store: store.delete("a", -1), "non-negative"),
        (lambda store: store.get("a", -1), "non-negative"),
        (lambda store: store.versions("a", -1), "from_time is -1"),
        (lambda store: store.versions("a", 5, 4), "from_time 5 is after to_time 4"),
        (lambda store: store.range_versions("a", "b", 5, 4), "from_time 5 is after to_time 4"),
        (lambda store: store.put("a", 5, 1), "cannot write the value"),
        (lambda store: store.put(5, "v", 1), "cannot write the key"),
    ],
)
def test_a_call_that_fails_names_the_store_and_changes_nothing(
    make: Callable[..., StoreKit], call: Callable[[Any], Any], text: str
) -> None:
    kit = make()
    kit.facade.put("a", "1", 10)
    with pytest.raises(StoreError, match=text) as caught:
        call(kit.facade)
    assert "store='history'" in str(caught.value)
    assert caught.value.store == "history"
    assert list(kit.facade.range_versions()) == [("a", VersionedRecord("1", 10, None))]
    assert len(kit.logged) == 1


def test_a_key_of_none_is_refused_whatever_its_serde_says(tmp_path: Path) -> None:
    builder = Stores.versioned_key_value_store_builder(
        Stores.in_memory_versioned_key_value_store("history", 10), json_serde(), S
    )
    kit = StoreKit(builder, tmp_path)
    for call in (lambda: kit.facade.get(None), lambda: kit.facade.put(None, "v", 1)):
        with pytest.raises(StoreError, match="store 'history' does not accept null keys"):
            call()
    kit.close()


def test_a_value_that_cannot_be_read_names_the_store(make: Callable[..., StoreKit]) -> None:
    def fail(data: bytes) -> Any:
        raise ValueError("no")

    kit = make(value_serde=Serde(str.encode, fail, name="broken"))
    kit.facade.put("a", "1", 10)
    with pytest.raises(StoreError, match="store 'history': the broken serde cannot read the value: no"):
        kit.facade.get("a")
    with kit.facade.versions("a") as rows, pytest.raises(StoreError, match="store 'history'"):
        next(rows)


def test_a_closed_store_and_its_iterators_say_so(make: Callable[..., StoreKit]) -> None:
    kit = make()
    store = kit.facade
    store.put("a", "1", 10)
    rows, closed = store.versions("a"), store.range()
    closed.close()
    with pytest.raises(StoreError, match="iterator of store 'history' is closed"):
        next(closed)
    kit.abort()
    with pytest.raises(StoreError, match="iterator of store 'history' is closed"):
        next(rows)
    for call in (lambda: store.put("a", "1", 1), lambda: store.get("a"), lambda: store.versions("a")):
        with pytest.raises(StoreError, match="store 'history' is closed"):
            call()


def test_a_changelog_that_takes_no_record_leaves_the_store_as_it_was(make: Callable[..., StoreKit]) -> None:
    kit = make()
    kit.facade.put("a", "1", 10)

    def refuse(*record: Any) -> None:
        raise RuntimeError("full")

    kit.commit()
    kit.log = refuse  # type: ignore[method-assign]
    kit.abort()
    with pytest.raises(RuntimeError, match=r"^full$"):
        kit.facade.put("a", "2", 20)
    assert list(kit.facade.versions("a")) == [VersionedRecord("1", 10, None)]


def test_reads_and_puts_before_the_history_are_told(
    make: Callable[..., StoreKit], caplog: pytest.LogCaptureFixture
) -> None:
    """Once, and again whenever their number has doubled."""
    kit = make(100)
    kit.facade.put("a", "1", 0)
    kit.facade.put("b", "1", 1000)
    assert kit.facade.get("a", 5) == VersionedRecord("1", 0, None), "the latest version never expires"
    assert not caplog.records
    with caplog.at_level(logging.WARNING):
        for _ in range(9):
            assert kit.facade.get("b", 5) is None
            assert kit.facade.put("a", "2", 5) == PUT_RETURN_CODE_NOT_PUT
    told = [(record.getMessage().split()[1], record.__dict__["times"]) for record in caplog.records]
    assert sorted(told) == [(what, times) for what in ("put", "read") for times in (1, 2, 4, 8)]
    assert {record.__dict__["store"] for record in caplog.records} == {"history"}
    assert kit.dropped == 9


# ----------------------------------------------------------------------------- factories


@pytest.mark.parametrize("make_supplier", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((-1,), "history_retention must not be negative, got -1 ms"),
        ((timedelta(seconds=-1),), "history_retention must not be negative, got -1000 ms"),
        ((10, 0), "segment_interval must be positive, got 0 ms"),
        ((10, -5), "segment_interval must be positive, got -5 ms"),
    ],
)
def test_lengths_of_time_are_checked(
    make_supplier: Callable[..., StoreSupplier], arguments: tuple[Any, ...], text: str
) -> None:
    with pytest.raises(TopologyError, match=text) as caught:
        make_supplier("history", *arguments)
    assert caught.value.store == "history"


@pytest.mark.parametrize("arguments", [("a day",), (None,), (10, "1"), (1.5,)])
def test_what_is_no_length_of_time_is_refused_with_the_name_of_the_store(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match=r"store 'history': .* must be a timedelta or integer milliseconds"):
        Stores.persistent_versioned_key_value_store("history", *arguments)


@pytest.mark.parametrize(
    ("retention", "segment"),
    [
        (0, 2000), (6000, 2000), (60_000, 20_000), (60_001, 20_000), (300_000, 60_000), (300_001, 60_000),
        (3_600_000, 300_000), (3_600_001, 300_000), (86_400_000, 3_600_000),
    ],
)  # fmt: skip
def test_segments_are_as_long_as_in_kafka_streams(retention: int, segment: int) -> None:
    supplier = Stores.persistent_versioned_key_value_store("s", retention)
    assert supplier.parameters == {"history_retention_ms": retention, "segment_interval_ms": segment}


def test_a_versioned_store_is_never_cached() -> None:
    with pytest.raises(TopologyError, match="never cached"):
        builder_of("rocksdb").with_caching_enabled()
    with pytest.raises(TopologyError, match="cannot be built from a key-value supplier"):
        Stores.versioned_key_value_store_builder(Stores.in_memory_key_value_store("s"))
    with pytest.raises(TopologyError, match="cannot be built from a versioned-key-value supplier"):
        Stores.key_value_store_builder(Stores.persistent_versioned_key_value_store("s", 1))


def test_a_source_topic_as_its_changelog_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """Compaction removes what the history is made of."""

    class Quiet(Processor[Any, Any, Any, Any]):
        def process(self, record: Record[Any, Any]) -> None:
            """Nothing to do."""

    topology = Topology().add_source("source", "in").add_processor("p", Quiet, "source")
    topology.add_state_store(builder_of("rocksdb"), "p")
    with caplog.at_level(logging.WARNING):
        topology.use_source_as_changelog("history", "in")
    assert "set the topic's min.compaction.lag.ms above the history" in caplog.text


# ------------------------------------------------------------------- from a plain store


def test_a_plain_store_is_made_versioned_by_hand(tmp_path: Path) -> None:
    """It is refused as long as the plain rows are there; without them it is restored from the same changelog."""
    plain = Stores.key_value_store_builder(Stores.persistent_key_value_store("history"), S, S)
    kit = StoreKit(plain, tmp_path / "db")
    for time, value in enumerate(("1", "2", None, "3")):
        kit.at(time).facade.put("a", value)
    kit.commit()
    records = list(kit.logged)
    with pytest.raises(
        StateError, match=r"versioned-key-value store.* written by a key-value store.*streams state rebuild"
    ):
        kit.restart(builder_of("rocksdb"))
    kit.engine.close()
    other = restored(builder_of("rocksdb"), records, tmp_path / "other")
    assert list(other.facade.versions("a")) == [
        VersionedRecord("1", 0, 1),
        VersionedRecord("2", 1, 2),
        VersionedRecord("3", 3, None),
    ]
    other.close()
