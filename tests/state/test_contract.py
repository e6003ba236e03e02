"""What holds for every kind of store, on every engine, with and without a cache and a changelog."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from processor_api.errors import StoreError, TopologyError
from processor_api.serde import Serde, Serdes
from processor_api.stores.builder import StoreBuilder, join_buffer_builder
from processor_api.stores.factory import Stores
from samples import sample_of
from state.guards.guard import guarded
from state.guards.policies import OneThread
from state.registry.kinds import BUILT_IN, changelog_records_of, families_of, kind_name, kind_of, read_only
from state.registry.kinds import KINDS as ALL_KINDS
from state_contract.kinds import EXPIRING, KEY_VALUE, KINDS, LAST, NOT_WRITTEN_BACK, Kind, Setup, setups
from state_support.store_kit import StoreKit, restored

S = Serdes.STRING
PUTS = [("a", "1", 10), ("b", "2", 20), ("a\0", "3", 15), ("a", "4", 30), ("", "5", 25), ("é", "6", 40)]
MORE = [("a", "7", 50), ("b", None, 20), ("c", "8", 45), ("c", None, 45), ("", "9", 25), ("d", "", 60)]

SETUPS = list(setups())
LOGGED = [setup for setup in SETUPS if setup.logging]
PLAIN = [setup for setup in LOGGED if not setup.caching]

Opened = Callable[..., StoreKit]


class Fragile:
    """A serde of strings that fails when it is told to."""

    def __init__(self) -> None:
        self.writes = self.reads = True

    def serde(self) -> Serde[str]:
        return Serde(self._write, self._read, name="fragile")

    def _write(self, value: str) -> bytes:
        if not self.writes:
            raise ValueError("no ink")
        return value.encode()

    def _read(self, data: bytes) -> str:
        if not self.reads:
            raise ValueError("no glasses")
        return data.decode()


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    kits: list[StoreKit] = []

    def open_it(setup: Setup, key_serde: Serde[Any] = S, value_serde: Serde[Any] = S) -> StoreKit:
        kits.append(StoreKit(setup.builder(key_serde, value_serde), tmp_path / f"db-{len(kits)}"))
        return kits[-1]

    yield open_it
    for kit in kits:
        kit.close()


def put_all(kit: StoreKit, kind: Kind, entries: list[tuple[str, str | None, int]]) -> None:
    for key, value, time in entries:
        kit.at(time)
        kind.put(kind.face(kit), key, value, time)


def every(setup_list: list[Setup]) -> Any:
    """Every kind, each in a sample of its setups."""

    def decorate(test: Any) -> Any:
        chosen = sample_of(setup_list, 4, test.__name__, group=lambda setup: setup.kind.name)
        return pytest.mark.sampled(pytest.mark.parametrize("setup", chosen, ids=str)(test))

    return decorate


def test_every_kind_is_here() -> None:
    """The table of the contract has each kind that suppliers can name, on each of its engines."""
    covered = {kind_name(builder) for setup in SETUPS for builder in [setup.builder(S, S)]}
    assert covered == {name for name in BUILT_IN if ALL_KINDS[name].offline}, "those whose rows are in an engine"


def test_every_kind_is_written_back_or_says_why_not() -> None:
    """A kind with a restore of its own has to have the inverse of it too, or a reason in the table."""
    assert {name for name in BUILT_IN if ALL_KINDS[name].as_records is None} == NOT_WRITTEN_BACK.keys()


# -------------------------------------------------------------- commits, aborts, restarts


@every(SETUPS)
def test_what_was_committed_is_what_stays(setup: Setup, opened: Opened, tmp_path: Path) -> None:
    """A commit changes nothing; an abort goes back to it, and so does a restart where there is a disk; a restore from
    the changelog gives the same."""
    kit, kind = opened(setup), setup.kind
    put_all(kit, kind, PUTS)
    kit.commit()
    put_all(kit, kind, MORE)
    before = kind.contents(kit)
    assert before
    kit.commit()
    assert kind.contents(kit) == before
    put_all(kit, kind, [("z", "z", 70), ("a", "z", 70), ("", None, 25)])
    assert kind.contents(kit) != before
    kit.abort()
    assert kind.contents(kit) == before
    if setup.kind.name.startswith(("lru", "timestamped-lru")):
        assert len(before) == 4
    if kit.builder.supplier.persistent:
        put_all(kit, kind, [("z", "z", 70)])
        kit.restart()
        assert kind.contents(kit) == before
    if setup.logging:
        again = restored(kit.builder, kit.logged, tmp_path / "restored")
        assert kind.contents(again) == before
        again.close()
    put_all(kit, kind, [("last", "x", 80)])
    kit.commit()
    added = [row for row in kind.contents(kit) if row not in before]
    assert sum("last" in str(row) for row in added) == 1, added


@every(LOGGED)
def test_rows_are_written_back_to_an_empty_changelog(setup: Setup, opened: Opened, tmp_path: Path) -> None:
    """The rows as records of the changelog restore the store, as the changelog itself does, and read them only."""
    kit, kind = opened(setup), setup.kind
    put_all(kit, kind, PUTS)
    kit.commit()
    put_all(kit, kind, [*MORE, ("late", "x", 0)])
    kit.commit()
    committed, before = kit.dump(), kind.contents(kit)
    records = changelog_records_of(kit.builder, kit.engine)
    assert records is not None
    again = restored(kit.builder, [*records], tmp_path / "written-back")
    assert kind.contents(again) == before
    assert kit.dump() == committed
    from_changelog = restored(kit.builder, kit.logged, tmp_path / "from-changelog")
    family = families_of(kit.builder)[0]
    if kind_of(kit.builder).metrics_scope != "lru":  # numbered by the records, of which there are fewer
        assert list(again.engine.family(family).range()) == list(from_changelog.engine.family(family).range())
    again.close()
    from_changelog.close()


@every(SETUPS)
def test_nothing_reaches_the_engine_before_its_commit(setup: Setup, tmp_path: Path) -> None:
    """Neither rows nor what a kind keeps besides, also where a small cache evicts (KIP-892)."""
    kit, kind = StoreKit(setup.builder(S, S), tmp_path, cache_bytes=200), setup.kind
    put_all(kit, kind, PUTS)
    assert not any(kit.dump().values())
    kit.commit()
    committed = kit.dump()
    assert any(committed.values())
    put_all(kit, kind, [*MORE, ("late", "x", 100_000), ("a", "late", 0), ("a", None, 5)])
    kind.contents(kit)
    kit.store.drain()
    assert kit.dump() == committed
    kit.abort()
    assert kit.dump() == committed
    kit.close()


@every(SETUPS)
def test_without_a_changelog_nothing_is_logged(setup: Setup, opened: Opened) -> None:
    kit = opened(setup)
    put_all(kit, setup.kind, PUTS)
    kit.commit()
    assert bool(kit.logged) is setup.logging


# ------------------------------------------------------------------------------- refused


def refused(kit: StoreKit, kind: Kind, call: Callable[[Any], Any], words: str) -> None:
    """The call fails with the store's name, and the store and its changelog are as they were."""
    before, logged = kind.contents(kit), list(kit.logged)
    with pytest.raises(StoreError, match=words) as raised:
        call(kind.face(kit))
    assert raised.value.store == "s"
    assert "'s'" in raised.value.message
    assert (kind.contents(kit), kit.logged) == (before, logged)
    kit.commit()
    assert kind.contents(kit) == before


