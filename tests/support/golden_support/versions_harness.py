"""The harness of recorded traces with a model of a versioned store in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from golden_support.store_traces import Change, LogRecord
from processor_api.stores.contracts import VersionedRecord
from processor_api.stores.queries import MultiVersionedKeyQuery, ResultOrder, VersionedKeyQuery
from state_support.versions_model import Defects, VersionsModel
from streams.queries.queries import UnknownQueryType

__all__ = ["VersionsHarness"]

LAST_TIME = (1 << 63) - 1


class VersionsHarness:
    """Holds a model.

    :param store: what a recording tells of its store.
    """

    def __init__(self, store: Mapping[str, Any], defects: Defects) -> None:
        self._store, self._defects = store, defects
        self.model = VersionsModel(store["history_retention_ms"], store["segment_interval_ms"], defects)
        self._facade = _Store(self.model)

    def run(self, timestamp: int, offset: int, call: Callable[[Any], Any]) -> Any:
        return call(self._facade)

    def query(self, query: Any) -> Any:
        if isinstance(query, VersionedKeyQuery):
            return self._facade.get(query.key, query.as_of)
        if not isinstance(query, MultiVersionedKeyQuery):
            raise UnknownQueryType(f"versioned stores do not answer {type(query).__name__}")
        first = -1 if query.from_time is None else query.from_time
        last = LAST_TIME if query.to_time is None else query.to_time
        found = self.model.range(query.key, first, last)
        return _Rows(found if query.order is ResultOrder.ASCENDING else found[::-1])

    def flush_cache(self) -> None:
        """Versioned stores have none."""

    def take_changelog(self) -> Sequence[LogRecord]:
        logged, self._facade.logged = self._facade.logged, []
        return logged

    def take_forwarded(self) -> Sequence[Change]:
        return ()

    def restored(self, records: Sequence[LogRecord]) -> VersionsHarness:
        other = VersionsHarness(self._store, self._defects)
        other.model.restore(
            (key.decode(), None if value is None else value.decode(), timestamp) for key, value, timestamp, _ in records
        )
        return other

    def close(self) -> None:
        pass


class _Store:
    """The calls of a versioned store on a model. Every put is logged, one that comes too late as well."""

    def __init__(self, model: VersionsModel) -> None:
        self._model = model
        self.logged: list[LogRecord] = []

    def put(self, key: str | None, value: str | None, timestamp: int) -> int:
        data = _needed(key).encode()
        self.logged.append((data, None if value is None else value.encode(), timestamp, []))
        return self._model.put(_needed(key), value, timestamp)

    def delete(self, key: str | None, timestamp: int) -> VersionedRecord[str] | None:
        self.logged.append((_needed(key).encode(), None, timestamp, []))
        return self._model.delete(_needed(key), timestamp)

    def get(self, key: str | None, as_of: int | None = None) -> VersionedRecord[str] | None:
        return self._model.get(_needed(key), as_of)


def _needed(key: str | None) -> str:
    if key is None:
        raise ValueError("a key is needed")
    return key


class _Rows(list[VersionedRecord[str]]):
    """What a query found; closing it does nothing."""

    def __enter__(self) -> _Rows:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        pass
