"""Serdes of windowed keys, byte for byte as Java's ``WindowedSerdes`` (formats 9)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from processor_api.forms.json_values import expected
from processor_api.forms.times import iso, time_ms
from processor_api.record import HeaderList, Headers
from processor_api.serde import Serde, WrappingSerde, never_null
from processor_api.stores.windowed import Window, Windowed
from processor_api.texts import repr_of
from processor_api.topology.partitioner import StreamPartitioner, partition_for_key
from processor_api.user_code.durations import Duration, to_ms
from processor_api.user_code.given_serdes import SerdeLike, optional_serde
from processor_api.user_code.open_types import K
from state.formats import keys

_SHAPE = 'an object {"key": ..., "start": TIME, "end": TIME}'


def _no_serde(anything: Any) -> Any:
    raise ValueError(
        "the key of the window does not have a serde: give Grouped(key_serde=...), or set default.key.serde"
    )


def _checked(windowed: Windowed[K]) -> Windowed[K]:
    given: object = windowed
    if not isinstance(given, Windowed):
        raise TypeError(f"a windowed serde needs Windowed(key, window), got {repr_of(given)}")
    return windowed


class _MissingInnerSerde(Serde[Any]):
    """Stands for a serde until the application's default takes its place."""

    def with_default(self, default: Serde[Any]) -> Serde[Any]:
        return default

    @property
    def is_complete(self) -> bool:
        return False


_MISSING: Any = _MissingInnerSerde(_no_serde, _no_serde, name="default")


class WindowedKeySerde(WrappingSerde[Windowed[K]], ABC):
    """Keys in windows: the base of both kinds.

    :param inner: writes the key; ``None`` is the application's default key serde.
    """

    __slots__ = ()

    inner: Serde[Any]
    """The serde of the keys within the windows."""

    def __init__(self, inner: SerdeLike[K] | None, kind: str) -> None:
        self.inner = optional_serde(inner, "inner", "a windowed serde") or _MISSING
        super().__init__(self._write, self._read, name=f"{kind}-windowed {self.inner.name}")

    def to_json(self, value: Windowed[K]) -> Any:
        """Returns an object with the key, and the start and the end of the window in ISO 8601."""
        start, end = value.window
        return {"key": self.inner.to_json(value.key), "start": iso(start), "end": iso(end)}

    def from_json(self, given: Any) -> Windowed[K]:
        """Returns the key in a window of such an object; the window may also stand within it, as in DataFrames."""
        if isinstance(given, dict) and given.keys() == {"key", "window"} and isinstance(given["window"], dict):
            given = {"key": given["key"], **given["window"]}
        if not isinstance(given, dict) or not {"key", "start"} <= given.keys() <= {"key", "start", "end"}:
            raise expected(_SHAPE)
        start, end = time_ms(given["start"]), None if "end" not in given else time_ms(given["end"])
        if end is not None and end < start:
            raise ValueError(f"the window ends at {iso(end)}, before it starts")
        return Windowed(self.inner.from_json(given["key"]), Window(start, self._end_given(start, end)))

    @abstractmethod
    def _end_given(self, start: int, end: int | None) -> int:
        """Returns the end of a window with a start, in ms.

        :param end: that given, if there is one.
        :raises ValueError: if it is another one, or must be given.
        """

    @abstractmethod
    def _around(self, inner: Serde[K]) -> Serde[Windowed[K]]:
        """Returns the same with another inner serde."""

    @abstractmethod
    def _write(self, windowed: Windowed[K]) -> bytes: ...

    @abstractmethod
    def _read(self, data: bytes) -> Windowed[K]: ...


def key_of_window_as_json(serde: Serde[Any], windowed: Windowed[Any]) -> Any:
    """Returns the key in a window as JSON, without the window.

    :param serde: that of keys in windows, or of the keys alone, as stores of windows have it.
    """
    return (serde.inner if isinstance(serde, WindowedKeySerde) else serde).to_json(windowed.key)


