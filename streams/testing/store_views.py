"""How the test driver shows stores of each kind to a test that asks for one kind: a new one is a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from processor_api.errors import TopologyError
from processor_api.stores.factory import PROXIED
from processor_api.stores.suppliers import CUSTOM_VERSIONED
from state.key_value.store import KeyValueFacade
from state.registry.kinds import OpenStore
from state.write_buffer.record_context import Cursor
from state.write_buffer.value_forms import Shown, Timestamped, Untimed

__all__ = [
    "HEADERS_KEY_VALUE",
    "HEADERS_SESSION",
    "HEADERS_WINDOW",
    "KEY_VALUE",
    "SESSION",
    "TIMESTAMPED_KEY_VALUE",
    "TIMESTAMPED_SESSION",
    "TIMESTAMPED_WINDOW",
    "VERSIONED_KEY_VALUE",
    "WINDOW",
    "StoreView",
]


@dataclass(frozen=True)
class StoreView:
    """What is asked for, and what makes it of a store of each kind that can be shown so."""

    what: str
    of_kind: Mapping[str, Callable[[OpenStore], Any]]

    def of(self, store: OpenStore) -> Any:
        """A store in this view.

        :raises TopologyError: if stores of its kind cannot be shown so.
        """
        name, kind = store.builder.name, store.builder.kind
        shown = self.of_kind.get(kind)
        if shown is None:
            raise TopologyError(f"store {name!r} is a {kind} store and cannot be read as a {self.what} one", store=name)
        return shown(store)


def _itself(store: OpenStore) -> Any:
    return store.facade


def _without_timestamps(store: OpenStore) -> Any:
    return store.facade.without_timestamps()


def _without_headers(store: OpenStore) -> Any:
    return store.facade.without_headers()


class _KeyValue(KeyValueFacade):
    """A timestamped key-value store in another form."""

    form: Callable[[str, Cursor], Shown] = Untimed

    def __init__(self, store: OpenStore) -> None:
        super().__init__(store.rows)
        self._facade: KeyValueFacade = store.facade
        self._get, self._put = self._facade._get, self._facade._put  # an LRU map keeps its order up in them
        self._form = type(self).form(self.name, store.rows.cursor)

    @property
    def is_open(self) -> bool:
        return self._facade.is_open

    def _shown(self, value: Any, timestamp: int) -> Any:
        return self._form.show(value, timestamp)

    def _parts(self, value: Any) -> tuple[Any, int]:
        return self._form.parts(value)

    def approximate_num_entries(self) -> int:
        return self._facade.approximate_num_entries()

    def _check(self) -> None:
        self._facade._check()


class _WithoutHeaders(_KeyValue):
    """One with headers, whose rows have pairs of value and headers; what is put has none."""

    def _shown(self, value: Any, timestamp: int) -> Any:
        return super()._shown(value[0], timestamp)

    def _parts(self, value: Any) -> tuple[Any, int]:
        alone, timestamp = super()._parts(value)
        return None if alone is None else (alone, []), timestamp


class _TimestampedWithoutHeaders(_WithoutHeaders):
    form = Timestamped


KEY_VALUE = StoreView(
    "key-value",
    {
        "key-value": _itself,
        "lru-map": _itself,
        "timestamped-key-value": _KeyValue,
        "timestamped-lru-map": _KeyValue,
        PROXIED: _KeyValue,
        "headers-key-value": _WithoutHeaders,
    },
)
TIMESTAMPED_KEY_VALUE = StoreView(
    "timestamped-key-value",
    {
        "timestamped-key-value": _itself,
        "timestamped-lru-map": _itself,
        PROXIED: _itself,
        "headers-key-value": _TimestampedWithoutHeaders,
    },
)
HEADERS_KEY_VALUE = StoreView("headers-key-value", {"headers-key-value": _itself})
VERSIONED_KEY_VALUE = StoreView("versioned-key-value", {"versioned-key-value": _itself, CUSTOM_VERSIONED: _itself})
WINDOW = StoreView(
    "window",
    {
        "window": _itself,
        "time-ordered-window": _itself,
        "timestamped-window": _without_timestamps,
        "time-ordered-timestamped-window": _without_timestamps,
        "headers-window": _without_timestamps,
        "time-ordered-headers-window": _without_timestamps,
    },
)
TIMESTAMPED_WINDOW = StoreView(
    "timestamped-window",
    {
        "timestamped-window": _itself,
        "time-ordered-timestamped-window": _itself,
        "headers-window": _without_headers,
        "time-ordered-headers-window": _without_headers,
    },
)
HEADERS_WINDOW = StoreView("headers-window", {"headers-window": _itself, "time-ordered-headers-window": _itself})
SESSION = StoreView(
    "session",
    {
        "session": _itself,
        "time-ordered-session": _itself,
        "timestamped-session": _without_timestamps,
        "time-ordered-timestamped-session": _without_timestamps,
        "headers-session": _without_timestamps,
        "time-ordered-headers-session": _without_timestamps,
    },
)
TIMESTAMPED_SESSION = StoreView(
    "timestamped-session", {"timestamped-session": _itself, "time-ordered-timestamped-session": _itself}
)
HEADERS_SESSION = StoreView("headers-session", {"headers-session": _itself, "time-ordered-headers-session": _itself})
