"""A serde of schemas at work on one topic: ids in front of the data, and the functions of each schema.

What is known is a look-up by the bytes in front of the data. Everything else happens once for each schema: the subject
is found, the schema registered or looked up, and its reader or writer made.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, SupportsIndex

from processor_api.serde import Serde
from processor_api.texts import plain_str
from streams.registry.schema_registry import SchemaRegistry
from streams.registry.schemas import Registered, SchemaError, SchemaText, TopicPart
from streams.registry.settings import ASSOCIATED, TOPIC, TOPIC_RECORD

if TYPE_CHECKING:
    from streams.registry.client import RegistryClient

ID_MAGIC, GUID_MAGIC = b"\x00", b"\x01"
ID_SIZE, GUID_SIZE = 5, 17
"""The bytes in front of the data: a magic byte, and an id of four bytes or a GUID."""

Read = Callable[[bytes], Any]
Write = Callable[[Any], bytes]


class BoundSerde(Serde[Any]):
    """A serde of schemas that is bound to a topic.

    :param bind: binds it to another topic.
    :raises SchemaError: if its schema is none of a key, and the topic's part is the key.
    """

    __slots__ = ("_bind", "subject")

    def __init__(self, subject: Subject, bind: Callable[..., Serde[Any]]) -> None:
        if subject.place.is_key and subject.format.own is not None:
            subject.format.check_key(subject.format.own)
        super().__init__(writing(subject), reading(subject), name=subject.name)
        self.subject = subject
        self._bind = bind

    def bind(self, topic: str, *, is_key: bool) -> Serde[Any]:
        """Returns the same serde for another topic."""
        return self._bind(topic, is_key=is_key)

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        return _bound_again, (self._bind, self.subject.place)


def _bound_again(bind: Callable[..., Serde[Any]], place: TopicPart) -> Serde[Any]:
    return bind(place.topic, is_key=place.is_key)


class Subject:
    """The subject of a serde's schemas for one topic, and how they get into the registry.

    :param name: of the serde, for errors.
    :param settings: of the serde, under their dotted names.
    """

    def __init__(
        self, name: str, form: Any, registry: SchemaRegistry, settings: Mapping[str, Any], place: TopicPart
    ) -> None:
        self.format = form
        self.place = place
        self.name = name
        self._registry = registry
        own = f"{place.part}.subject.name.strategy"
        self._strategy: str = settings.get(own, settings.get("subject.name.strategy", ASSOCIATED))
        self._auto_register: bool = settings.get("auto.register.schemas", True)
        self._use_latest: bool = settings.get("use.latest.version", False)
        self._normalize: bool = settings.get("normalize.schemas", False)

    @property
    def client(self) -> RegistryClient:
        """The client of the process that asks."""
        return self._registry.client

    @property
    def expected(self) -> str:
        """The subject of the topic, for errors."""
        return f"{self.place.topic}-{self.place.part}"

    def of(self, schema: SchemaText | None) -> str:
        """Returns the subject of a schema.

        :param schema: ``None`` if it is the latest of the subject, and not known yet.
        :raises SchemaError: if the subject is that of a record's name, and there is no schema.
        """
        strategy = self._strategy
        if strategy == ASSOCIATED:
            return self.client.associated(self.place) or self.expected
        if strategy == TOPIC:
            return self.expected
        if schema is None:
            raise SchemaError(
                f"{self.name}: a subject by the name of the record needs a schema: give the serde a model or schema="
            )
        record = self.format.record_name(schema)
        return f"{self.place.topic}-{record}" if strategy == TOPIC_RECORD else record

    def registered(self, schema: SchemaText | None) -> Registered:
        """Returns the schema that values are written with, with its id.

        :param schema: theirs; ``None`` if they bring none along.
        :raises SchemaError: if it is not in the registry and may not be registered, or the registry refuses it.
        """
        subject, client = self.of(schema), self.client
        if self._use_latest or schema is None:
            return client.latest(subject)
        schema = self.format.with_references(schema, client, register=self._auto_register)
        if self._auto_register:
            return client.register(subject, schema, normalize=self._normalize)
        from streams.registry.client import NotInRegistry

        try:
            return client.lookup(subject, schema, normalize=self._normalize)
        except NotInRegistry as error:
            raise SchemaError(
                f"{error}; register it there, or set auto.register.schemas=true, or use.latest.version=true"
            ) from error

    def failure(self, error: BaseException, what: str) -> SchemaError:
        """Returns the error of a record, with what is known of it."""
        text = plain_str(error)
        if not isinstance(error, SchemaError):
            text = f"{type(error).__name__}: {text}" if text else type(error).__name__
        return SchemaError(f"{self.name}, {what}: {text}")


class Writers:
    """The functions that write values, one for each schema, made when it is first needed."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._known: dict[int, tuple[SchemaText | None, Write, str]] = {}
        """Functions by the identity of the schema, which stands beside it so that it lives as long."""

    def of(self, schema: SchemaText | None) -> tuple[SchemaText | None, Write, str]:
        """Returns the function for a schema, and its id and subject for errors.

        :raises SchemaError: if the schema is not to be had.
        """
        found = self._known.get(id(schema))
        return found if found is not None else self._known.setdefault(id(schema), (schema, *self._made(schema)))

    def _made(self, schema: SchemaText | None) -> tuple[Write, str]:
        subject = self._subject
        try:
            if schema is not None and subject.place.is_key:
                subject.format.check_key(schema)
            registered = subject.registered(schema)
            what = f"schema id {registered.id} of subject {registered.subject or subject.of(schema)}"
            prefix = ID_MAGIC + registered.id.to_bytes(4, "big") + subject.format.frame(registered.schema)
            return subject.format.writer(registered.schema, subject.client, prefix), what
        except Exception as error:
            raise subject.failure(error, f"writing {subject.place}") from error