@every([setup for setup in SETUPS if setup.kind.keys_are_kept])
def test_what_is_deleted_is_given_back(setup: Setup, opened: Opened) -> None:
    """The notes about windows and sessions that had ended stayed in the budget, and pushed rows out of the cache."""
    kit = opened(setup)
    if (timed := getattr(kit.store.operator, "timed", None)) is not None:
        timed.find(b"none", 0, LAST)  # as operators look for rows
    held = []
    for _ in range(3):
        put_all(kit, setup.kind, [(key, value, time) for time in range(50) for key, value in (("a", "v"), ("a", None))])
        kit.commit()
        held.append((kit.budget.cached, kit.budget.uncommitted))
    assert held == [(held[0][0], 0)] * 3
    assert held[0][0] < 100


@every(SETUPS)
def test_what_cannot_be_put_is_refused(setup: Setup, opened: Opened) -> None:
    """A null key, and keys and values that the serdes do not take."""
    kit, kind = opened(setup), setup.kind
    put_all(kit, kind, PUTS)
    kit.at(90)
    refused(kit, kind, lambda face: kind.put(face, None, "v", 90), "null keys")
    refused(kit, kind, lambda face: kind.put(face, 5, "v", 90), "string serde cannot write the key")
    refused(kit, kind, lambda face: kind.put(face, "a", 5, 90), "string serde cannot write the value")
    for call in kind.bad_times.values():
        refused(kit, kind, call, "negative|from 0 to|before it starts|integer of milliseconds")


