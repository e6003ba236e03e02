"""The iterators of queries: they hold views open, and release them when they are closed or come to their end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from processor_api.errors import StoreError

Source = Callable[[], tuple[Any, Callable[[], None]] | None]
"""The next rows to go through, with what closes them; ``None`` at the end."""


class QueryIterator(Iterator[Any]):
    """Iterates over the rows of one store after another. A context manager.

    :param shown: converts a row to the result.
    :param failed: returns the error to raise instead of a store's, if any.
    """

    def __init__(
        self,
        source: Source,
        store: str,
        shown: Callable[[Any], Any],
        failed: Callable[[StoreError], Exception | None] = lambda error: None,
    ) -> None:
        self._source = source
        self._release: Callable[[], None] | None = None
        self._store = store
        self._shown = shown
        self._failed = failed
        self._rows: Any = None
        self._ahead: list[Any] = []
        self._over = False
        self._closed = False
        self._advance()

    def _advance(self) -> None:
        self._release_rows()
        found = self._source()
        if found is None:
            self._over = True
        else:
            self._rows, self._release = found

    def _release_rows(self) -> None:
        release, self._release, self._rows = self._release, None, None
        if release is not None:
            release()

    def __enter__(self) -> QueryIterator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __next__(self) -> Any:
        if self._ahead:
            return self._ahead.pop()
        if self._closed:
            raise StoreError(f"the iterator of store {self._store!r} is closed", store=self._store)
        while not self._over:
            try:
                return self._shown(next(self._rows))
            except StopIteration:
                self._advance()
            except StoreError as error:
                instead = self._failed(error)
                if instead is None:
                    raise
                raise instead from error
        raise StopIteration

    def peek_next_key(self) -> Any:
        """Returns the key of the next row, without moving.

        :raises StopIteration: at the end.
        """
        if not self._ahead:
            self._ahead.append(next(self))
        row = self._ahead[0]
        return row[0] if isinstance(row, tuple) else row.key

    def close(self) -> None:
        """Releases the stores. May be called again."""
        self._closed = True
        self._ahead.clear()
        self._release_rows()

    def __del__(self) -> None:
        self._release_rows()
