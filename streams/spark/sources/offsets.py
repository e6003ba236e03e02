"""Ranges of offsets that a DataFrame reads, resolved once on the driver.

Spark may plan a DataFrame several times. Ends that were looked up in a plan could differ between two actions of one
DataFrame, so they are looked up before, and given to every plan as they are. In SQL they are options, as texts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from typing import Any, cast

from processor_api.clock import Clock, SystemClock
from processor_api.errors import RetryableError, StreamsError
from processor_api.task_id import TopicPartition
from processor_api.texts import repr_of
from processor_api.user_code.durations import Timeout, to_seconds
from streams.config import StreamsConfig, clients
from streams.kafka.client_errors import HEALED, LOST
from streams.kafka.confluent.clients import ConfluentClients
from streams.kafka.ports import Admin, Consumer
from streams.spark.errors import NaiveTimestampError, OffsetRangeLost, SparkBridgeError, UnknownPartitionCount
from streams.spark.sources.ranges import OffsetRange, OffsetRanges, check_isolation
from streams.spark.time_units import refuse_other_unit

BATCH = 10_000
WAIT_S = 0.1


def first_records(
    consumer: Consumer,
    offsets: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    timestamp_ms: int,
    timeout_s: float,
    clock: Clock | None = None,
) -> dict[TopicPartition, int]:
    """Returns the offset of the first record with a timestamp or a later one, and the end where there is none.

    A broker looks a time up among batches, and the markers at the ends of transactions are batches too: they have the
    time at which they were written. In a topic of transactions whose records have earlier times, the marker of the
    first transaction is found, whatever time is asked for. No record before the offset that the broker gives is of the
    time or later, so the records from there on are read until one is.

    :param consumer: reads what it is assigned, and reports the ends of partitions; nothing is assigned to it.
    :param offsets: before which no record is of that time or later, as the broker gives them.
    :param ends: offsets behind which nothing counts.
    :param timeout_s: how long the brokers may send nothing.
    :raises OffsetRangeLost: if records are deleted meanwhile.
    :raises RetryableError: if the brokers send nothing for so long.
    """
    clock = clock or SystemClock()
    found = {place: min(offset, ends[place]) for place, offset in offsets.items()}
    left = {place for place, offset in found.items() if offset < ends[place]}
    consumer.assign({place: found[place] for place in left})
    since, last_error = clock.monotonic(), "none"
    try:
        while left:
            messages = list(consumer.consume(BATCH, 0.0)) or _first(consumer)
            if not messages and clock.monotonic() - since > timeout_s:
                raise RetryableError(
                    f"no record of {min(left)} came for {timeout_s:g} s; the last error was: {last_error}. See whether"
                    " the brokers run",
                    topic=min(left).topic,
                )
            for message in messages:
                error, place = message.error(), TopicPartition(message.topic(), message.partition())
                if error is not None and error.code() != consumer.partition_eof:
                    last_error = _passing(error, place)
                elif place in left:
                    since = clock.monotonic()
                    offset = message.offset() if error is None else ends[place]
                    if offset >= ends[place] or message.timestamp()[1] >= timestamp_ms:
                        found[place] = min(offset, ends[place])
                        left.discard(place)
                        consumer.unassign([place])
    finally:
        consumer.unassign(left)
    return found


def _first(consumer: Consumer) -> list[Any]:
    message = consumer.poll(WAIT_S)
    return [] if message is None else [message]


def _passing(error: Any, place: TopicPartition) -> str:
    """Returns the text of an error that passes.

    :raises StreamsError: if it does not.
    """
    if error.name() in LOST:
        raise OffsetRangeLost(
            f"records of {place} were deleted while a time was looked up: pin the offsets again",
            topic=place.topic,
            partition=place.partition,
        )
    if error.name() not in HEALED:
        raise StreamsError(f"{place} cannot be read: {error.str()}", topic=place.topic, partition=place.partition)
    return str(error.str())


ClusterConfig = StreamsConfig | Mapping[str, Any] | str
"""The application's configuration, settings under Kafka's names, or just the addresses of brokers."""

Place = str | int | datetime | Mapping[int, int]
"""An end of a range: ``"earliest"``, ``"latest"``, ms since the epoch, a time with a zone, or offsets by partition."""

PAUSE_S = 0.2


def pin_offsets(
    config: ClusterConfig,
    topics: str | Collection[str],
    *,
    start: Place | Mapping[str, Place] = "earliest",
    end: Place | Mapping[str, Place] = "latest",
    partitions: Collection[int] | None = None,
    isolation: str = "read_committed",
    timeout: Timeout = 30,
) -> OffsetRanges:
    """Returns the offsets that topics have now, from ``start`` to ``end``.

    With ``read_committed``, ``"latest"`` is the last stable offset: behind it a transaction may be open, and be aborted
    yet. A time means the first record with that timestamp or a later one, and the end where there is none. The broker
    finds it, unless markers of transactions are in the way: then the records before it are read (`first_records`).

    :param start: for all topics, or by topic.
    :param partitions: only these; all by default.
    :param timeout: how long the brokers may take to answer; a timedelta or seconds.
    :raises UnknownPartitionCount: if a topic does not exist, or has no such partition.
    :raises NaiveTimestampError: if a time has no zone.
    :raises TimestampRangeError: if a time is an integer that seems to be in another unit than ms.
    :raises OffsetRangeLost: if a start by offset is no longer in the topic, or an end is not in it yet.
    """
    check_isolation(isolation)
    timeout_s = to_seconds(timeout, "timeout")
    names = sorted({topics} if isinstance(topics, str) else set(topics))
    settings = cluster_settings(config)
    kafka = ConfluentClients()
    admin = kafka.admin(clients.admin(settings, "streams-spark"))
    found = [place for name in names for place in _partitions(admin, name, partitions, timeout_s)]
    with closing(kafka.consumer(consumer_settings(settings, isolation))) as consumer:
        low = consumer.beginning_offsets(found)
        high = consumer.end_offsets(found, timeout_s)
        starts = _resolved(consumer, start, "start", names, low, high, timeout_s)
        ends = _resolved(consumer, end, "end", names, low, high, timeout_s)
    ranges = tuple(OffsetRange(*one, starts[one], max(starts[one], ends[one])) for one in found)
    return OffsetRanges(ranges, admin.topic_ids(names), isolation)


def check_ranges(config: ClusterConfig, offsets: OffsetRanges) -> None:
    """Makes sure that the topics still have what was pinned.

    :raises OffsetRangeLost: if records of it were deleted, or a topic was made again.
    """
    names = sorted({each.topic for each in offsets.ranges})
    settings = cluster_settings(config)
    kafka = ConfluentClients()
    admin = kafka.admin(clients.admin(settings, "streams-spark"))
    for name in names:
        _partitions(admin, name, {each.partition for each in offsets.ranges if each.topic == name}, 5.0)
    now = admin.topic_ids(names)
    for name, pinned in offsets.topic_ids.items():
        if now.get(name, pinned) != pinned:
            raise OffsetRangeLost(
                f"topic {name!r} was deleted and made again since its offsets were pinned: pin them again", topic=name
            )
    wanted = [TopicPartition(each.topic, each.partition) for each in offsets.ranges]
    with closing(kafka.consumer(consumer_settings(settings, offsets.isolation))) as consumer:
        low, high = consumer.beginning_offsets(wanted), consumer.end_offsets(wanted)
    for each in offsets.ranges:
        place = TopicPartition(each.topic, each.partition)
        if each.start < each.end:
            _check_within(place, each.start, low[place], high[place])
            _check_within(place, each.end, low[place], high[place])


def cluster_settings(config: ClusterConfig, application_id: str = "streams-spark") -> StreamsConfig:
    """Returns the configuration.

    :param application_id: that of a configuration without one; no call writes to ``streams-spark``.
    """
    if isinstance(config, StreamsConfig):
        return config
    given = {"bootstrap.servers": config} if isinstance(config, str) else dict(config)
    if "application_id" not in given:
        given.setdefault("application.id", application_id)
    return StreamsConfig.of(given)


def consumer_settings(config: StreamsConfig, isolation: str) -> dict[str, Any]:
    """Returns the settings of a consumer that reads ranges: it joins no group and commits nothing."""
    return {**clients.restore_consumer(config, "streams-spark"), "isolation.level": isolation}


def _partitions(
    admin: Admin, topic: str, wanted: Collection[int] | None, timeout_s: float, clock: Clock | None = None
) -> Iterator[TopicPartition]:
    clock = clock or SystemClock()
    deadline = clock.monotonic() + min(timeout_s, 1.0)
    while (found := admin.topics([topic]).get(topic)) is None:  # a new topic is not known to each broker at once
        if clock.monotonic() > deadline:
            raise UnknownPartitionCount(f"topic {topic!r} does not exist: check its name and the cluster", topic=topic)
        clock.wait(PAUSE_S)
    numbers = range(found.partitions) if wanted is None else sorted(set(wanted))
    for number in numbers:
        if not 0 <= number < found.partitions:
            raise UnknownPartitionCount(
                f"topic {topic!r} has {found.partitions} partitions, so none with the number {number}", topic=topic
            )
    return iter([TopicPartition(topic, number) for number in numbers])


def _resolved(
    consumer: Consumer,
    given: Place | Mapping[str, Place],
    what: str,
    topics: Sequence[str],
    low: Mapping[TopicPartition, int],
    high: Mapping[TopicPartition, int],
    timeout_s: float,
) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for topic in topics:
        place = _place_of(given, topic, what)
        of_topic = [one for one in low if one.topic == topic]
        if place in ("earliest", "latest"):
            found |= {one: (low if place == "earliest" else high)[one] for one in of_topic}
        elif isinstance(place, Mapping):
            default = low if what == "start" else high
            found |= {one: place.get(one.partition, default[one]) for one in of_topic}
            for one in of_topic:
                _check_within(one, found[one], low[one], high[one])
        else:
            ms = ms_of(place, what, "'earliest', 'latest', a time or offsets by partition")
            times = _until_answered(lambda: consumer.offsets_for_time(dict.fromkeys(of_topic, ms)))  # noqa: B023
            reached = {one: min(max(offset, low[one]), high[one]) for one, offset in times.items()}
            found |= first_records(consumer, reached, high, ms, timeout_s)
    return found


def _until_answered(ask: Any) -> Any:
    """Calls until there is an answer: for a moment after a topic was made, its leader may say that it is not one."""
    clock = SystemClock()
    deadline = clock.monotonic() + 30.0
    while True:
        try:
            return ask()
        except RetryableError:
            if clock.monotonic() > deadline:
                raise
        clock.wait(PAUSE_S)


def _place_of(given: Place | Mapping[str, Place], topic: str, what: str) -> Place:
    if isinstance(given, Mapping) and given and all(isinstance(name, str) for name in given):
        return cast(Place, given.get(topic, "earliest" if what == "start" else "latest"))  # type: ignore[call-overload]
    if isinstance(given, str) and given not in ("earliest", "latest"):
        raise SparkBridgeError(f"{what} is 'earliest', 'latest', a time or offsets by partition, not {repr_of(given)}")
    return cast(Place, given)


def ms_of(place: Any, what: str, instead: str = "a time") -> int:
    """Returns a time in ms since 1970.

    :param what: the name of what was given, for the error.
    :param instead: what can be given.
    :raises NaiveTimestampError: if it has no zone.
    :raises TimestampRangeError: if it is an integer that seems to be in another unit.
    """
    if isinstance(place, datetime):
        if place.tzinfo is None:
            raise NaiveTimestampError(f"{what} {place.isoformat()} has no time zone: give it one, such as tzinfo=UTC")
        return int(place.timestamp() * 1000)
    if isinstance(place, bool) or not isinstance(place, int):
        raise SparkBridgeError(f"{what} is {instead}, not {repr_of(place)}")
    refuse_other_unit(place, f"{what} is", "give ms, or a datetime with a zone")
    return place


def _check_within(place: TopicPartition, offset: int, low: int, high: int) -> None:
    if not low <= offset <= high:
        gone = "were deleted (retention, or a topic made again)" if offset < low else "do not exist, or no longer exist"
        raise OffsetRangeLost(
            f"{place} has offsets from {low} to {high}, so records at {offset} {gone}: pin the offsets again",
            topic=place.topic,
            partition=place.partition,
            offset=offset,
        )


_SHORT = {"key.serde": "default.key.serde", "value.serde": "default.value.serde"}


def settings_of(
    options: Mapping[str, str], format_name: str, *, required: Collection[str], known: Collection[str]
) -> tuple[dict[str, str], StreamsConfig]:
    """Returns the options of the data source itself, and the configuration that the others make.

    :raises SparkBridgeError: if a required one is missing.
    :raises ConfigError: if another one is not a setting.
    """
    own = {name: value for name, value in options.items() if name in known}
    for name in required:
        if name not in own:
            raise SparkBridgeError(f"the format {format_name} needs the option {name!r}")
    if "bootstrap.servers" not in options and "bootstrap_servers" not in options:
        raise SparkBridgeError(f"the format {format_name} needs the option 'bootstrap.servers', the brokers' addresses")
    rest: dict[str, Any] = {_SHORT.get(name, name): value for name, value in options.items() if name not in known}
    rest.pop("path", None)
    return own, cluster_settings(rest)