@every(SETUPS)
def test_null_and_unwritable_keys_are_not_read(setup: Setup, opened: Opened) -> None:
    kit, kind = opened(setup), setup.kind
    put_all(kit, kind, PUTS)
    if kind.name != "join-buffer":
        refused(kit, kind, lambda face: kind.get(face, None, 10), "null keys")
        refused(kit, kind, lambda face: kind.get(face, 5, 10), "cannot write the key")
    for name, rows in [*kind.lists.items(), *kind.backward.items()]:
        if name in ("range", "keys"):
            refused(kit, kind, lambda face, rows=rows: list(rows(face, 5, None)), "cannot write the key")  # type: ignore[misc]
            refused(kit, kind, lambda face, rows=rows: list(rows(face, None, 5)), "cannot write the key")  # type: ignore[misc]


@every([setup for setup in SETUPS if setup.kind in (*KEY_VALUE, *EXPIRING)])
def test_what_key_value_stores_refuse_besides(setup: Setup, opened: Opened) -> None:
    """Keys that cannot even be looked up, prefixes that are none, entries that are no pairs."""
    kit, kind = opened(setup), setup.kind
    put_all(kit, kind, PUTS)
    refused(kit, kind, lambda face: face.get(["a"]), "cannot write the key")
    refused(kit, kind, lambda face: kind.put(face, ["a"], "v", 1), "cannot write the key")
    refused(kit, kind, lambda face: face.delete(["a"]), "cannot write the key")
    refused(kit, kind, lambda face: face.prefix_scan(5), "cannot write the key")
    refused(kit, kind, lambda face: face.prefix_scan(None), "null keys")
    refused(kit, kind, lambda face: face.put_all(["abc"]), "pairs of key and value, got 'abc'")


@every([setup for setup in SETUPS if setup.kind.name in ("list", "versioned")])
def test_prefixes_that_are_none(setup: Setup, opened: Opened) -> None:
    kit, kind = opened(setup), setup.kind
    put_all(kit, kind, PUTS)
    refused(kit, kind, lambda face: face.prefix_scan(5), "cannot write the key")
    refused(kit, kind, lambda face: face.prefix_scan(None), "null keys")
    kit.close_store()
    with pytest.raises(StoreError, match=f"store {kit.builder.name!r} is closed"):
        kit.facade.prefix_scan("a")
    kit.open()


@every(PLAIN)
def test_a_store_that_another_thread_uses(setup: Setup, opened: Opened) -> None:
    """In Python's development mode (see `test_development_mode.py`): an error names the store and the thread, and
    nothing has happened."""
    kit, kind = opened(setup), setup.kind
    put_all(kit, kind, PUTS)
    before = kind.contents(kit)
    store = guarded(OneThread(kit.facade, threading.get_ident()))
    failures: list[StoreError] = []

    def use() -> None:
        calls: list[Callable[[], Any]] = [lambda rows=rows: rows(store, None, None) for rows in lists_of(kind)]  # type: ignore[misc]
        if kind.operator:
            calls = [store.num_records]
        else:
            calls += [lambda: kind.put(store, "a", "other", 50), lambda: kind.get(store, "a", 10)]
        for call in calls:
            with pytest.raises(StoreError, match="store 's' is used by thread 'stranger'") as raised:
                call()
            failures.append(raised.value)

    thread = threading.Thread(target=use, name="stranger")
    thread.start()
    thread.join()
    assert failures
    assert all(failure.store == "s" for failure in failures)
    assert kind.contents(kit) == before
    if not kind.operator:
        kind.put(store, "a", "own", 50)
        assert kind.contents(kit) != before
    assert store.name == "s"


def fragile_store(setup: Setup, opened: Opened, of: str) -> tuple[StoreKit, Fragile]:
    """A store whose serde of keys or of values can be told to fail."""
    fragile = Fragile()
    kit = opened(setup, **{f"{of}_serde": fragile.serde()})
    put_all(kit, setup.kind, PUTS)
    return kit, fragile


