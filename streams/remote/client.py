"""The client of the HTTP ports of workers, with the standard library alone.

It is for programs that call and wait, such as a web application with threads; one on asyncio asks the port by the HTTP
client that it has anyway.
"""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Self
from urllib.parse import quote, urlencode, urlsplit

from processor_api.clock import Clock, SystemClock
from processor_api.errors import RetryableError, StreamsError
from processor_api.user_code.durations import Timeout, to_seconds, to_timestamp_ms
from streams.remote.together import Together

PAUSE_S = 0.2
PAGE_ROWS = 1000
MOST_TERMS = 64
PLAIN, SECURE = "http", "https"
Time = int | str | datetime
"""A point in time: ms since 1970, ISO 8601, or a datetime with a zone."""


class RemoteError(StreamsError):
    """A worker refuses the request; the text is its sentence."""


class RemoteUnavailable(RetryableError):
    """No worker answers now, or none has the partition now; the same call may succeed later."""


@dataclass(frozen=True, kw_only=True)
class RemoteRow:
    """A row of a store. Keys and values are values of JSON; fields that a kind of store does not have are ``None``.

    ::

        from streams.remote import RemoteRow

        row = RemoteRow(key="ann", value=3, partition=1)
        assert row.timestamp is None
    """

    key: Any
    value: Any
    partition: int | None = None
    timestamp: int | None = None
    """The timestamp in ms of the record that set it."""
    start: int | None = None
    """The start of its window or session, in ms."""
    end: int | None = None
    valid_to: int | None = None
    """When a later version took its place, in ms; ``None`` for the latest."""
    headers: tuple[tuple[str, Any], ...] | None = None

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> RemoteRow:
        """Returns the row of a JSON object; fields that are not known are left out."""
        known = {name: fields[name] for name in cls.__dataclass_fields__ if name in fields}
        if known.get("headers") is not None:
            known["headers"] = tuple((name, value) for name, value in known["headers"])
        return cls(**{"key": None, "value": None, **known})


class RemoteStreams:
    """Asks the workers of one application. A context manager; any thread may use it.

    Each worker answers for all of them, so that one address is enough; more are asked in turn where one does not
    answer. ``RemoteStreams("http://10.1.2.3:8080").store("counts").get("ann")`` is the count of a key.

    :param urls: the addresses of HTTP ports, such as ``http://10.1.2.3:8080``.
    :param token: the bearer token of the workers (``http.token.file``).
    :param timeout: how long one answer may take, a ``timedelta`` or integer milliseconds.
    :param wait: how long to try again while no worker answers, or while the partition moves; 0 raises at once.
    :param context: the trusted certificates of HTTPS; those of the system if not given.
    :raises ValueError: if an address or the token is none.
    """

    def __init__(
        self,
        *urls: str,
        token: str | None = None,
        timeout: Timeout = 30,
        wait: Timeout = 0,
        context: ssl.SSLContext | None = None,
        clock: Clock | None = None,
    ) -> None:
        if not urls:
            raise ValueError("RemoteStreams needs the address of a worker, such as http://10.1.2.3:8080")
        if (token is not None and not (token := token.strip()).isascii()) or any(map(str.isspace, token or "")):
            raise ValueError("the token must be one ASCII word, as in the file of http.token.file")
        timeout_s = to_seconds(timeout, "timeout")
        self._workers = [_Address(url, timeout_s, token, context) for url in urls]
        self._wait_s = to_seconds(wait, "wait")
        self._clock = clock or SystemClock()
        self._single: dict[str, Together] = {}

    def store(self, name: str) -> RemoteStore:
        """Returns a store by its name; nothing is asked yet."""
        return RemoteStore(self, name)

    def stores(self) -> list[dict[str, Any]]:
        """Returns the stores of the topology, with what each can be asked.

        :raises RemoteUnavailable: if no worker answers.
        """
        found: list[dict[str, Any]] = self._json("/stores")["stores"]
        return found

    def state(self) -> dict[str, Any]:
        """Returns the state of the application: the status of all workers, their totals, and the workers that are
        missing. The first worker that answers asks the others.

        :raises RemoteUnavailable: if no worker answers.
        """
        found: dict[str, Any] = self._json("/state")
        return found

    def _json(self, path: str) -> Any:
        return self.asked(path)[0]

    def asked(self, path: str, body: Any = None, *, missing: bool = False) -> list[Any]:
        """Returns the lines of an answer, each a value of JSON.

        :param missing: whether an answer that there is no such key is a result.
        :raises RemoteUnavailable: if no worker answers in time.
        :raises RemoteError: if the request is refused.
        """
        deadline = self._clock.monotonic() + self._wait_s
        while True:
            try:
                return self._asked_once(path, body, missing=missing)
            except RemoteUnavailable:
                if self._clock.monotonic() >= deadline:
                    raise
            self._clock.wait(PAUSE_S)

    def single(self, path: Callable[..., str]) -> Together:
        """Returns what reads single keys of a store; threads that read on the same terms at a time share requests.

        :param path: makes the path of a read from its parameters; without any it names the store and the terms.
        """
        name = path()
        found = self._single.get(name)
        if found is None:

            def once(keys: Sequence[Any]) -> list[Any]:
                if len(keys) == 1:
                    return self._asked_once(path(key=_key(keys[0])), None, missing=True)
                [answer] = self._asked_once(name, {"keys": list(keys)}, missing=False)
                rows: list[Any] = answer["rows"]
                return rows

            if len(self._single) >= MOST_TERMS:  # such as positions, which are others each time
                self._single.clear()
            found = Together(lambda key: self.asked(path(key=_key(key)), missing=True)[0], once)
            found = self._single.setdefault(name, found)
        return found

    def _asked_once(self, path: str, body: Any, *, missing: bool) -> list[Any]:
        failure: RemoteUnavailable | None = None
        for worker in list(self._workers):
            try:
                return _lines(worker.url, *worker.asked(path, body), missing=missing)
            except RemoteUnavailable as error:
                failure = error
        assert failure is not None
        raise failure

    def close(self) -> None:
        """Closes the connections; they are opened again if something is asked."""
        for worker in self._workers:
            worker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _lines(url: str, status: int, body: bytes, *, missing: bool) -> list[Any]:
    try:
        found = [json.loads(line) for line in body.splitlines()]
    except ValueError:
        raise RemoteUnavailable(
            f"{url} responded with status {status} and without JSON: check that it is the HTTP port of a worker"
        ) from None
    last = found[-1] if found and isinstance(found[-1], dict) else {}
    if status == 503 or (status == 200 and "error" in last):
        raise RemoteUnavailable(str(last.get("error", f"{url} answers 503")))
    if status == 404 and missing and last.get("found") is False:
        return found
    if status != 200:
        raise RemoteError(str(last.get("error", f"{url} answers {status}")))
    if not found:
        raise RemoteUnavailable(f"the response of {url} was interrupted")
    return found


