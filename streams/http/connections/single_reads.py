"""Answers reads of one key, or of some, of partitions that this worker has, without the framework: the bytes are those
that :class:`streams.http.stores.StorePages` would answer with.

What does not depend on the key is found out once in a turn of the server: which task has the partition, and how far it
is. A position that was taken before a row is read is one that the row has at least.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from email.utils import formatdate
from typing import Any, NamedTuple

from aiohttp.http import SERVER_SOFTWARE
from yarl import URL

from processor_api.clock import Clock
from processor_api.serde import Serdes
from processor_api.stores.queries import IsolationLevel
from streams.http.local_reads import json_of_position
from streams.http.reads import StoreSerdes, operations_of, terms_of
from streams.http.responses import ServedApplication, json_bytes, json_text
from streams.queries.local_stores import LocalStore
from streams.queries.owners import Owners
from streams.queries.position import Position
from streams.queries.queries import Queries

_PLAIN = re.compile(rb"key=([A-Za-z0-9._~:@/!$()*,-]+)")
"""A query whose key is written as it is."""
MOST_KEYS_AT_ONCE = 250
"""Keys of a request that is answered at once; a longer one leaves others their turns meanwhile."""
_TAKEN = frozenset({"key", "keys", "isolation", "partition", "local"})
"""Parameters of a read that is answered here; one with others is left to the framework."""
_HEAD = (
    "HTTP/1.1 {status}\r\nContent-Type: application/json; charset=utf-8\r\n"
    "Content-Length: %d\r\nDate: {date}\r\nServer: {server}\r\n\r\n%b"
)


class _Store(NamedTuple):
    """A store, whatever is asked of it."""

    name: str
    serdes: StoreSerdes
    is_text: bool
    """Whether a key is the text that a request has."""


class _Partition(NamedTuple):
    """One partition of a store, as it is read in one turn."""

    get: Callable[[Any], Any]
    number: str
    """The end of a row among others, with the number of the partition."""
    end: str
    """The end of a row's line of JSON."""
    missing: bytes
    """The whole answer about a key that is not there."""


