"""The contracts of stores of one's own, for pytest: of a store that brings everything (`CustomStateStore`), and of a
byte store of keys and values (`KeyValueBytesStoreSupplier`).

    class TestMyStore(CustomStoreContract):
        def make_store(self):
            return MyStore("store")

        def change(self, store, number):
            store.put(f"key-{number % 5}", number)

        def contents(self, store):
            return dict(store.all())

    class TestMyBytes(KeyValueBytesStoreContract):
        def make_store(self):
            return MyBytesStore("store")

Each test opens stores in a directory of its own. The store is called ``store``.
"""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from processor_api.errors import StreamsError
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.factory import Stores
from processor_api.stores.suppliers import lacks
from streams.testing.contracts.store_kit import CHANGELOG, INPUT, StoreKit

__all__ = ["CustomStoreContract", "KeyValueBytesStoreContract"]

NAME = "store"
CHANGES = 12


class _StoreContract:
    """The rules that both sorts of store keep: opening, commits, offsets, closing, and a process that dies in
    between."""

    def make_store(self) -> Any:
        """Returns a new store named ``store``, not open yet."""
        raise AssertionError("give make_store of the contract a body")

    def change(self, store: Any, number: int) -> None:
        """Makes a change, the ``number``-th from 0, by the calls that processors have. Each leaves other contents."""
        raise AssertionError("give change of the contract a body")

    def contents(self, store: Any) -> Any:
        """Returns the contents of the store, to be compared, by the calls that processors have."""
        raise AssertionError("give contents of the contract a body")

    def builder(self) -> StoreBuilder[Any, Any]:
        raise AssertionError("of the contracts below")

    # ------------------------------------------------------------------ helpers

    @contextmanager
    def opened(self, path: Path, *, exactly_once: bool = True) -> Iterator[StoreKit]:
        """Returns a task with the store in it, which is closed at the end."""
        kit = StoreKit(self.builder(), path, exactly_once=exactly_once)
        try:
            yield kit
        finally:
            kit.close()

    def make_changes(self, kit: StoreKit, store: Any, first: int = 0, count: int = CHANGES) -> Any:
        """Returns the contents after these changes."""
        for number in range(first, first + count):
            kit.at(1_000 + number)
            self.change(store, number)
        return self.contents(store)

    def empty(self, path: Path) -> Any:
        """Returns the contents of a store that was never changed."""
        with self.opened(path / "empty") as kit:
            return self.contents(kit.start())

    # ------------------------------------------------------------------ opening and closing

    def test_it_says_its_name_and_whether_it_is_open(self, tmp_path: Path) -> None:
        assert self.make_store().name == NAME
        assert not self.make_store().is_open
        with self.opened(tmp_path) as kit:
            own = kit.own
            assert own.is_open is True
            assert type(own.persistent) is bool
            kit.start()
        assert own.is_open is False

    def test_it_may_be_closed_twice(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as kit:
            own = kit.own
        own.close()
        assert own.is_open is False

    def test_two_stores_have_nothing_in_common(self, tmp_path: Path) -> None:
        empty = self.empty(tmp_path)
        with self.opened(tmp_path / "1") as one, self.opened(tmp_path / "2") as other:
            store = other.start()
            assert self.make_changes(one, one.start()) != empty
            one.commit()
            assert self.contents(store) == empty

    # ------------------------------------------------------------------ commits

    def test_a_commit_changes_nothing_that_is_seen(self, tmp_path: Path) -> None:
        """A commit without changes before it does not either; and changes continue afterwards."""
        with self.opened(tmp_path) as kit:
            store = kit.start()
            kit.commit()
            first = self.make_changes(kit, store)
            kit.commit()
            kit.commit()
            assert self.contents(store) == first
            assert self.make_changes(kit, store, CHANGES) != first

    def test_what_was_committed_is_there_when_it_is_opened_again(self, tmp_path: Path) -> None:
        """Committed changes are available again if the store is persistent; otherwise it is empty, and has no
        offset."""
        empty = self.empty(tmp_path)
        with self.opened(tmp_path) as kit:
            persistent = kit.own.persistent
            committed = self.make_changes(kit, kit.start())
            kit.commit(offset=41)
        with self.opened(tmp_path) as kit:
            assert kit.offset == (41 if persistent else None)
            assert self.contents(kit.start()) == (committed if persistent else empty)

    def test_what_was_not_committed_is_gone_after_an_abort(self, tmp_path: Path) -> None:
        """Uncommitted changes are gone if the store promises so; otherwise the store must be rebuilt, which the
        runtime sees by a missing offset."""
        with self.opened(tmp_path) as kit:
            store = kit.start()
            committed = self.make_changes(kit, store)
            kit.commit(offset=41)
            if not kit.own.persistent:
                return
            promises = not kit.engine.unsafe
            self.make_changes(kit, store, CHANGES)
            kit.abort()
            assert kit.offset == (41 if promises else None)
            if promises:
                assert self.contents(kit.start()) == committed

    def test_uncommitted_bytes_are_counted(self, tmp_path: Path) -> None:
        """No uncommitted bytes are counted at first and after a commit; some are in between, where writes are
        buffered."""
        with self.opened(tmp_path) as kit:
            own, store = kit.own, kit.start()
            assert own.approximate_num_uncommitted_bytes() == 0
            self.make_changes(kit, store)
            counted = own.approximate_num_uncommitted_bytes()
            assert type(counted) is int
            if not kit.engine.has_rows and (own.buffers_writes or own.manages_offsets):
                assert counted > 0
                assert kit.budget.wants_commit()
            kit.commit()
            assert own.approximate_num_uncommitted_bytes() == 0
            assert not kit.budget.wants_commit()

    # ------------------------------------------------------------------ offsets

    def test_offsets_that_it_manages_are_kept(self, tmp_path: Path) -> None:
        """Offsets of the changelog and of inputs are kept; those that a commit does not give stay as they were."""
        with self.opened(tmp_path) as kit:
            own = kit.own
            assert own.committed_offset(CHANGELOG) is None
            store = kit.start()
            self.make_changes(kit, store)
            kit.commit(offset=3, position=9)
            kit.commit(offset=5)
            if not own.manages_offsets:
                assert own.committed_offset(CHANGELOG) is None
                return
            assert (own.committed_offset(CHANGELOG), own.committed_offset(INPUT)) == (5, 9)
            own.commit({})
            assert (own.committed_offset(CHANGELOG), own.committed_offset(INPUT)) == (5, 9)
            persistent = own.persistent
        with self.opened(tmp_path) as kit:
            found = [kit.own.committed_offset(partition) for partition in (CHANGELOG, INPUT)]
            assert found == ([5, 9] if persistent else [None, None])

    def test_its_position_is_a_mapping(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as kit:
            assert dict(kit.own.position) == {}

    # ------------------------------------------------------------------ deletion and death

    def test_a_deleted_store_is_empty(self, tmp_path: Path) -> None:
        empty = self.empty(tmp_path)
        with self.opened(tmp_path) as kit:
            self.make_changes(kit, kit.start())
            kit.commit(offset=41)
            kit.abort()
            kit.wipe()
            assert kit.offset is None
            assert self.contents(kit.start()) == empty

    def test_a_process_that_dies_leaves_the_last_commit(self, tmp_path: Path) -> None:
        """Uncommitted changes of a process that is killed are gone, or the store is rebuilt (exactly-once)."""
        committed = self._in_a_process_that_dies(tmp_path / "task")
        if committed is None:
            return
        with self.opened(tmp_path / "task") as kit:
            if not kit.own.persistent or kit.engine.unsafe:
                assert kit.offset is None
            else:
                assert kit.offset == 41
                assert repr(self.contents(kit.start())) == committed

    def _in_a_process_that_dies(self, path: Path) -> str | None:
        """Makes changes, a commit and more changes in a process that is then killed; returns the contents at the
        commit, as text. ``None`` where processes cannot be copied."""
        if not hasattr(os, "fork"):
            return None
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads, none of which the child uses
            child = os.fork()
        if child == 0:
            try:
                kit = StoreKit(self.builder(), path)
                store = kit.start()
                committed = self.make_changes(kit, store)
                kit.commit(offset=41)
                self.make_changes(kit, store, CHANGES)
                os.write(writing, repr(committed).encode())
            finally:
                os.kill(os.getpid(), signal.SIGKILL)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            contents = pipe.read().decode()
        os.waitpid(child, 0)
        assert contents, "the store failed in the process that was to die"
        return contents


class CustomStoreContract(_StoreContract):
    """The rules of a store that brings everything of its own, as tests."""

    def builder(self) -> StoreBuilder[Any, Any]:
        return Stores.custom(NAME, self.make_store)

    def test_its_changes_are_logged_and_restore_it(self, tmp_path: Path) -> None:
        """The changes restore the store in pieces of any size; what is restored is committed with its offset."""
        with self.opened(tmp_path / "first") as kit:
            contents = self.make_changes(kit, kit.start())
            logged = list(kit.logged)
        assert logged, "no change was logged by context.log_change"
        for at_once in (1, 5, len(logged)):
            with self.opened(tmp_path / f"restored-{at_once}") as kit:
                kit.restore(logged, at_once=at_once)
                assert kit.offset == len(logged) - 1
                assert self.contents(kit.start()) == contents
                assert kit.logged == []

    def test_what_is_replayed_is_in_it_once(self, tmp_path: Path) -> None:
        """The same records come again after a crash between the store's commit and that of its offset."""
        with self.opened(tmp_path / "first") as kit:
            contents = self.make_changes(kit, kit.start())
            logged = list(kit.logged)
        with self.opened(tmp_path / "restored") as kit:
            kit.restore(logged)
            kit.engine.restore(logged[len(logged) // 2 :])
            assert self.contents(kit.start()) == contents

    def test_a_restored_store_goes_on(self, tmp_path: Path) -> None:
        """A restored store continues as it would have without the restore."""
        with self.opened(tmp_path / "first") as kit:
            store = kit.start()
            self.make_changes(kit, store)
            logged = list(kit.logged)
            expected = self.make_changes(kit, store, CHANGES)
        with self.opened(tmp_path / "restored") as kit:
            kit.restore(logged)
            assert self.make_changes(kit, kit.start(), CHANGES) == expected

    def test_without_a_changelog_it_works_the_same(self, tmp_path: Path) -> None:
        with self.opened(tmp_path / "logged") as kit:
            expected = self.make_changes(kit, kit.start())
        kit = StoreKit(self.builder().with_logging_disabled(), tmp_path / "silent")
        try:
            assert self.make_changes(kit, kit.start()) == expected
            assert kit.logged == []
        finally:
            kit.close()

    def test_a_processor_cannot_commit_it(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as kit:
            store = kit.start()
            for call in (lambda: store.commit({}), store.close, lambda: store.init(None)):
                assert repr(NAME) in _refusal(call)
            assert store.is_open


def _refusal(call: Callable[[], Any]) -> str:
    """Returns the text of the error that a call gives."""
    try:
        call()
    except StreamsError as error:
        return str(error)
    raise AssertionError("the runtime's calls are refused to processors")


KEYS = (b"", b"\x00", b"a", b"a\x00", b"ab", b"b", b"b\xff", b"c", b"\xff", b"\xff\xff")
BOUNDS = (None, b"", b"a", b"aa", b"b", b"z")


class KeyValueBytesStoreContract(_StoreContract):
    """The rules of a byte store of keys and values, as tests."""

    def builder(self) -> StoreBuilder[Any, Any]:
        class Supplier:
            name = NAME
            get = staticmethod(self.make_store)

        return Stores.key_value_store_builder(Supplier(), Serdes.BYTES, Serdes.BYTES)

    def change(self, store: Any, number: int) -> None:
        store.put(b"key-%d" % (number % 5), b"value-%d" % number)
        if number % 4 == 3:
            store.delete(b"key-%d" % ((number + 1) % 5))

    def contents(self, store: Any) -> Any:
        with store.all() as rows:
            return list(rows)

    @contextmanager
    def bytes_store(self, path: Path) -> Iterator[Any]:
        """Returns the byte store itself."""
        with self.opened(path) as kit:
            yield kit.own

    def listed(self, found: Any) -> list[tuple[bytes, bytes]]:
        rows = list(found)
        getattr(found, "close", lambda: None)()
        return rows

    def test_rows_are_put_replaced_and_deleted(self, tmp_path: Path) -> None:
        """Rows change in the order of the entries; values may be empty."""
        with self.bytes_store(tmp_path) as store:
            store.put_all([(b"a", b"1"), (b"b", b""), (b"c", b"1"), (b"a", b"2"), (b"c", None), (b"absent", None)])
            assert [store.get(key) for key in (b"a", b"b", b"c", b"absent")] == [b"2", b"", None, None]
            store.put_all([])
            assert self.listed(store.all()) == [(b"a", b"2"), (b"b", b"")]

    def test_rows_are_in_the_order_of_their_keys_bytes(self, tmp_path: Path) -> None:
        """The order holds for every pair of bounds, both included; a lower one above the upper gives nothing
        (KIP-617)."""
        with self.bytes_store(tmp_path) as store:
            store.put_all([(key, b"of " + key) for key in reversed(KEYS)])
            for low in BOUNDS:
                for high in BOUNDS:
                    wanted = [
                        (key, b"of " + key)
                        for key in sorted(KEYS)
                        if (low or b"") <= key and (high is None or key <= high)
                    ]
                    assert self.listed(store.range(low, high)) == wanted, (low, high)
                    if not lacks(store, "reverse_range"):
                        assert self.listed(store.reverse_range(low, high)) == wanted[::-1], (low, high)
            if not lacks(store, "reverse_all"):
                assert self.listed(store.reverse_all()) == [(key, b"of " + key) for key in sorted(KEYS, reverse=True)]

    def test_iterators_show_rows_as_they_were_when_they_were_opened(self, tmp_path: Path) -> None:
        rows = [(b"%03d" % number, b"old") for number in range(300)]
        with self.bytes_store(tmp_path) as store:
            store.put_all(rows)
            opened = store.all()
            seen = [next(opened) for _ in range(10)]
            store.put_all([(b"100", b"new"), (b"100a", b"new"), (b"200", None)])
            assert seen + list(opened) == rows
            getattr(opened, "close", lambda: None)()

    def test_a_commit_writes_all_or_nothing_that_a_restore_would_miss(self, tmp_path: Path) -> None:
        """The changelog and the store hold the same after a commit, and after a restore."""
        with self.opened(tmp_path / "first") as kit:
            store = kit.start()
            contents = self.make_changes(kit, store)
            kit.commit()
            assert self.contents(store) == contents
            logged = list(kit.logged)
        with self.opened(tmp_path / "restored") as kit:
            kit.restore(logged)
            assert self.contents(kit.start()) == contents
