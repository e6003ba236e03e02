"""Key-value stores as processors use them, over :class:`state.write_buffer.buffer.Rows`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

from processor_api.errors import StoreError
from processor_api.stores.contracts import ValueAndTimestamp
from processor_api.stores.queries import KeyQuery, RangeQuery, TimestampedKeyQuery, TimestampedRangeQuery
from processor_api.texts import repr_of
from processor_api.user_code.given_serdes import SerdeLike
from state.key_value.live_view import KeyValueView
from state.read_views.answers import itself, pairs, value_of_key, value_only, values_of_range
from state.row_format.checked_serdes import key_writer, prefix_bounds
from state.row_format.codec import PLAIN, TIMESTAMPED, row_from_plain, without_access
from state.row_format.value_forms import Shown, Timestamped, Untimed, named
from state.write_buffer.buffer import Rows
from state.write_buffer.changelog_form import ChangelogForm
from state.write_buffer.fast_path import Put, make_get, make_keep, make_put, make_read_run, refusing_put, row_key_maker
from state.write_buffer.iterators import ClosableFacade, OpenIterators, RowIterator
from state.write_buffer.row_reader import Get, RowReader
from state.write_buffer.store_kind import ITSELF, Answer, Opening, OpenStore, StoreForm, StoreKind, open_rows
from state.write_buffer.stored_rows import PLAIN_FAMILY, TIMESTAMPED_FAMILY


class OperatorStore:
    """A key-value store as operators of the DSL get it: functions, without wrapper objects.

    `get_forwarded` finds rows without the changes that wait in a cache: as those below know them. `read_run` reads many
    rows, where the updates of a key between two drains may be put as one.

    :param get: replaces the `get` of the rows.
    :param put: replaces the `put` of the rows.
    :param get_forwarded: the same, without the changes that wait.
    """

    __slots__ = ("cached", "get", "get_forwarded", "name", "on_flush", "put", "read_run", "serdes")

    def __init__(
        self, rows: Rows, get: Get | None = None, put: Put | None = None, *, get_forwarded: Get | None = None
    ) -> None:
        self.name = rows.name
        self.cached = rows.cached
        self.get = get or make_get(rows)
        if get_forwarded is None:
            get_forwarded = make_get(rows, forwarded=True) if get is None and rows.cached else self.get
        self.get_forwarded = get_forwarded
        self.put = put or make_put(rows)
        self.read_run = make_read_run(rows, self.get) if get is None and put is None and type(rows) is Rows else None
        self.serdes = rows.format.keys.serde, rows.format.values.serde
        """The serdes of keys and of values."""
        self.on_flush: Callable[..., None] = rows.on_flush


class KeyValueFacade(ClosableFacade):
    """A key-value store, and the base of those that show their rows in other forms.

    :param get: replaces the `get` of the rows.
    :param iterators: opens its iterators.
    """

    def __init__(
        self, rows: RowReader, put: Put, *, get: Get | None = None, iterators: OpenIterators | None = None
    ) -> None:
        self._rows = rows
        self._get = get or make_get(rows)
        self._put = put
        self._row_key = row_key_maker(rows.format)
        self._keep = make_keep(rows.format)
        self._iterators = iterators or OpenIterators(rows.name)

    def reading(self, rows: RowReader, iterators: OpenIterators) -> Self:
        """Returns a store of this kind that reads other rows and is not written."""
        return type(self)(rows, refusing_put(rows.name), iterators=iterators)

    @property
    def name(self) -> str:
        return self._rows.name

    @property
    def persistent(self) -> bool:
        return self._rows.persistent

    # ------------------------------------------------------------------ values as this kind shows them

    def _shown(self, value: Any, timestamp: int) -> Any:
        return value

    def _parts(self, value: Any) -> tuple[Any, int]:
        """The value and the timestamp to put."""
        return value, self._rows.cursor.timestamp

    # ------------------------------------------------------------------ reads

    def get(self, key: Any) -> Any:
        self._iterators.check()
        entry = self._get(key)
        return None if entry is None else self._shown(entry[0], entry[1])

    def range(self, from_key: Any = None, to_key: Any = None) -> RowIterator:
        return self._range(self._bound(from_key), self._after(to_key), reverse=False)

    def reverse_range(self, from_key: Any = None, to_key: Any = None) -> RowIterator:
        return self._range(self._bound(from_key), self._after(to_key), reverse=True)

    def all(self) -> RowIterator:
        return self._range(None, None, reverse=False)

    def reverse_all(self) -> RowIterator:
        return self._range(None, None, reverse=True)

    def prefix_scan(self, prefix: Any, prefix_serde: SerdeLike[Any] | None = None) -> RowIterator:
        write_key = key_writer(self._rows.format.keys.serde, self.name)
        return self._range(*prefix_bounds(prefix, write_key, prefix_serde, self.name), reverse=False)

    def approximate_num_entries(self) -> int:
        self._iterators.check()
        return self._rows.approximate_count()

    # ------------------------------------------------------------------ writes

    def put(self, key: Any, value: Any) -> None:
        self._iterators.check()
        value, timestamp = self._parts(value)
        try:
            self._put(self._not_null(key), value, timestamp, self._rows.cursor.headers)
        except TypeError:
            self._row_key(key)
            raise

    def put_if_absent(self, key: Any, value: Any) -> Any:
        old = self.get(key)
        if old is None:
            self.put(key, value)
        return old

    def put_all(self, entries: Iterable[tuple[Any, Any]]) -> None:
        """Puts all entries in order, or none of them if one cannot be put."""
        self._iterators.check()
        rows = [(self._not_null(key), *self._parts(value)) for key, value in self._pairs(entries)]
        for key, value, _ in rows:
            self._row_key(key)
            self._keep(value)
        headers = self._rows.cursor.headers
        for key, value, timestamp in rows:
            self._put(key, value, timestamp, headers)

    def delete(self, key: Any) -> Any:
        old = self.get(key)
        self.put(key, None)
        return old

    # ------------------------------------------------------------------ helpers

    def _range(self, low: bytes | None, high: bytes | None, *, reverse: bool) -> RowIterator:
        self._iterators.check()
        format, shown = self._rows.format, self._shown
        found = self._rows.range(low, high, reverse=reverse)
        read_key, value_of = format.keys.read, format.values.value_of
        decoded = ((read_key(key), shown(value_of(entry[0]), entry[1])) for key, entry in found)
        return self._iterators.open(decoded)

    def _bound(self, key: Any) -> bytes | None:
        return None if key is None else self._rows.format.keys.bytes_of(self._row_key(key))

    def _after(self, key: Any) -> bytes | None:
        bound = self._bound(key)
        return None if bound is None else bound + b"\0"

    def _pairs(self, entries: Iterable[Any]) -> Iterable[tuple[Any, Any]]:
        for entry in entries:
            if not isinstance(entry, tuple | list) or len(entry) != 2:
                raise StoreError(
                    f"store {self.name!r} needs pairs of key and value, got {repr_of(entry)}", store=self.name
                )
            yield entry[0], entry[1]

    def _not_null(self, key: Any) -> Any:
        if key is None:
            raise StoreError(f"store {self.name!r} does not accept null keys", store=self.name)
        return key


class PlainFacade(KeyValueFacade):
    """A plain key-value store: like its base, with a shorter read."""

    def get(self, key: Any) -> Any:
        if not self._iterators.is_open:
            self._iterators.check()
        entry = self._get(key)
        return None if entry is None else entry[0]


class TimestampedFacade(KeyValueFacade):
    """A key-value store of :class:`~processor_api.stores.contracts.ValueAndTimestamp` (KIP-258)."""

    def __init__(self, rows: RowReader, put: Put, **settings: Any) -> None:
        super().__init__(rows, put, **settings)
        self._timestamped = Timestamped(rows.name, rows.cursor)

    def without_timestamps(self) -> KeyValueForm:
        """Returns the same store in the form that shows values without their timestamps."""
        form = Untimed(self.name, self._rows.cursor)
        return KeyValueForm(self, self._rows, self._put, form, get=self._get, iterators=self._iterators)

    def get(self, key: Any) -> Any:
        if not self._iterators.is_open:
            self._iterators.check()
        entry = self._get(key)
        return None if entry is None else named(ValueAndTimestamp, (entry[0], entry[1]))

    def _shown(self, value: Any, timestamp: int) -> Any:
        return named(ValueAndTimestamp, (value, timestamp))

    def _parts(self, value: Any) -> tuple[Any, int]:
        return self._timestamped.parts(value)


class KeyValueForm(KeyValueFacade):
    """A key-value store in another form.

    :param form: converts between a value in this form and a value and timestamp of the rows.
    """

    def __init__(
        self, store: KeyValueFacade, rows: RowReader, put: Put, form: Shown, *, get: Get, iterators: OpenIterators
    ) -> None:
        super().__init__(rows, put, get=get, iterators=iterators)
        self._store = store
        self._form = form

    def _shown(self, value: Any, timestamp: int) -> Any:
        return self._form.show(value, timestamp)

    def _parts(self, value: Any) -> tuple[Any, int]:
        return self._form.parts(value)

    def approximate_num_entries(self) -> int:
        return self._store.approximate_num_entries()


def _open_with(facade: Callable[[Rows, Put], KeyValueFacade]) -> Callable[[Opening], OpenStore]:
    def opened(opening: Opening) -> OpenStore:
        rows = open_rows(opening, log_each=opening.log_each)
        return OpenStore(
            kind=opening.kind,
            builder=opening.builder,
            rows=rows,
            facade=facade(rows, make_put(rows)),
            operator=OperatorStore(rows),
        )

    return opened


PLAIN_ANSWERS: Mapping[type[Any], Answer] = {KeyQuery: value_of_key(itself), RangeQuery: values_of_range(itself)}
TIMESTAMPED_ANSWERS: Mapping[type[Any], Answer] = {
    KeyQuery: value_of_key(value_only),
    RangeQuery: values_of_range(pairs(value_only)),
    TimestampedKeyQuery: value_of_key(itself),
    TimestampedRangeQuery: values_of_range(itself),
}
TIMESTAMPED_FORMS: Mapping[str, StoreForm] = {
    "key-value": StoreForm(lambda store: store.without_timestamps(), value_only),
    "timestamped-key-value": ITSELF,
}

KINDS = {
    "key-value": StoreKind(
        codec=PLAIN,
        changelog_form=ChangelogForm.KEYS,
        open=_open_with(PlainFacade),
        view=KeyValueView,
        offline={"plain": PLAIN_FAMILY},
        forms={"key-value": ITSELF},
        answers=PLAIN_ANSWERS,
    ),
    "timestamped-key-value": StoreKind(
        codec=TIMESTAMPED,
        changelog_form=ChangelogForm.KEYS,
        open=_open_with(TimestampedFacade),
        older={"plain": row_from_plain, "accessed": without_access},
        view=KeyValueView,
        offline={"timestamped": TIMESTAMPED_FAMILY},
        forms=TIMESTAMPED_FORMS,
        answers=TIMESTAMPED_ANSWERS,
    ),
}