@every(SETUPS)
@pytest.mark.parametrize("of", ["key", "value"])
def test_a_serde_that_cannot_write(of: str, setup: Setup, opened: Opened) -> None:
    """It fails at the put, and not when the store is written."""
    kit, fragile = fragile_store(setup, opened, of)
    kind = setup.kind
    before, logged = kind.contents(kit), list(kit.logged)
    fragile.writes = False
    with pytest.raises(StoreError, match=f"store 's': the fragile serde cannot write the {of}: no ink") as raised:
        kind.put(kind.face(kit), "new", "v", 90)
    assert raised.value.store == "s"
    kit.commit()
    fragile.writes = True
    assert kind.contents(kit) == before
    if not setup.caching and kind.name != "change-buffer":  # of these the commit has logged what was put before
        assert kit.logged == logged
    assert [key for key, *_ in kit.logged if b"new" in key] == []


@every(SETUPS)
@pytest.mark.parametrize("of", ["key", "value"])
def test_a_serde_that_cannot_read(of: str, setup: Setup, opened: Opened) -> None:
    """Gets and lists fail with the store's name, before and after a commit, and the store goes on when it can again."""
    kit, fragile = fragile_store(setup, opened, of)
    kind = setup.kind
    before = kind.contents(kit)
    reads: list[Callable[[], Any]] = [
        lambda rows=rows: list(rows(kit.facade, None, None))  # type: ignore[misc]
        for name, rows in [*kind.lists.items(), *kind.backward.items()]
        if of == "value" or name in ("range", "range_versions", "keys", "all")
    ]
    if of == "value" and "window-duplicates" not in kind.name:
        reads.append(lambda: kind.get(kit.facade, "é", 40))
    if kind.operator:
        reads = [lambda: kit.store.operator.evict_while(lambda: True, lambda *record: None)]
        put_all(kit, kind, [("late", "v", 30 + 1000)])  # the grace of the first has passed
        before = kind.contents(kit)
    for _ in range(2):
        fragile.reads = False
        for read in reads:
            with pytest.raises(StoreError, match=f"store 's': the fragile serde cannot read the {of}: no glasses"):
                read()
        fragile.reads = True
        assert kind.contents(kit) == before
        kit.commit()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.operator], ids=lambda kind: kind.name)
def test_a_view_that_is_read_only(kind: Kind, opened: Opened) -> None:
    """Reads work, writes say who tried and why not."""
    kit = opened(Setup(kind, kind.engines[0], False, True))
    put_all(kit, kind, PUTS)
    before = kind.contents(kit)
    view = read_only(kit.store, "reader", "it belongs to a topic").facade
    assert kind.get(view, "é", 40) is not None
    writes = ("put", "put_if_absent", "put_all", "delete", "remove")
    offered = [name for name in writes if hasattr(type(kit.facade), name)]
    assert "put" in offered
    for name in offered:
        with pytest.raises(StoreError, match=r"node 'reader' can only read store 's'.*it belongs to a topic"):
            getattr(view, name)("a", "v")
    for rows in (*kind.lists.values(), *kind.backward.values()):
        assert list(rows(view, None, None)) == list(rows(kit.facade, None, None))
    assert kind.contents(kit) == before


# ------------------------------------------------------------------------------ iterators


def lists_of(kind: Kind) -> list[Callable[[Any, str | None, str | None], Any]]:
    return [*kind.lists.values(), *kind.backward.values()]


@every(PLAIN)
def test_an_iterator_that_is_closed(setup: Setup, opened: Opened) -> None:
    """By itself or by its ``with`` block: nothing can be read from it any more."""
    kit, kind = opened(setup), setup.kind
    put_all(kit, kind, PUTS)
    for rows in lists_of(kind):
        iterator = rows(kit.facade, None, None)
        with iterator as found:
            next(found)
        for _ in range(2):
            with pytest.raises(StoreError, match="iterator of store 's' is closed"):
                next(iterator)
        iterator.close()
        if hasattr(iterator, "peek_next_key"):
            with pytest.raises(StoreError, match="iterator of store 's' is closed"):
                iterator.peek_next_key()


@every(PLAIN)
def test_a_store_that_is_closed(setup: Setup, opened: Opened) -> None:
    """Every call says so, and iterators end with it: also those that a commit lies behind."""
    kit, kind = opened(setup), setup.kind
    put_all(kit, kind, PUTS)
    iterators = [rows(kit.facade, None, None) for rows in lists_of(kind)]
    kit.commit()
    iterators += [rows(kit.facade, None, None) for rows in lists_of(kind)]
    facade = kit.facade
    kit.close_store()
    for iterator in iterators:
        with pytest.raises(StoreError, match="iterator of store 's' is closed"):
            next(iterator)
    calls: list[Callable[[Any], Any]] = [lambda face, rows=rows: rows(face, "a", "b") for rows in lists_of(kind)]  # type: ignore[misc]
    if kind.operator:
        calls += [lambda face: face.num_records(), lambda face: face.buffer_size(), lambda face: face.min_timestamp()]
    else:
        calls += [lambda face: kind.get(face, "a", 10), lambda face: kind.put(face, "a", "v", 10)]
        calls += [lambda face: kind.put(face, "a", None, 10)]
    for call in calls:
        with pytest.raises(StoreError, match="store 's' is closed"):
            call(facade)
    assert facade.name == "s"
    assert facade.is_open is False
    kit.open()