class _Address:
    """One address, and the connections to it that are not in use now."""

    def __init__(self, url: str, timeout_s: float, token: str | None, context: ssl.SSLContext | None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in (PLAIN, SECURE) or not parts.hostname or parts.query or parts.username is not None:
            raise ValueError(f"the address of a worker must be http://host:port, got {url!r}")
        self.url = url
        self._parts = parts
        self._timeout_s = timeout_s
        self._headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._context = context
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []

    def asked(self, path: str, body: Any) -> tuple[int, bytes]:
        """Returns the status and body of an answer.

        :raises RemoteUnavailable: if there is none.
        """
        with self._lock:
            kept = self._idle.pop() if self._idle else None
        if kept is not None:
            try:
                return self._ask(kept, path, body)
            except (OSError, http.client.HTTPException):
                kept.close()  # the worker has closed it meanwhile
        connection = self._connection()
        try:
            return self._ask(connection, path, body)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise RemoteUnavailable(f"{self.url} does not respond: {type(error).__name__}: {error}") from None
        except BaseException:
            connection.close()
            raise

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == PLAIN:
            return http.client.HTTPConnection(host, port, timeout=self._timeout_s)
        return http.client.HTTPSConnection(host, port, timeout=self._timeout_s, context=self._context)

    def _ask(self, connection: http.client.HTTPConnection, path: str, body: Any) -> tuple[int, bytes]:
        data = None if body is None else json.dumps(body).encode()
        method = "GET" if body is None else "POST"
        connection.request(method, self._parts.path.rstrip("/") + path, data, self._headers)
        with connection.getresponse() as response:
            found = response.status, response.read()
        if response.will_close:
            connection.close()
        else:
            with self._lock:
                self._idle.append(connection)
        return found

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


class RemoteStore:
    """A store of the application, wherever its partitions are.

    Keys are values of JSON: what the store's serde takes. Rows of many keys come partition after partition.
    """

    def __init__(self, streams: RemoteStreams, name: str, terms: Mapping[str, str] | None = None) -> None:
        self.name = name
        self._streams = streams
        self._terms = dict(terms or {})

    def on_terms(
        self,
        *,
        isolation: str | None = None,
        position: Mapping[str, Mapping[Any, int]] | None = None,
        stale: bool = False,
        max_lag: int | None = None,
        partition: int | None = None,
    ) -> RemoteStore:
        """Returns the same store, read on these terms.

        :param isolation: ``read_committed`` or ``read_uncommitted``.
        :param position: offsets of inputs by topic and partition that the store must have seen.
        :param stale: reads also a store that is restored, as far as it is.
        :param max_lag: then, how many offsets of its changelog it may lack.
        :param partition: of the key, where another partitioner than Kafka's has put it.
        """
        terms: dict[str, Any] = {"isolation": isolation, "max_lag": max_lag, "partition": partition}
        terms["position"] = None if position is None else json.dumps(position)
        terms["stale"] = "true" if stale else None
        given = {name: str(value) for name, value in terms.items() if value is not None}
        return RemoteStore(self._streams, self.name, self._terms | given)

    def get(self, key: Any, as_of: Time | None = None) -> Any:
        """Returns the value of a key; ``None`` if there is none.

        Keys that several threads ask for at a time share requests, without waiting for each other where there are few.

        :param as_of: the time of the version, in a versioned store.
        :raises RemoteUnavailable: if no worker has the partition now.
        :raises RemoteError: if the store or the key is none.
        """
        row = self.row(key, as_of)
        return None if row is None else row.value

    def row(self, key: Any, as_of: Time | None = None) -> RemoteRow | None:
        """Returns the row of a key, with its timestamp; ``None`` if there is none. See :meth:`get`."""
        if as_of is not None:
            [found] = self._streams.asked(self._path("get", key=_key(key), as_of=_time(as_of)), missing=True)
        else:
            json.dumps(key)  # here, so that a key that is none fails alone
            found = self._streams.single(partial(self._path, "get")).row(key)
        return None if found.get("found") is False else RemoteRow.of(found)

    def get_all(self, keys: Sequence[Any]) -> list[Any]:
        """Returns the values of several keys, in their order; ``None`` for those that are missing. See :meth:`get`."""
        [found] = self._streams.asked(self._path("get", keys=None), {"keys": list(keys)})
        return [row.get("value") for row in found["rows"]]

    def range(
        self, from_key: Any = None, to_key: Any = None, *, reverse: bool = False, as_of: Time | None = None
    ) -> Iterator[RemoteRow]:
        """Yields the rows from one key to another, both included; ``None`` removes the bound. It reads page by page.

        :raises RemoteUnavailable: if a worker does not answer; the rows up to then are right, and not all.
        """
        bounds = {"from": _key(from_key), "to": _key(to_key), "order": "descending" if reverse else None}
        yield from self._rows("range", **bounds, as_of=_time(as_of))

    def prefix(self, prefix: Any) -> Iterator[RemoteRow]:
        """Yields the rows whose keys begin so, as the serde writes them. See :meth:`range`."""
        yield from self._rows("prefix", prefix=_key(prefix))

    def windows(
        self, key: Any = None, from_time: Time | None = None, to_time: Time | None = None, *, reverse: bool = False
    ) -> Iterator[RemoteRow]:
        """Yields the windows of a key, or of all keys, that begin in a time, both ends included. See :meth:`range`."""
        return self._rows("windows", **_in_time(key, from_time, to_time, reverse=reverse))

    def sessions(
        self, key: Any = None, from_time: Time | None = None, to_time: Time | None = None, *, reverse: bool = False
    ) -> Iterator[RemoteRow]:
        """Yields the sessions of a key that overlap a time, or those of all keys that end in it. See :meth:`range`."""
        return self._rows("sessions", **_in_time(key, from_time, to_time, reverse=reverse))

    def versions(
        self, key: Any = None, from_time: Time | None = None, to_time: Time | None = None, *, reverse: bool = False
    ) -> Iterator[RemoteRow]:
        """Yields the versions of a key, or of all keys, that were valid in a time, of a versioned store. See
        :meth:`range`."""
        return self._rows("versions", **_in_time(key, from_time, to_time, reverse=reverse))

    def count(self) -> int:
        """Returns about how many rows there are, in all partitions. See :meth:`get`."""
        found: int = self._streams.asked(self._path("count", keys=None))[0]["count"]
        return found

    def _path(self, operation: str, **query: str | None) -> str:
        given = {"keys": "json", **self._terms, **query}
        return f"/stores/{quote(self.name, safe='')}/{operation}?" + urlencode(
            {name: value for name, value in given.items() if value is not None}
        )

    def _rows(self, operation: str, **query: str | None) -> Iterator[RemoteRow]:
        cursor: str | None = None
        while True:
            *rows, last = self._streams.asked(self._path(operation, **query, cursor=cursor, limit=str(PAGE_ROWS)))
            if last.get("end") is not True:
                raise RemoteUnavailable(f"the response about store {self.name!r} was interrupted")
            yield from map(RemoteRow.of, rows)
            if last["cut_off"]:
                raise RemoteError(
                    f"store {self.name!r} has more than {PAGE_ROWS} such rows: request a shorter time range"
                )
            cursor = last["next"]
            if cursor is None:
                return


def _in_time(key: Any, from_time: Time | None, to_time: Time | None, *, reverse: bool) -> dict[str, str | None]:
    times = {"from": _time(from_time), "to": _time(to_time)}
    return {"key": _key(key), "order": "descending" if reverse else None, **times}


def _key(key: Any) -> str | None:
    return None if key is None else json.dumps(key)


def _time(time: Time | None) -> str | None:
    return None if time is None else str(to_timestamp_ms(time, "a time")) if isinstance(time, datetime) else str(time)