class SingleReads:
    """Answers reads of one key, on the loop of the server."""

    def __init__(
        self, application: ServedApplication, queries: Callable[[], Queries], owners: Owners, clock: Clock
    ) -> None:
        self._application = application
        self._owners = owners
        self._queries = queries
        self._clock = clock
        self._stores: dict[bytes, _Store | None] = {}
        self._counts: dict[str, int | None] = {}
        self._partitions: dict[tuple[str, int | None, IsolationLevel | None], _Partition] = {}
        self._second = -1
        self._found = self._not_found = b""
        """The heads of answers."""

    def new_turn(self) -> None:
        """Forgets where the partitions are, and takes the time."""
        self._counts.clear()
        self._partitions.clear()
        second = self._clock.time_ms() // 1000
        if second != self._second:
            self._second, date = second, formatdate(second, usegmt=True)
            self._found, self._not_found = (
                _HEAD.format(status=status, date=date, server=SERVER_SOFTWARE).encode()
                for status in ("200 OK", "404 Not Found")
            )

    def answer(self, store: bytes, query: bytes, body: bytes | None = None) -> bytes | None:
        """Returns a whole answer; ``None`` if a partition is not read here now, or the request is none that is answered
        here: :class:`streams.http.stores.StorePages` determines and reports it.

        :param store: the name of the store, without escapes.
        :param query: the parameters, with their escapes.
        :param body: the keys that are asked for, as JSON; ``None`` if the query has the key.
        """
        try:
            found = self._stores[store] if store in self._stores else self._learn(store)
            if found is None:
                return None
            return self._one(found, query) if body is None else self._several(found, query, body)
        except Exception:  # whatever it is, the other way meets it too, and answers with the reason
            return None

    def _one(self, store: _Store, query: bytes) -> bytes | None:
        level, partition = None, None
        plain = _PLAIN.fullmatch(query) if store.is_text else None
        if plain is not None:
            key: Any = plain[1].decode("ascii")
        else:
            given = _given(query)
            if given is None:
                return None
            terms, key = terms_of(given), store.serdes.named(given)
            level, partition = terms.isolation, terms.partition
        found = self._partition_of(store, key, partition, level)
        value = found.get(key)
        if value is None:
            return found.missing
        return self._whole(store.serdes.row_text(key, value)[:-1] + found.end)

    def _several(self, store: _Store, query: bytes, body: bytes) -> bytes | None:
        given, keys = _given(query), json.loads(body)["keys"]
        if given is None or "key" in given or type(keys) is not list or len(keys) > MOST_KEYS_AT_ONCE:
            return None
        terms, is_text, key_of = terms_of(given), store.is_text, store.serdes.key_of
        rows: list[str] = []
        for one in keys:
            key = one if is_text and type(one) is str else key_of(one, is_text=False)
            found = self._partition_of(store, key, terms.partition, terms.isolation)
            value = found.get(key)
            row = json_text({"key": one, "found": False}) if value is None else store.serdes.row_text(key, value)
            rows.append(row[:-1] + found.number)
        return self._whole(f'{{"rows":[{",".join(rows)}]}}\n')

    def _whole(self, text: str) -> bytes:
        body = json_bytes(text)
        return self._found % (len(body), body)

    def _partition_of(self, store: _Store, key: Any, partition: int | None, level: IsolationLevel | None) -> _Partition:
        """Returns the partition of a key, or the one that is named, for reads in this turn.

        :raises InvalidStateStoreError: if it cannot be read here now.
        """
        count = self._counts[store.name] if store.name in self._counts else self._count(store.name)
        if count is None:
            partition = None
        elif partition is None:
            partition = self._owners.partition(store.name, key, store.serdes.unbound_key, count)
        place = store.name, partition, level
        return self._partitions.get(place) or self._open(place)

    def _learn(self, name: bytes) -> _Store | None:
        """Returns a store; ``None`` if it has no reads of one key. The topology does not change.

        :raises InvalidStateStoreError: if there is no such store.
        """
        builder = self._queries().builder(name.decode("ascii"))
        found = None
        if "get" in operations_of(builder):
            serdes = StoreSerdes(builder, self._application.config)
            found = _Store(builder.name, serdes, serdes.key == Serdes.STRING)
        self._stores[name] = found
        return found

    def _count(self, name: str) -> int | None:
        """Returns the number of partitions; ``None`` for a global store.

        :raises ValueError: if it is not known yet.
        """
        found = self._counts[name] = self._queries().partitions(name)
        if found == 0:
            del self._counts[name]
            raise ValueError("the partitions are not known yet")
        return found

    def _open(self, place: tuple[str, int | None, IsolationLevel | None]) -> _Partition:
        """Returns a partition for reads in this turn.

        :raises InvalidStateStoreError: if it cannot be read here now.
        """
        name, partition, level = place
        queries = self._queries()
        store = queries.readable(name, partition)
        level = level or queries.level
        position = store.position(level) if isinstance(store, LocalStore) else Position()
        with store.view(level) as view:
            get = view.store.get
        found = self._partitions[place] = self._partition(get, partition, json_of_position(position))
        return found

    def _partition(
        self, get: Callable[[Any], Any], partition: int | None, position: Mapping[str, Mapping[str, int]]
    ) -> _Partition:
        fields = {"error": "the key does not exist", "found": False, "partition": partition, "position": position}
        body = json_bytes(json_text(fields)) + b"\n"
        number = f',"partition":{partition or 0}'
        end = f'{number},"position":{json_text(position)}}}\n'
        return _Partition(get, f"{number}}}", end, self._not_found % (len(body), body))


def _given(query: bytes) -> Mapping[str, str] | None:
    """Returns the parameters of a query; ``None`` if they are not all known here, or one is given twice."""
    given = URL.build(path="/", query_string=query.decode("ascii"), encoded=True).query
    return given if given.keys() <= _TAKEN and len(given) == len(set(given)) else None