class TimeWindowedSerde(WindowedKeySerde[K]):
    """Keys in windows of fixed size: the key and the window's start. The end is not written, so a window with another
    end is refused (semantics 189).

    :param inner: writes the key; ``None`` is the application's default key serde.
    :param window_size: tells the end of what is read; 0 if it is not known, and then what is read ends at its start.
    :param changelog: for the keys of a window store's changelog, which have a sequence number behind the start.
    :param window_end: returns the end of the window with a start, in ms, where not all have the same size.
    :raises ValueError: if the window size is negative.
    """

    __slots__ = ("_changelog", "_end", "_size_ms")

    def __init__(
        self,
        inner: SerdeLike[K] | None,
        window_size: Duration,
        *,
        changelog: bool = False,
        window_end: Callable[[int], int] | None = None,
    ) -> None:
        super().__init__(inner, "time")
        self._size_ms = to_ms(window_size, "window_size")
        self._changelog = changelog
        self._end = window_end
        if self._size_ms < 0:
            raise ValueError(f"window_size must not be negative, got {self._size_ms}")

    @property
    def form(self) -> str:
        """The name of formats 9; the size of the windows is not written."""
        return "key and start in a changelog" if self._changelog else "key and start"

    def _around(self, inner: Serde[K]) -> Serde[Windowed[K]]:
        if inner is self.inner:
            return self
        return TimeWindowedSerde(inner, self._size_ms, changelog=self._changelog, window_end=self._end)

    def _write(self, windowed: Windowed[K]) -> bytes:
        key, (start, end) = _checked(windowed)
        if self._size_ms and end != self.end_of(start):
            raise ValueError(
                f"the end of a window is not written, but the window that starts at {start} ends at {end}: with the"
                f" size of this serde, {self._size_ms} ms, it would be read with the end {self.end_of(start)}"
            )
        data = never_null(self.inner.serialize)(key)
        return keys.window_key(data, start) if self._changelog else keys.window_topic_key(data, start)

    def _read(self, data: bytes) -> Windowed[K]:
        key, start = keys.read_window_key(data)[:2] if self._changelog else keys.read_window_topic_key(data)
        return Windowed(self.inner.deserialize(key), Window(start, self.end_of(start)))

    def _end_given(self, start: int, end: int | None) -> int:
        found = self.end_of(start)  # a size of 0 says that it is unknown
        if end is not None and end != found > start:
            raise ValueError(f"the window that starts at {iso(start)} ends at {iso(found)}, not at {iso(end)}")
        return found

    def end_of(self, start: int) -> int:
        """Returns the end of the window with a start, in ms, by the size that the serde was given."""
        return keys.window_end(start, self._size_ms) if self._end is None else self._end(start)


class SessionWindowedSerde(WindowedKeySerde[K]):
    """Keys in sessions: the key, the session's end and its start.

    :param inner: writes the key; ``None`` is the application's default key serde.
    """

    __slots__ = ()

    def __init__(self, inner: SerdeLike[K] | None) -> None:
        super().__init__(inner, "session")

    @property
    def form(self) -> str:
        """The name of formats 9."""
        return "key and session"

    def _around(self, inner: Serde[K]) -> Serde[Windowed[K]]:
        return self if inner is self.inner else SessionWindowedSerde(inner)

    def _end_given(self, start: int, end: int | None) -> int:
        if end is None:
            raise expected(_SHAPE)
        return end

    def _write(self, windowed: Windowed[K]) -> bytes:
        key, (start, end) = _checked(windowed)
        return keys.session_key(never_null(self.inner.serialize)(key), start, end)

    def _read(self, data: bytes) -> Windowed[K]:
        key, start, end = keys.read_session_key(data)
        return Windowed(self.inner.deserialize(key), Window(start, end))


class WindowedSerdes:
    """Makes serdes of windowed keys, under Kafka Streams' names.

    ::

        minute = timedelta(minutes=1)
        keys = WindowedSerdes.time_windowed_serde_from("string", minute)
        counts = clicks.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(minute)).count()
        counts.to_stream().to("per_minute", Produced(key_serde=keys, value_serde="long"))
        # clicks("ann", "home") @ 61_000 -> per_minute(("ann", (60_000, 120_000)), 1)
    """

    @staticmethod
    def time_windowed_serde_from(inner: SerdeLike[K], window_size: Duration) -> Serde[Windowed[K]]:
        """Returns a serde of keys in windows of one size; see :class:`TimeWindowedSerde`.

        ::

            keys = WindowedSerdes.time_windowed_serde_from("string", timedelta(minutes=1))
            ann = Windowed("ann", Window(60_000, 120_000))
            assert keys.deserialize(keys.serialize(ann)) == ann
        """
        return TimeWindowedSerde(inner, window_size)

    @staticmethod
    def session_windowed_serde_from(inner: SerdeLike[K]) -> Serde[Windowed[K]]:
        """Returns a serde of keys in sessions; see :class:`SessionWindowedSerde`.

        ::

            keys = WindowedSerdes.session_windowed_serde_from("string")
            ann = Windowed("ann", Window(61_000, 75_000))
            assert keys.deserialize(keys.serialize(ann)) == ann
        """
        return SessionWindowedSerde(inner)


def windowed_partitioner(serde: Serde[Any]) -> StreamPartitioner | None:
    """Returns the partitioner of windowed keys, which looks at the key alone: its windows stay in one partition.

    :param serde: the serde of the keys; ``None`` is returned if they are not windowed.
    """
    if not isinstance(serde, WindowedKeySerde):
        return None
    inner = serde.inner
    serialize = never_null(inner.serialize)

    def by_key_and_headers(
        topic: str, key: Any, value: Any, headers: HeaderList | None, partitions: int
    ) -> list[int] | None:
        if key is None:
            return None
        data = inner.with_headers(Headers(headers or ())).serialize(key.key)
        return [partition_for_key(data, partitions)]

    def by_key(topic: str, key: Any, value: Any, headers: HeaderList | None, partitions: int) -> list[int] | None:
        return None if key is None else [partition_for_key(serialize(key.key), partitions)]

    return by_key_and_headers if inner.takes_headers else by_key
