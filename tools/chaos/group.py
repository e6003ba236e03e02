"""Asks the brokers of a run: how far its group has read, and which of them lead partitions."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    OffsetSpec,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic

from tools.chaos.cluster import SESSION_S
from tools.chaos.patience import wait_for

__all__ = ["Group", "Offsets"]

ASK_S = 5.0
Offsets = Mapping[tuple[str, int], int]


class Group:
    """One application's topics and offsets. Requests that fail, as those to a frozen broker, are made again later."""

    def __init__(self, bootstrap: str, application: str, topics: Iterable[str], partitions: int) -> None:
        self.application = application
        self.bootstrap = bootstrap
        self._partitions = partitions
        self._inputs = [(name, number) for name in topics for number in range(partitions)]
        self._admin = self._new_admin()
        self._former: list[AdminClient] = []
        self._lock = threading.Lock()
        self._reader: Consumer | None = None

    def _new_admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0, "socket.timeout.ms": 5000})

    def create_topics(self, names: Iterable[str], standbys: int) -> None:
        """Creates topics and, if it is not 0, sets how many copies a group of the streams protocol has of a task."""
        made = self._admin.create_topics([NewTopic(name, self._partitions, 3) for name in names])
        for future in made.values():
            future.result(60)
        if standbys:
            entry = ConfigEntry(
                "streams.num.standby.replicas", str(standbys), incremental_operation=AlterConfigOpType.SET
            )
            resource = ConfigResource(ResourceType.GROUP, self.application, incremental_configs=[entry])
            for future in self._admin.incremental_alter_configs([resource]).values():
                future.result(60)

    def make_again(self, name: str) -> bool:
        """Deletes a topic and creates it with the same settings; returns whether the new one is empty and its own."""
        resource = ConfigResource(ResourceType.TOPIC, name)
        entries = self._admin.describe_configs([resource])[resource].result(60).values()
        settings = {one.name: one.value for one in entries if not one.is_default}
        self._admin.delete_topics([name], operation_timeout=30)[name].result(60)

        def is_made() -> bool:
            try:
                self._admin.create_topics([NewTopic(name, self._partitions, 3, config=settings)])[name].result(60)
            except KafkaException as error:
                # A worker that writes to it may be faster.
                return bool(error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS)
            return True

        return wait_for(is_made)

    def delete_topics(self, prefix: str) -> None:
        """Deletes all topics with names like that, if the brokers do it now."""
        for future in self._admin.delete_topics(self.topics(prefix), operation_timeout=30).values():
            try:
                future.result(60)
            except KafkaException as error:
                print(f"  a topic is not deleted: {error}", flush=True)

    def topics(self, prefix: str) -> list[str]:
        return [name for name in self._admin.list_topics(timeout=60).topics if name.startswith(prefix)]

    def _committed(self, partitions: Iterable[tuple[str, int]]) -> Offsets | None:
        """Returns the group's committed offsets, or None if they are not known now.

        They are asked for by a reader that joins nothing: an admin client ends the process (librdkafka 2.16) if the
        coordinator moves. One that has lost its coordinator may not find the next one, so another takes its place.
        """
        asked = [TopicPartition(*one) for one in partitions]
        with self._lock:
            if self._reader is None:
                settings = {"bootstrap.servers": self.bootstrap, "log_level": 0, "group.id": self.application}
                self._reader = Consumer(settings)
            try:
                found = self._reader.committed(asked, ASK_S)
            except KafkaException:
                found = None
            if found is None or any(one.error is not None for one in found):
                self._reader.close()
                self._reader = None
                return None
        return {(one.topic, one.partition): one.offset for one in found if one.offset >= 0}

    def ends(self) -> Offsets | None:
        """Returns the ends of the input topics, or None if they are not known now."""
        asked = {TopicPartition(*one): OffsetSpec.latest() for one in self._inputs}
        try:
            futures = self._admin.list_offsets(asked, request_timeout=ASK_S)
            return {(one.topic, one.partition): found.result(2 * ASK_S).offset for one, found in futures.items()}
        except (KafkaException, TimeoutError):
            # The client may ask for ever where a leader was. It is not freed, because it may wait for an answer:
            # librdkafka then aborts the process.
            self._former.append(self._admin)
            self._admin = self._new_admin()
            return None

    def read(self) -> int | None:
        """Returns how many records of the input the group has read, or None if that is not known now."""
        committed = self._committed(self._inputs)
        return None if committed is None else sum(committed.values())

    def has_passed(self, offsets: Offsets) -> bool:
        """Whether the group has committed these offsets or later ones."""
        committed = self._committed(offsets)
        return committed is not None and all(committed.get(one, 0) >= offset for one, offset in offsets.items())

    def takes_over(self) -> bool:
        """Waits until a session is over and all that was in the input before is read; returns whether it is."""
        marks: Offsets | None = None

        def is_over() -> bool:
            nonlocal marks
            marks = marks or self.ends()
            return marks is not None and time.monotonic() - began > SESSION_S and self.has_passed(marks)

        began = time.monotonic()
        return wait_for(is_over, progress=self.read, what="others have not taken over yet")

    def leads(self, node: int) -> bool:
        """Whether a broker leads partitions, as far as is known now."""
        try:
            topics = self._admin.list_topics(timeout=ASK_S).topics.values()
        except KafkaException:
            return True
        return any(one.leader == node for topic in topics for one in topic.partitions.values())
