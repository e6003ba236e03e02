"""How values of a store are shown: alone, or with the timestamps of the records that set them (KIP-258)."""

from __future__ import annotations

from typing import Any, Protocol

from processor_api.errors import StoreError
from processor_api.stores import ValueAndTimestamp
from state.cursor import Cursor
from state.formats.keys import MAX_TIME

__all__ = ["Plain", "Shown", "Timestamped", "Untimed", "wrong_timestamp"]


def wrong_timestamp(store: str, timestamp: Any) -> StoreError:
    return StoreError(
        f"store {store!r} takes timestamps in ms that are below 2 to the 63 and not negative, got {timestamp!r}: the"
        " changelog could hold no other",
        store=store,
    )


class Shown(Protocol):
    """Between a value as users give and get it, and a value and its timestamp in ms."""

    def show(self, value: Any, timestamp: int) -> Any: ...

    def parts(self, value: Any) -> tuple[Any, int]:
        """What to put.

        :raises StoreError: if the store takes no such value.
        """
        ...


class Plain:
    """The value alone. What is put has the timestamp of the record in work."""

    def __init__(self, store: str, cursor: Cursor) -> None:
        self._cursor = cursor

    def show(self, value: Any, timestamp: int) -> Any:
        return value

    def parts(self, value: Any) -> tuple[Any, int]:
        return value, self._cursor.timestamp


class Untimed(Plain):
    """Values of a timestamped store without their timestamps. What is put while no record is in work has timestamp 0:
    there is none, and the row must have one."""

    def parts(self, value: Any) -> tuple[Any, int]:
        return value, max(self._cursor.timestamp, 0)


class Timestamped:
    """:class:`~processor_api.stores.ValueAndTimestamp`; what is deleted has the timestamp of the record in work."""

    def __init__(self, store: str, cursor: Cursor) -> None:
        self._store = store
        self._cursor = cursor

    def show(self, value: Any, timestamp: int) -> Any:
        return ValueAndTimestamp(value, timestamp)

    def parts(self, value: Any) -> tuple[Any, int]:
        if value is None:
            return None, self._cursor.timestamp
        if not isinstance(value, tuple) or len(value) != 2:
            raise StoreError(f"store {self._store!r} takes ValueAndTimestamp, got {value!r}", store=self._store)
        if type(value[1]) is not int or not 0 <= value[1] <= MAX_TIME:
            raise wrong_timestamp(self._store, value[1])
        return None if value[0] is None else value[0], value[1]
