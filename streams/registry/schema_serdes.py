"""The serdes that users give: Avro, JSON Schema and Protobuf, each with its registry and its options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from functools import partial
from typing import Any, Generic, SupportsIndex, TypeVar, overload

from processor_api.errors import ConfigError
from processor_api.serde import Serde, Serdes
from processor_api.texts import repr_of
from processor_api.user_code.given_values import is_of
from streams.registry.bound import ID_MAGIC, ID_SIZE, BoundSerde, HeaderBoundSerde, SchemaFormat, Subject
from streams.registry.schema_registry import SchemaRegistry
from streams.registry.schemas import AVRO, JSON, NoRegistry, NotInRegistry, SchemaError, SchemaReference, TopicPart
from streams.registry.settings import DEFAULTS, OF_SERDES, read_settings
from streams.schemas.avro_models import AvroType as AvroType

T = TypeVar("T")


class SchemaSerde(Serde[T], Generic[T]):
    """A serde whose schemas are in a registry. It reads and writes once it is bound to a topic."""

    __slots__ = ("_format", "model", "options", "registry", "schema_options")

    kind: str
    _format: SchemaFormat

    def __init__(
        self, model: Any, registry: SchemaRegistry | None, options: Mapping[str, Any], **schema_options: Any
    ) -> None:
        if model is not None and not isinstance(model, type) and type(model).__module__ not in ("typing", "types"):
            raise ConfigError(f"the model of a serde must be a class or a type such as list[int], got {repr_of(model)}")
        if registry is not None and not is_of(registry, SchemaRegistry):
            raise ConfigError(f"registry= must be a SchemaRegistry, got {repr_of(registry)}")
        self.model, self.registry, self.options = model, registry, read_settings(options)
        if foreign := [name for name in self.options if name not in OF_SERDES]:
            raise ConfigError(f"{foreign[0]} is a setting of the registry: give it to SchemaRegistry")
        self.schema_options = {name: one for name, one in schema_options.items() if one is not None}
        name = self.kind if model is None else f"{self.kind} {getattr(model, '__name__', model)}"
        super().__init__(self._not_bound, self._not_bound, name=name)

    def _not_bound(self, anything: Any) -> Any:
        raise SchemaError(f"{self.name}: call bind(topic, is_key=...) first, because its schemas belong to a topic")

    def options_given(self) -> dict[str, Any]:
        """Returns the arguments that this serde was made with, but for model and registry."""
        return {**{name.replace(".", "_"): value for name, value in self.options.items()}, **self.schema_options}

    def settings(self) -> dict[str, Any]:
        """Returns the settings in effect, under their dotted names."""
        return {**DEFAULTS, **(self.registry.settings if self.registry is not None else {}), **self.options}

    def with_default(self, default: Serde[Any]) -> Serde[T]:
        registry = getattr(default, "registry", None)
        if self.registry is not None or registry is None:
            return self
        made = copy(self)
        made.registry = registry
        return made

    def format(self) -> SchemaFormat:
        """Returns how values are written with a schema."""
        return self._format

    def bind(self, topic: str, *, is_key: bool) -> Serde[T]:
        """Returns the serde for one topic.

        :raises NoRegistry: if there is no registry.
        :raises ConfigError: if the schema is none of a key.
        """
        if self.registry is None:
            how = "set schema.registry.url, or give schema_registry= to StreamsBuilder or registry= to the serde"
            raise NoRegistry(
                f"the serde {self.name!r} of topic {topic!r} does not have a schema registry: {how}; mock://test as the"
                " URL is one in memory, for tests",
                topic=topic,
            )
        subject = Subject(self.name, self.format(), self.registry, self.settings(), TopicPart(topic, is_key))
        return (HeaderBoundSerde if subject.settings["schema.ids"] == "header" else BoundSerde)(subject, self.bind)

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        return partial(type(self), self.model, registry=self.registry, **self.options_given()), ()


def _references(given: Iterable[Any]) -> tuple[SchemaReference, ...]:
    if not isinstance(given, (list, tuple)):
        raise ConfigError(f"references must be a list of (name, subject, version), got {repr_of(given)}")
    for one in given:
        if not isinstance(one, (list, tuple)) or (*map(type, one),) != (str, str, int):
            raise ConfigError(f"a reference must be (name, subject, version), got {repr_of(one)}")
    return tuple(SchemaReference(*one) for one in given)


class Avro(SchemaSerde[T]):
    """Avro records, with their schemas in a registry.

    ::

        from dataclasses import dataclass

        from streams import Avro, SchemaRegistry, StreamsBuilder

        @dataclass
        class Order:
            customer: str
            cents: int

        builder = StreamsBuilder(key_serde="string", schema_registry=SchemaRegistry("mock://shop"))
        orders = builder.stream("orders", value_serde=Avro(Order))
        big = orders.filter(lambda _, order: order.cents > 10_000)
        big.to("big-orders", value_serde=Avro(Order))

    :param model: a dataclass, a model of pydantic, or another type with an Avro type; the schema is made from it.
        ``None`` reads dicts, and writes them with the schema they were read with, or the latest of the subject.
    :param schema: the schema instead of the model's: a dict, a list, JSON, or the path of an ``.avsc`` file.
    :param name: the full name of the model's record, as Java has it: ``com.shop.Order``.
    :param references: schemas that ``schema`` uses, each ``(full name, subject, version)``.
    :param registry: ``None`` takes that of the builder, or of the settings of the application.
    :param options: settings for this serde alone, such as ``use_latest_version=True``.
    :raises ConfigError: if a field has no Avro type, the schema is none, or an option is unknown.
    """

    __slots__ = ()

    kind = "avro"

    @overload
    def __init__(
        self,
        model: type[T],
        *,
        schema: Any = None,
        name: str | None = None,
        references: Iterable[Any] = (),
        registry: SchemaRegistry | None = None,
        **options: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: Avro[Any],
        model: None = None,
        *,
        schema: Any = None,
        name: str | None = None,
        references: Iterable[Any] = (),
        registry: SchemaRegistry | None = None,
        **options: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: Avro[object],
        model: object,
        *,
        schema: Any = None,
        name: str | None = None,
        references: Iterable[Any] = (),
        registry: SchemaRegistry | None = None,
        **options: Any,
    ) -> None: ...
    def __init__(
        self,
        model: Any = None,
        *,
        schema: Any = None,
        name: str | None = None,
        references: Iterable[Any] = (),
        registry: SchemaRegistry | None = None,
        **options: Any,
    ) -> None:
        super().__init__(model, registry, options, schema=schema, name=name, references=_references(references) or None)
        from streams.registry.avro import AvroFormat

        self._format = AvroFormat(model, **self.schema_options)


class JsonSchema(SchemaSerde[T]):
    """JSON, with its JSON Schemas in a registry.

    ::

        from pydantic import BaseModel

        from streams import JsonSchema, SchemaRegistry, StreamsBuilder

        class Order(BaseModel):
            customer: str
            cents: int

        builder = StreamsBuilder(key_serde="string", schema_registry=SchemaRegistry("mock://shop"))
        orders = builder.stream("orders", value_serde=JsonSchema(Order))

    What is read is validated by the model, and not by the schema that it was written with; without a model nothing is,
    as in Java unless ``json.fail.invalid.schema`` is set.

    :param model: a model of pydantic or a dataclass; the schema is made from it. ``None`` reads and writes what JSON
        has.
    :param schema: the schema instead of the model's, as JSON or a dict; without it and a model, values are written
        with the latest of the subject.
    :param references: schemas that ``schema`` uses, each ``(name in $ref, subject, version)``.
    :param registry: ``None`` takes that of the builder, or of the settings of the application.
    :param options: settings for this serde alone, such as ``use_latest_version=True``.
    :raises ConfigError: if the schema is none, or an option is unknown.
    :raises TypeError: if pydantic can make nothing of the model.
    """

    __slots__ = ()

    kind = "json schema"

    @overload
    def __init__(
        self,
        model: type[T],
        *,
        schema: Any = None,
        references: Iterable[Any] = (),
        registry: SchemaRegistry | None = None,
        **options: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: JsonSchema[Any],
        model: None = None,
        *,
        schema: Any = None,
        references: Iterable[Any] = (),
        registry: SchemaRegistry | None = None,
        **options: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: JsonSchema[object],
        model: object,
        *,
        schema: Any = None,
        references: Iterable[Any] = (),
        registry: SchemaRegistry | None = None,
        **options: Any,
    ) -> None: ...
    def __init__(
        self,
        model: Any = None,
        *,
        schema: Any = None,
        references: Iterable[Any] = (),
        registry: SchemaRegistry | None = None,
        **options: Any,
    ) -> None:
        super().__init__(model, registry, options, schema=schema, references=_references(references) or None)
        from streams.registry.json_schema import JsonSchemaFormat

        self._format = JsonSchemaFormat(model, **self.schema_options)


class Protobuf(SchemaSerde[T]):
    """Messages of a class that ``protoc`` has generated, with the source of their file in a registry.

    ::

        from google.protobuf.struct_pb2 import Struct

        from streams import Protobuf, SchemaRegistry

        orders = Protobuf(Struct, registry=SchemaRegistry("mock://shop")).bind("orders", is_key=False)
        assert orders.deserialize(orders.serialize(Struct())) == Struct()

    Files that the file imports are registered before it, each in the subject of its own name, as Java's serde does.

    :param model: the class.
    :param registry: ``None`` takes that of the builder, or of the settings of the application.
    :param options: settings for this serde alone, such as ``auto_register_schemas=False``.
    :raises ConfigError: if it is not such a class, or an option is unknown.
    """

    __slots__ = ()

    kind = "protobuf"

    def __init__(self, model: type[T], *, registry: SchemaRegistry | None = None, **options: Any) -> None:
        super().__init__(model, registry, options)
        from streams.registry.protobuf import ProtobufFormat

        self._format = ProtobufFormat(model)


class DetectedSerde(Serde[Any]):
    """The serde of a topic that nothing is known of, but that a registry has its schemas: read by the ids in the data.

    Avro and JSON Schema are read as dicts; anything else stays bytes, as Protobuf, which needs a class. Values are
    written with the latest schema of the topic's subject, and bytes as they are.
    """

    __slots__ = ("_registry", "_serdes", "_subject")

    def __init__(self, registry: SchemaRegistry, topic: str, *, is_key: bool) -> None:
        super().__init__(self._write, self._read, name="detected by id")
        self._registry = registry
        self._subject = f"{topic}-{TopicPart(topic, is_key).part}"
        made: dict[str, Serde[Any]] = {AVRO: Avro(registry=registry), JSON: JsonSchema(registry=registry)}
        self._serdes = {kind: serde.bind(topic, is_key=is_key) for kind, serde in made.items()}

    def to_json(self, value: Any) -> Any:
        return (Serdes.BYTES if isinstance(value, bytes) else self._serdes[AVRO]).to_json(value)

    def from_json(self, given: Any) -> Any:
        try:
            return self._latest().from_json(given)
        except NotInRegistry:
            return Serdes.BYTES.from_json(given)

    def _latest(self) -> Serde[Any]:
        kind = self._registry.client.latest(self._subject).schema.kind
        if kind not in self._serdes:
            raise SchemaError(
                f"subject {self._subject} has a schema of {kind}, which needs a class: give the application"
            )
        return self._serdes[kind]

    def _read(self, data: bytes) -> Any:
        if data[:1] != ID_MAGIC or len(data) < ID_SIZE:
            return data
        try:
            kind = self._registry.client.by_id(int.from_bytes(data[1:ID_SIZE], "big")).schema.kind
        except NotInRegistry:
            return data
        try:
            return self._serdes[kind].deserialize(data) if kind in self._serdes else data
        except SchemaError:  # a number, for instance, whose first bytes are like an id
            return data

    def _write(self, value: Any) -> bytes:
        return value if isinstance(value, bytes) else self._latest().serialize(value)
