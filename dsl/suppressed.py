"""Options of a suppression: for how long a table's changes wait, and how many may wait (KIP-328)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from dsl.naming import validate_name
from processor_api.errors import TopologyError
from processor_api.texts import repr_of
from processor_api.user_code.calls import explain_calls
from processor_api.user_code.checks import check_fields
from processor_api.user_code.durations import Duration, to_ms
from processor_api.user_code.given_values import texts_by_name


def _limit(number: int, what: str) -> int:
    if type(number) is not int or number < 0:
        raise TopologyError(f"{what} of a suppression's buffer must be a non-negative number, got {repr_of(number)}")
    return number


@explain_calls
@dataclass(frozen=True, kw_only=True)
class BufferConfig:
    """The limits of a buffer, and its strategy when it is full.

    It is made by :meth:`max_records`, :meth:`max_bytes` or :meth:`unbounded`. The other methods return a changed copy.

    Bytes are counted as Kafka Streams counts them: keys, values and the contexts of the records.

    ::

        buffer = BufferConfig.max_records(10_000).with_max_bytes(64_000_000)
        calm = stock.suppress(Suppressed.until_time_limit(timedelta(seconds=5), buffer))
        # ("tea", 3) @ 0, ("tea", 4) @ 1_000, ("milk", 9) @ 6_000 -> ("tea", 4)
    """

    record_limit: int | None = None
    """How many keys may wait; ``None``: any number."""
    byte_limit: int | None = None
    """How many bytes may wait; ``None``: any number."""
    logging: bool = True
    """Whether buffered records are in a changelog topic; otherwise they are lost with their worker."""
    topic_config: Mapping[str, str] = field(default_factory=dict)
    """Settings of the changelog topic, over the built-in ones."""

    def __post_init__(self) -> None:
        check_fields(self, type(self).__name__)
        for number, what in ((self.record_limit, "record_limit"), (self.byte_limit, "byte_limit")):
            if number is not None:
                _limit(number, what)

    @staticmethod
    def max_records(records: int) -> EagerBufferConfig:
        """Limits the keys that wait; when there are more, the oldest is sent on early.

        ::

            buffer = BufferConfig.max_records(1)
            calm = stock.suppress(Suppressed.until_time_limit(timedelta(seconds=5), buffer))
            # ("tea", 3) @ 0, ("milk", 9) @ 1_000 -> ("tea", 3)

        :raises TopologyError: if the number is negative.
        """
        return EagerBufferConfig(record_limit=_limit(records, "the records"))

    @staticmethod
    def max_bytes(size: int) -> EagerBufferConfig:
        """Limits the bytes that wait; when there are more, the oldest keys are sent on early.

        ::

            buffer = BufferConfig.max_bytes(64_000_000)
            calm = stock.suppress(Suppressed.until_time_limit(timedelta(seconds=5), buffer))

        :raises TopologyError: if the number is negative.
        """
        return EagerBufferConfig(byte_limit=_limit(size, "the bytes"))

    @staticmethod
    def unbounded() -> StrictBufferConfig:
        """Sets no limit to what may wait.

        ::

            calm = stock.suppress(Suppressed.until_time_limit(timedelta(seconds=5), BufferConfig.unbounded()))
            # ("tea", 3) @ 0, ("tea", 4) @ 1_000, ("milk", 9) @ 6_000 -> ("tea", 4)
        """
        return StrictBufferConfig()

    def shut_down_when_full(self) -> StrictBufferConfig:
        """Ends the application with an error when the buffer is full; nothing is sent on early.

        ::

            buffer = BufferConfig.max_records(10_000).shut_down_when_full()
            final = Suppressed.until_window_closes(buffer)
        """
        return StrictBufferConfig(**self._values())

    def emit_early_when_full(self) -> EagerBufferConfig:
        """Sends the oldest keys on early when the buffer is full. Not for results that must be final.

        ::

            buffer = BufferConfig.unbounded().with_max_records(10_000).emit_early_when_full()
            calm = stock.suppress(Suppressed.until_time_limit(timedelta(seconds=5), buffer))
        """
        return EagerBufferConfig(**self._values())

    def _values(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def with_max_records(self, records: int) -> Self:
        """Returns a copy with another limit of keys.

        ::

            buffer = BufferConfig.max_bytes(64_000_000).with_max_records(10_000)
            assert (buffer.byte_limit, buffer.record_limit) == (64_000_000, 10_000)

        :raises TopologyError: if the number is negative.
        """
        return replace(self, record_limit=_limit(records, "the records"))

    def with_max_bytes(self, size: int) -> Self:
        """Returns a copy with another limit of bytes.

        ::

            buffer = BufferConfig.max_records(10_000).with_max_bytes(64_000_000)
            assert (buffer.byte_limit, buffer.record_limit) == (64_000_000, 10_000)

        :raises TopologyError: if the number is negative.
        """
        return replace(self, byte_limit=_limit(size, "the bytes"))

    def with_logging_disabled(self) -> Self:
        """Leaves out the changelog topic: what waits is lost with its worker.

        ::

            buffer = BufferConfig.unbounded().with_logging_disabled()
            calm = stock.suppress(Suppressed.until_time_limit(timedelta(seconds=5), buffer))
        """
        return replace(self, logging=False, topic_config={})

    def with_logging_enabled(self, topic_config: Mapping[str, str] | None = None) -> Self:
        """Keeps what waits in a changelog topic, created with ``topic_config`` over the built-in settings.

        ::

            buffer = BufferConfig.unbounded().with_logging_enabled({"min.insync.replicas": "2"})
            calm = stock.suppress(Suppressed.until_time_limit(timedelta(seconds=5), buffer))
        """
        return replace(self, logging=True, topic_config=texts_by_name(topic_config, "topic_config"))

    def with_no_bound(self) -> StrictBufferConfig:
        """Sets no limit to what may wait.

        ::

            buffer = BufferConfig.max_records(10_000).with_no_bound()
            assert buffer.record_limit is None
        """
        return StrictBufferConfig(logging=self.logging, topic_config=self.topic_config)


@explain_calls
@dataclass(frozen=True, kw_only=True)
class EagerBufferConfig(BufferConfig):
    """The configuration of a buffer that sends its oldest keys on early when it is full.

    ::

        buffer = BufferConfig.max_records(10_000)
        assert isinstance(buffer, EagerBufferConfig)
    """


@explain_calls
@dataclass(frozen=True, kw_only=True)
class StrictBufferConfig(BufferConfig):
    """The configuration of a buffer that ends the application when it is full; nothing is sent on early.

    ::

        buffer = BufferConfig.max_records(10_000).shut_down_when_full()
        assert isinstance(buffer, StrictBufferConfig)
    """


@explain_calls
@dataclass(frozen=True, kw_only=True)
class Suppressed:
    """Options of a suppression, made by :meth:`until_time_limit` or :meth:`until_window_closes`.

    ::

        calm = stock.suppress(Suppressed.until_time_limit(timedelta(seconds=5), BufferConfig.unbounded()))
        # ("tea", 3) @ 0, ("tea", 4) @ 1_000, ("milk", 9) @ 6_000 -> ("tea", 4)
    """

    buffer: BufferConfig
    wait_ms: int | None = None
    """The time that a key's changes wait, in stream time; ``None``: until its window closes."""
    name: str | None = None

    def __post_init__(self) -> None:
        _config(self.buffer)
        if self.wait_ms is not None:
            object.__setattr__(self, "wait_ms", to_ms(self.wait_ms, "wait_ms"))
        if self.name is not None:
            validate_name(self.name)

    @staticmethod
    def until_time_limit(time_to_wait: Duration, buffer: BufferConfig) -> Suppressed:
        """Sends the last change of a key on after a time, which limits the rate.

        That is when stream time has passed the first change that waits by ``time_to_wait``.

        ::

            calm = stock.suppress(Suppressed.until_time_limit(timedelta(seconds=5), BufferConfig.max_records(10_000)))
            # ("tea", 3) @ 0, ("tea", 4) @ 1_000, ("milk", 9) @ 6_000 -> ("tea", 4)

        :param time_to_wait: a ``timedelta`` or integer milliseconds.

        :raises TopologyError: if the time is negative.
        """
        wait_ms = to_ms(time_to_wait, "time_to_wait")
        if wait_ms < 0:
            raise TopologyError(f"time_to_wait must not be negative, got {wait_ms} ms")
        return Suppressed(buffer=_config(buffer), wait_ms=wait_ms)

    @staticmethod
    def until_window_closes(buffer: StrictBufferConfig) -> Suppressed:
        """Sends only the final result of each window on, when its grace period is over in stream time.

        ::

            minutes = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))
            counts = clicks.group_by_key().windowed_by(minutes).count()
            final = counts.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
            # ("ann", "home") @ 0, ("ann", "cart") @ 9_000, ("bob", "home") @ 60_000 -> (("ann", (0, 60_000)), 2)

        :raises TopologyError: if the buffer sends on early when it is full: such results would not be final.
        """
        if not isinstance(_config(buffer), StrictBufferConfig):
            raise TopologyError(
                "a buffer that emits early when it is full cannot wait for windows to close: use shut_down_when_full()"
                " or with_no_bound()"
            )
        return Suppressed(buffer=buffer)

    def with_name(self, name: str) -> Suppressed:
        """Returns a copy with a name for the operator, its store and its changelog.

        ::

            suppressed = Suppressed.until_time_limit(timedelta(seconds=5), BufferConfig.unbounded()).with_name("calm")
            assert repr(stock.suppress(suppressed)) == "KTable(calm)"

        :raises TopologyError: if the name is illegal.
        """
        return replace(self, name=name)


def _config(buffer: BufferConfig) -> BufferConfig:
    if not isinstance(buffer, (EagerBufferConfig, StrictBufferConfig)):
        raise TopologyError(
            "a suppression needs BufferConfig.max_records(...), max_bytes(...) or unbounded(), got " + repr_of(buffer)
        )
    return buffer
