"""The shared parts of the operators of foreign-key joins of tables: instructions, serdes of messages, partitioners.

A change of the left table goes as a subscription to the task of its foreign key, is kept there, and is answered with
the value of the right row; the answer goes back to the left row's task, where it is joined (semantics 66 to 69,
formats 12). The operators are in ``foreign_key_left`` and ``foreign_key_right``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dsl.processors.user_functions import user_function
from processor_api.context import OperatorContext
from processor_api.errors import ConfigError
from processor_api.record import HeaderList
from processor_api.serde import Serde, Serdes, WrappingSerde, json_part, part_of_json, with_default
from processor_api.texts import repr_of
from processor_api.topology.partitioner import StreamPartitioner
from state.formats.foreign_keys import read_response, response

DELETE_SILENTLY, DELETE_AND_ANSWER, ANSWER_ALWAYS, ANSWER_IF_FOUND = range(4)
"""Instructions of a subscription."""

Answer = tuple[bytes | None, Any, int | None]
"""The hash of the left value, the right value, and the partition of the left task; read back without the last."""


class AnswerSerde(WrappingSerde[Any]):
    """The serde of answers to subscriptions.

    :param inner: the serde of the right table's values; ``None`` is the application's default.
    """

    __slots__ = ()

    def __init__(self, inner: Serde[Any] | None) -> None:
        self.inner = inner
        name = "answer" if inner is None else f"answer with {inner.name}"
        super().__init__(self._write, self._read, name=name)

    @property
    def form(self) -> str:
        """The name of formats 12."""
        return "answer"

    def to_json(self, value: Answer) -> Any:
        """Returns an object with the hash of the left value and the right value."""
        return {"hash": json_part(Serdes.BYTES, value[0]), "value": json_part(self._known(), value[1])}

    def from_json(self, given: Any) -> tuple[bytes | None, Any]:
        return part_of_json(Serdes.BYTES, given["hash"]), part_of_json(self._known(), given["value"])

    def _write(self, answer: Answer) -> bytes:
        value = answer[1]
        return response(answer[0], None if value is None else self._known().serialize(value))

    def _read(self, data: bytes) -> tuple[bytes | None, Any]:
        hash_, value = read_response(data)
        return hash_, None if value is None else self._known().deserialize(value)

    def _known(self) -> Serde[Any]:
        if self.inner is None:
            raise ValueError(
                "the values of the right table do not have a serde: give table(..., value_serde=...), or set"
                " default.value.serde"
            )
        return self.inner


@dataclass(frozen=True)
class KeyPartitioner:
    """Chooses the partition of a message of the join by a user's partitioner, which gets its key and no value."""

    partitioner: StreamPartitioner = field(metadata=user_function("topic", "key", "value", "headers", "partitions"))

    def __call__(
        self, topic: str, key: Any, value: Any, headers: HeaderList | None, total: int
    ) -> Collection[int] | None:
        chosen = self.partitioner(topic, key, None, headers, total)
        if chosen is not None and len(chosen) != 1:
            raise ValueError(
                "a partitioner of a foreign-key join must return exactly one partition, or None for Kafka's default,"
                f" got {repr_of(chosen)}"
            )
        return chosen


class AnswerPartitioner:
    """Sends an answer to the partition that its subscription came from."""

    def __call__(
        self, topic: str, key: Any, value: Any, headers: HeaderList | None, total: int
    ) -> Collection[int] | None:
        # A subscription of an older version has none; its answer goes where its key does.
        partition = value[2]
        return None if partition is None else (partition,)


class InnerTopic(NamedTuple):
    """The topic whose name a serde inside of the join's messages is bound to."""

    topic: str
    """Its name, without the application's id."""
    is_key: bool
    whose: str
    """Whose keys or values they are, for errors."""


_INNER_TOPICS = {
    "key_serde": InnerTopic("-pk", True, "the left table"),
    "foreign_key_serde": InnerTopic("-fk", True, "the right table"),
    "value_serde": InnerTopic("-vh", False, "the left table"),
}
"""The endings of their names behind the topic of subscriptions. Kafka Streams has these names, of topics that are not
there, for serdes that depend on one (formats 12), and a registry has subjects of them."""


class OwnSerdes:
    """The base of the join's operators: the serdes with which they write and read keys and values inside of messages
    are the fields whose names end in ``_serde``."""

    topic: str

    def own_serdes(self) -> Mapping[str, Serde[Any] | None]:
        """Returns the serdes by the names of their fields (:class:`processor_api.processor.HasSerdes`)."""
        return {name: value for name, value in vars(self).items() if name.endswith("_serde")}

    def inner_topic(self, name: str) -> InnerTopic:
        """Returns the topic that a serde is bound to.

        :param name: the field's.
        """
        found = _INNER_TOPICS[name]
        return found._replace(topic=f"{self.topic}{found.topic}")

    def bound(self, context: OperatorContext, name: str) -> Serde[Any]:
        """Returns a serde, or the application's default one, bound to its topic.

        :param name: the field's.
        :raises ConfigError: if there is neither.
        """
        application, place = context.processing_context(), self.inner_topic(name)
        default = application.key_serde if place.is_key else application.value_serde
        serde = with_default(self.own_serdes()[name], default)
        if serde is None:
            part = "key" if place.is_key else "value"
            raise ConfigError(
                f"the foreign-key join at node {context.node!r} needs the {part} serde of {place.whose}, and the"
                f" application does not have a default: give table(..., {part}_serde=...), or set default.{part}.serde"
            )
        bound = serde.bind(f"{application.application_id}-{place.topic}", is_key=place.is_key)
        return context.handing_headers(bound.inside())
