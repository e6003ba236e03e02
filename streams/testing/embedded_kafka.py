"""A broker in memory with what a test needs around it: topics, records in and out, and applications on it.

The test driver is faster and more precise; this is for tests that need a running application: several partitions and
threads, commits, restarts and transactions. Time is real.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from processor_api.clock import SystemClock
from processor_api.errors import StreamsError, TopologyError
from processor_api.record import HeaderList
from processor_api.serde import Serde
from processor_api.task_id import TopicPartition
from processor_api.topology.function import TopologyLike
from processor_api.user_code.durations import Duration, Timeout, Timestamp, to_ms, to_seconds, to_timestamp_ms
from processor_api.user_code.given_serdes import SerdeLike
from processor_api.user_code.open_types import K, V
from streams.app.kafka_streams import KafkaStreams
from streams.app.states import ClientState
from streams.config import StreamsConfig
from streams.kafka.ports import AT_BEGINNING, Consumer
from streams.testing.broker import EmbeddedBroker, EmbeddedClients
from streams.testing.known_topics import IN, KnownTopics, other_serde
from streams.testing.settings import nearest, with_defaults
from streams.testing.topics import TestInputTopic, TestRecord, read_parts

READ_S = 30
START_S = 30
CLOSE_S = 30
COMMIT_INTERVAL_MS = 50
"""Results show only when they are committed, and a test waits for them."""


class EmbeddedKafka:
    """A Kafka cluster in memory for one test. It is a context manager; closing it stops its applications.

    :param directory: where applications keep their state; a temporary one if not given.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self.broker = EmbeddedBroker()
        self.clients = EmbeddedClients(self.broker)
        self.applications: list[KafkaStreams] = []
        """The applications that :meth:`start` started, in order."""
        self._clock = SystemClock()
        self._opened = ExitStack()
        self._readers: dict[str, Consumer] = {}
        self._producer = self.clients.producer({})
        self._directory = directory
        if directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="streams-kafka-"))
            self._opened.callback(shutil.rmtree, self._directory, ignore_errors=True)

    def create_topics(self, *names: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        """Creates topics; those that exist are left as they are.

        :raises StreamsError: if a name, the number or a setting is not one that Kafka takes.
        """
        for name in names:
            self.broker.create_topic(name, partitions, configs)

    # ------------------------------------------------------------------ records

    def create_input_topic(
        self,
        topic: str,
        key_serde: SerdeLike[K] | None = None,
        value_serde: SerdeLike[V] | None = None,
        *,
        start_timestamp: Timestamp | None = None,
        auto_advance: Duration = 0,
    ) -> TestInputTopic[K, V]:
        """Returns a writer of typed records to a topic, which is created if there is none.

        The key decides on the partition. Serdes not given are those of the application that reads the topic, if it was
        started here before, otherwise strings. A serde without a schema registry gets that of the application.

        :param start_timestamp: the timestamp of the first record: integer milliseconds since 1970, or a ``datetime``
            with a time zone; now if not given.
        :param auto_advance: how much later each following record is: a ``timedelta`` or integer milliseconds.
        :raises TopologyError: if the topic does not exist and no application reads it, but one with a similar name.
        """
        if topic not in self.broker.topics:
            self._check_read(topic)
        key, value = self._serdes(topic, key_serde, value_serde, IN)
        self.create_topics(topic)
        start = (
            self._clock.time_ms() if start_timestamp is None else to_timestamp_ms(start_timestamp, "start_timestamp")
        )
        return TestInputTopic(self.produce, topic, key, value, start, to_ms(auto_advance, "auto_advance"))

    def _check_read(self, topic: str) -> None:
        known = self._known()
        if known and not any(one.knows(topic) for one in known):
            hint = nearest(topic, {name for one in known for name in one.read_names()})
            if hint.startswith("; did you mean"):
                raise TopologyError(
                    f"no application that was started here reads topic {topic!r}{hint} Otherwise create it with"
                    " create_topics",
                    topic=topic,
                )

    def _known(self) -> list[KnownTopics]:
        return [KnownTopics(one.topology, one.config) for one in self.applications]

    def _serdes(
        self, topic: str, key: SerdeLike[Any] | None, value: SerdeLike[Any] | None, call: str
    ) -> tuple[Serde[Any], Serde[Any]]:
        """Returns the serdes given, otherwise those of the application that has the topic, otherwise strings."""
        known = self._known()
        owner = next((one for one in known if one.knows(topic)), None)
        owner = owner or next((one for one in known if one.writes(topic)), None)
        if owner is not None:
            return owner.serdes(topic, key, value, call)
        registry = next(filter(None, (one.registry() for one in known)), None)
        return other_serde(topic, "key_serde", key, registry), other_serde(topic, "value_serde", value, registry)

    def produce(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp: int, headers: HeaderList | None = None
    ) -> None:
        """Writes one record of bytes.

        :raises StreamsError: if there is no such topic, or it refuses the record.
        """
        self.broker.topic(topic)
        refused: list[Any] = []
        self._producer.produce(topic, value, key, -1, lambda error, _: refused.append(error), None, timestamp, headers)
        self._producer.flush()
        if refused != [None]:
            self._producer.refused(RuntimeError(str(refused[0])), topic)

    def read_records(
        self,
        topic: str,
        count: int,
        key_serde: SerdeLike[K] | None = None,
        value_serde: SerdeLike[V] | None = None,
        *,
        timeout: Timeout = READ_S,
    ) -> list[TestRecord[K, V]]:
        """Waits for the next ``count`` committed records of a topic that were not read here yet.

        Serdes not given are those of the application that writes the topic, if it was started here, otherwise strings.
        A serde without a schema registry gets that of the application.

        :param timeout: a ``timedelta`` or seconds.
        :raises TimeoutError: if they do not come in time; those that did come count as read.
        :raises StreamsError: the error that ended an application.
        """
        consumer = self._reader(topic)
        key, value = self._serdes(topic, key_serde, value_serde, "read_records")
        timeout_s = to_seconds(timeout, "timeout")
        deadline_s = self._clock.monotonic() + timeout_s
        found: list[TestRecord[K, V]] = []
        while len(found) < count:
            message = consumer.poll(0.05)
            if message is not None:
                record = TestRecord(None, None, message.timestamp()[1], message.headers())
                read_parts(record, topic, (key, message.key()), (value, message.value()), "read_records")
                found.append(record)
                continue
            self._raise_failure()
            if self._clock.monotonic() > deadline_s:
                states = ", ".join(f"{app.config.application_id} is {app.state}" for app in self.applications)
                raise TimeoutError(
                    f"{len(found)} of {count} records of topic {topic!r} came in {timeout_s:g} s: {found};"
                    f" {states or 'no application was started here'}"
                )
        return found

    def _reader(self, topic: str) -> Consumer:
        reader = self._readers.get(topic)
        if reader is None:
            if topic not in self.broker.topics:
                raise StreamsError(
                    f"topic {topic!r} does not exist{nearest(topic, self.broker.topics)} Create a topic with"
                    " create_topics",
                    topic=topic,
                )
            count = len(self.broker.topic(topic).partitions)
            reader = self._readers[topic] = self.clients.consumer({"isolation.level": "read_committed"})
            self._opened.callback(reader.close)
            reader.assign({TopicPartition(topic, number): AT_BEGINNING for number in range(count)})
        return reader

    def _raise_failure(self) -> None:
        for application in self.applications:
            if application.failure is not None:
                raise application.failure

    # ------------------------------------------------------------------ applications

    def start(
        self, topology: TopologyLike, config: StreamsConfig | Mapping[str, Any] | None = None, *, wait: bool = True
    ) -> KafkaStreams:
        """Starts an application on this broker. Unless settings say otherwise it commits often, and keeps its state
        below this cluster's directory, where one started later with the same ``application.id`` finds it.

        :param wait: until it is running.
        :raises StreamsError: the error of the application, if it does not reach RUNNING.
        """
        if not isinstance(config, StreamsConfig):
            own = {"state_dir": str(self._directory), "commit_interval_ms": COMMIT_INTERVAL_MS}
            config = StreamsConfig.of(with_defaults(config, **own))
        application = KafkaStreams(topology, config, clients=self.clients)
        self.applications.append(application)
        self._opened.callback(application.close, CLOSE_S)
        application.start()
        if wait and not application.wait(START_S, state=ClientState.RUNNING):
            self._raise_failure()
            raise TimeoutError(f"the application is {application.state} after {START_S} s, not RUNNING")
        return application

    def close(self) -> None:
        """Stops the applications, the newest first."""
        self._opened.close()

    def __enter__(self) -> EmbeddedKafka:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