@every(SETUPS)
def test_an_iterator_shows_rows_as_they_were(setup: Setup, opened: Opened) -> None:
    """Whatever is put, committed or deleted while it is open."""
    kit, kind = opened(setup), setup.kind
    put_all(kit, kind, PUTS)
    kit.commit()
    put_all(kit, kind, MORE)
    for rows in lists_of(kind):
        expected = list(rows(kit.facade, None, None))
        iterators = [rows(kit.facade, None, None) for _ in range(3)]
        assert next(iterators[0]) == expected[0]
        put_all(kit, kind, [("a", "later", 55), ("zz", "later", 56), ("b", None, 57)])
        assert list(iterators[0]) == expected[1:]
        kit.commit()
        assert list(iterators[1]) == expected
        put_all(kit, kind, [("", "later", 25), ("é", None, 40)])
        assert list(iterators[2]) == expected


@every(SETUPS)
def test_backwards_is_the_other_way_round(setup: Setup, opened: Opened) -> None:
    """KIP-617: with rows in the buffer, in the engine and in both."""
    kit, kind = opened(setup), setup.kind
    bounds = [(None, None), ("a", "b"), ("a", None), (None, "b"), ("", ""), ("a\0", "é")]
    for step in (lambda: put_all(kit, kind, PUTS), kit.commit, lambda: put_all(kit, kind, MORE), kit.commit):
        step()
        for name, rows in kind.backward.items():
            for low, high in bounds:
                forwards = list(kind.lists[name](kit.facade, low, high))
                assert list(rows(kit.facade, low, high)) == forwards[::-1], (name, low, high)


@every(SETUPS)
def test_from_above_to_is_nothing(setup: Setup, opened: Opened) -> None:
    """In both directions, with and without rows in the buffer."""
    kit, kind = opened(setup), setup.kind
    for step in (lambda: put_all(kit, kind, PUTS), kit.commit):
        step()
        for name, rows in [*kind.lists.items(), *kind.backward.items()]:
            if name not in ("key", "sessions", "all"):
                assert list(rows(kit.facade, "b", "a")) == []
                assert list(rows(kit.facade, "é", "")) == []


# ------------------------------------------------------------------------------ suppliers


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Stores.persistent_window_store("s", 9, 10), "retention .9 ms. is smaller than the window"),
        (lambda: Stores.in_memory_window_store("s", 9, 10), "retention .9 ms. is smaller than the window"),
        (lambda: Stores.persistent_session_store("s", -1), "retention must not be negative"),
        (
            lambda: Stores.persistent_window_store("s", 10, 10, segment_interval=0),
            "segment_interval must be at least 1",
        ),
        (lambda: Stores.persistent_session_store("s", 10, segment_interval=0), "segment_interval must be at least 1"),
        (
            lambda: Stores.persistent_versioned_key_value_store("s", -1),
            "history_retention must not be negative, got -1 ms",
        ),
        (
            lambda: Stores.in_memory_versioned_key_value_store("s", -1),
            "history_retention must not be negative, got -1 ms",
        ),
        (
            lambda: Stores.persistent_versioned_key_value_store("s", 10, 0),
            "segment_interval must be positive, got 0 ms",
        ),
        (lambda: Stores.lru_map("s", 0), "max_entries of an LRU map must be a positive number"),
        (lambda: join_buffer_builder("s", -1), "grace must not be negative"),
    ],
)
def test_a_supplier_that_makes_no_sense(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(TopologyError, match=words) as raised:
        make()
    assert raised.value.store == "s"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.cached], ids=lambda kind: kind.name)
def test_a_kind_that_is_never_cached(kind: Kind) -> None:
    """Says so where it is asked to be; window stores with duplicates only go without."""
    builder: StoreBuilder[Any, Any] = kind.build(kind.engines[0], S, S)
    if kind.name.startswith("window"):
        assert builder.caching is False
        return
    with pytest.raises(TopologyError, match="is never cached"):
        builder.with_caching_enabled()