def writing(subject: Subject) -> Write:
    """Returns the function from a value to bytes behind the id of its schema.

    It raises `SchemaError` if the value does not fit its schema, or that cannot be registered.
    """
    writers, own, schema_of_value = Writers(subject), subject.format.own, subject.format.schema_of_value
    write_own: Write | None = None
    what = ""

    def write(value: Any) -> bytes:
        nonlocal write_own, what
        if write_own is None:
            _, write_own, what = writers.of(own)
        try:
            return write_own(value)
        except Exception as error:
            raise subject.failure(error, what) from error

    def write_by_value(value: Any) -> bytes:
        _, write, what = writers.of(schema_of_value(value))
        try:
            return write(value)
        except Exception as error:
            raise subject.failure(error, what) from error

    return write if own is not None else write_by_value


class Readers:
    """The functions that read data, one for each id, made when it is first met."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self.by_id: dict[bytes, Read] = {}
        """Functions by the bytes in front of the data."""
        self._by_guid: dict[bytes, Read] = {}

    def of(self, data: bytes) -> Read:
        """Returns the function for data.

        :raises SchemaError: if they have no id, or the schema is not to be had.
        """
        magic = data[:1]
        if magic == ID_MAGIC and len(data) >= ID_SIZE:
            known, size = self.by_id, ID_SIZE
        elif magic == GUID_MAGIC and len(data) >= GUID_SIZE:
            known, size = self._by_guid, GUID_SIZE
        else:
            raise self._subject.failure(
                SchemaError(
                    f"{len(data)} bytes that begin with {data[:4].hex() or 'nothing'} have no id of a schema: the first"
                    " byte would be 0 or 1"
                ),
                f"reading {self._subject.place}",
            )
        prefix = data[:size]
        found = known.get(prefix)
        if found is None:
            found = known[prefix] = self._made(prefix, size)
        return found

    def _made(self, prefix: bytes, size: int) -> Read:
        subject, client = self._subject, self._subject.client
        try:
            if size == GUID_SIZE:
                registered = client.by_guid(str(uuid.UUID(bytes=prefix[1:])))
            else:
                registered = client.by_id(int.from_bytes(prefix[1:], "big"))
            if registered.schema.kind != subject.format.kind:
                raise SchemaError(f"it is a schema of {registered.schema.kind}, and not of {subject.format.kind}")
            read: Read = subject.format.reader(registered, client, size)
        except Exception as error:
            raise subject.failure(error, f"reading {subject.place} with {self.what(prefix)}") from error
        return read

    def what(self, data: bytes) -> str:
        """Returns the id of data, and the subject where it is expected, for errors."""
        is_guid = data[:1] == GUID_MAGIC
        name = (
            f"GUID {uuid.UUID(bytes=data[1:GUID_SIZE])}" if is_guid else f"id {int.from_bytes(data[1:ID_SIZE], 'big')}"
        )
        return f"schema {name} (subject {self._subject.expected})"


def reading(subject: Subject) -> Read:
    """Returns the function from data behind the id of their schema to the value.

    It raises `SchemaError` if they have none, the registry does not know it, or they are not of the schema.
    """
    readers = Readers(subject)
    known = readers.by_id.get

    def read(data: bytes) -> Any:
        read_known = known(data[:ID_SIZE]) or readers.of(data)
        try:
            return read_known(data)
        except Exception as error:
            raise subject.failure(error, readers.what(data)) from error

    return read
