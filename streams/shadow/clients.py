"""The clients of a shadow: an application that runs beside another one, and whose results go elsewhere.

Only the clients are aware of it: tasks, stores and topology are those that will run without it
(docs/decisions/command-line-and-settings.md, "A live shadow is an application with other clients").
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any

from processor_api.clock import Clock
from processor_api.errors import RetryableError
from processor_api.topology.topology import Topology
from streams.config import StreamsConfig
from streams.config import clients as client_configs
from streams.kafka.own_names import shadow_topic
from streams.kafka.ports import Admin, Consumer, KafkaClients, NewTopic, Producer, UnknownTopicError
from streams.kafka.topics.application import application_topics, topology_sources
from streams.log import RepeatedLines
from streams.shadow.limited_inputs import FollowedGroup, LimitedConsumer, Limits

log = logging.getLogger("streams.shadow")

TOPICS = "topics"
"""The value of ``shadow.sinks`` by which results go to shadow topics."""
_MADE_AS = ("cleanup.policy", "max.message.bytes", "message.timestamp.type", "retention.bytes", "retention.ms")
"""Settings of an output topic that its shadow topic has."""


class ShadowTopics:
    """Makes the shadow topics of an application.

    :param shadow: its application id.
    :param admin: makes an admin client, which is closed after each use: that is seldom.
    """

    def __init__(self, shadow: str, admin: Callable[[], Admin], replication_factor: int) -> None:
        self._shadow, self._admin, self._replication_factor = shadow, admin, replication_factor

    def make(self, topic: str, partitions: int) -> str:
        """Makes the shadow topic of an output topic, or gives it more partitions; returns its name."""
        name, admin = shadow_topic(self._shadow, topic), self._admin()
        try:
            existing = admin.topics([name])
            if name in existing:
                admin.add_partitions(name, partitions)
                return name
            settings = admin.topic_settings([topic]).get(topic, {})
            kept = {one: settings[one] for one in _MADE_AS if one in settings}
            made = NewTopic(name=name, partitions=partitions, replication_factor=self._replication_factor, configs=kept)
            admin.create_topics([made])
            log.info("shadow topic made", extra={"topic": name})
            return name
        finally:
            admin.close()


class ShadowProducer:
    """A producer that writes results to shadow topics, or nowhere; what the application writes for itself goes where it
    belongs.

    A shadow topic has as many partitions as the output topic, and its records have the partitions that they would have
    there.

    :param own: the topics that the application writes for itself.
    :param topics: makes the shadow topics; ``None`` writes nowhere.
    """

    def __init__(self, producer: Producer, own: Collection[str], topics: ShadowTopics | None) -> None:
        self._producer, self._topics = producer, topics
        self._names: dict[str, str] = {topic: topic for topic in own}
        self.produce = self._redirected(producer.produce)
        self.produce_plain = self._redirected(producer.produce_plain)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def _redirected(self, produce: Callable[..., None]) -> Callable[..., None]:
        names = self._names

        def redirected(topic: str, *record: Any) -> None:
            name = names.get(topic)
            if name is None:
                if self._topics is None:
                    return
                name = self._named(topic)
            produce(name, *record)

        return redirected

    def _named(self, topic: str) -> str:
        assert self._topics is not None
        try:
            count = self._producer.partition_count(topic)
        except UnknownTopicError as error:
            raise RetryableError(
                f"topic {topic!r} does not exist, so its shadow topic cannot be created with the same settings: create"
                " it",
                topic=topic,
            ) from error
        self._names[topic] = self._topics.make(topic, count)
        return self._names[topic]

    def prepare(self, topics: Collection[str]) -> None:
        """Makes the shadow topics of those output topics that exist."""
        found = []
        for topic in topics:
            if topic in self._names:
                found.append(self._names[topic])
            elif self._topics is not None:
                try:
                    found.append(self._named(topic))
                except RetryableError as error:
                    log.warning("no shadow topic yet", extra={"topic": topic, "error": error.message})
        self._producer.prepare(found)


class ShadowClients:
    """Makes the clients of a shadow: those of another maker, with limited inputs and results that go elsewhere.

    :param limits: makes what says how far inputs may be read.
    :param results: makes a producer's place for results of that producer; ``None`` leaves them where they belong.
    """

    def __init__(
        self,
        clients: KafkaClients,
        clock: Clock,
        limits: Callable[[], Limits],
        results: Callable[[Producer], Producer] | None,
    ) -> None:
        self._clients, self._clock, self._limits, self._results = clients, clock, limits, results

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clients, name)

    def consumer(self, config: Mapping[str, Any]) -> Consumer:
        """Makes a consumer, with limits if it is the one that reads the inputs."""
        made: Any = self._clients.consumer(config)
        if client_configs.reads_inputs(config):
            made = LimitedConsumer(made, self._limits(), self._clock)
        return made  # type: ignore[no-any-return]

    def producer(self, config: Mapping[str, Any]) -> Producer:
        """Makes a producer whose results go elsewhere."""
        made = self._clients.producer(config)
        return made if self._results is None else self._results(made)


def as_shadow(clients: KafkaClients, topology: Topology, config: StreamsConfig, clock: Clock) -> KafkaClients:
    """Returns the clients of an application, which are those of a shadow if its settings say so (``shadow.of``)."""
    followed, results = config.shadow_of, config.shadow_sinks
    if followed is None:
        return clients

    log.info(
        "a shadow: inputs are read as far as another application has committed them",
        extra={"of": followed, "results": results},
    )

    def limits() -> Limits:
        admin = clients.admin(client_configs.admin(config, f"{config.application_id}-shadow"))
        return FollowedGroup(admin, followed, own, topology_sources(topology), RepeatedLines(log, clock))

    own = own_topics(topology, config)
    made: Any = ShadowClients(clients, clock, limits, _results(clients, own, config))
    return made  # type: ignore[no-any-return]


def up_to(
    limits: Limits, clients: KafkaClients, topology: Topology, config: StreamsConfig, clock: Clock, *, shadowed: bool
) -> KafkaClients:
    """Returns the clients of an application that reads its inputs up to some offsets.

    :param config: its settings, without ``shadow.of``.
    :param shadowed: whether its results go where ``shadow.sinks`` says, and not where they belong.
    """
    results = _results(clients, own_topics(topology, config), config) if shadowed else None
    made: Any = ShadowClients(clients, clock, lambda: limits, results)
    return made  # type: ignore[no-any-return]


def own_topics(topology: Topology, config: StreamsConfig) -> frozenset[str]:
    """Returns the topics that an application makes and writes for itself."""
    return frozenset(one.name for one in application_topics(topology, config.dotted(), {}) if not one.is_external)


def _results(clients: KafkaClients, own: Collection[str], config: StreamsConfig) -> Callable[[Producer], Any]:
    shadow = config.application_id
    settings = client_configs.admin(config, f"{shadow}-shadow-topics")
    topics = ShadowTopics(shadow, lambda: clients.admin(settings), config.replication_factor)
    return lambda producer: ShadowProducer(producer, own, topics if config.shadow_sinks == TOPICS else None)
