"""A serde of schemas at work on one topic: ids in front of the data, and the functions of each schema.

What is known is a look-up by the bytes in front of the data. Everything else happens once for each schema: the subject
is found, the schema registered or looked up, and its reader or writer made.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex, TypeVar

from processor_api.clock import SystemClock
from processor_api.errors import outage_behind
from processor_api.serde import Headers, HeadersSerde, Serde, SerdeSchema, other_kind
from processor_api.texts import MOST_VALUE, cut, plain_str
from streams.registry.schema_registry import SchemaRegistry
from streams.registry.schemas import Registered, RegistryAway, SchemaError, SchemaText, TopicPart
from streams.registry.settings import ASSOCIATED, TOPIC, TOPIC_RECORD

if TYPE_CHECKING:
    from streams.registry.client import RegistryClient

KEY_HEADER, VALUE_HEADER = "__key_schema_id", "__value_schema_id"
CHANGELOG = "-changelog"
MOST_KNOWN = 1_000
"""The most functions of one serde that are kept, each for a schema of the registry; beyond that they are made again."""
ID_MAGIC, GUID_MAGIC = b"\x00", b"\x01"
ID_SIZE, GUID_SIZE = 5, 17
_SIZES = {ID_MAGIC: ID_SIZE, GUID_MAGIC: GUID_SIZE}
"""The bytes in front of the data: a magic byte, and an id of four bytes or a GUID."""

_CLOCK = SystemClock()

Read = Callable[[bytes], Any]
Write = Callable[[Any], bytes]


class SchemaFormat(ABC):
    """The data of one serde: how values become bytes behind the id of a schema, and bytes values."""

    kind: str
    """Its kind of schemas, as registries name it."""
    has_frame = False
    """Whether :meth:`frame` writes anything."""
    own: SchemaText | None = None
    """The schema of the values; ``None`` if each has one of its own, or the latest of the subject."""

    @abstractmethod
    def record_name(self, schema: SchemaText) -> str:
        """Returns the full name of a schema's record, for subjects.

        :raises SchemaError: if it has none.
        """

    def check_key(self, schema: SchemaText) -> None:  # noqa: B027 - most have none
        """Refuses schemas of keys in which equal values may have different bytes.

        :raises SchemaError: if there is such a type, as a map, whose entries have no order.
        """

    @abstractmethod
    def from_json(self, value: Any, subject: Subject) -> Any:
        """Returns the object that a value of JSON stands for."""

    @abstractmethod
    def to_json(self, value: Any, subject: Subject) -> Any:
        """Returns a value as JSON has it."""

    @abstractmethod
    def writer(self, schema: SchemaText, client: RegistryClient, prefix: bytes, *, is_key: bool = False) -> Write:
        """Returns the function that writes values with a schema, behind a prefix.

        :param is_key: whether equal values must have equal bytes.
        """

    @abstractmethod
    def reader(self, registered: Registered, client: RegistryClient, start: int) -> Read:
        """Returns the function that reads data with the schema they were written with.

        :param start: where what :meth:`frame` wrote begins, and the data after it.
        """

    def frame(self, schema: SchemaText) -> bytes:
        """Returns what stands between the id and the data."""
        return b""

    def with_references(self, schema: SchemaText, client: RegistryClient, *, register: bool) -> SchemaText:
        """Returns a schema with its references: as it is, if they were given with it.

        :param register: whether schemas that it uses are registered, if they are not yet.
        """
        return schema

    def schema_of_value(self, value: Any) -> SchemaText | None:
        """Returns the schema that a value brings along, the same object for all values that have it from one place;
        ``None`` if it has none."""
        return None

    def problems(self, former: str) -> Sequence[str] | None:
        """Returns what of data with a former schema it does not read; ``None`` if only the data can tell."""
        return None

    def without_model(self) -> SchemaFormat | None:
        """Returns the format that reads data as they were written; ``None`` if they are bytes without the class."""
        return None

    def of_plain(self, plain: Any) -> Any:
        """Returns the object that a value without the model stands for."""
        return plain


class BoundSerde(Serde[Any]):
    """A serde of schemas that is bound to a topic.

    :param bind: binds it to another topic.
    :raises SchemaError: if its schema is none of a key, and the topic's part is the key.
    """

    __slots__ = ("_bind", "_read_plain", "subject")

    def __init__(self, subject: Subject, bind: Callable[..., Serde[Any]]) -> None:
        if subject.place.is_key and subject.format.own is not None:
            subject.format.check_key(subject.format.own)
        super().__init__(writing(subject), reading(subject), name=subject.name)
        self.subject = subject
        self._bind = bind
        self._read_plain: Read | None = None
        if _NOTED is not None and subject not in _NOTED:
            _NOTED.append(subject)

    def from_json(self, given: Any) -> Any:
        """Returns the object that a value of JSON stands for by the schema."""
        return self.subject.format.from_json(given, self.subject)

    def to_json(self, value: Any) -> Any:
        """Returns an object as the schema has it in JSON."""
        return self.subject.format.to_json(value, self.subject)

    @property
    def schema(self) -> SerdeSchema | None:
        """The schema of its model, or the one that was given; ``None`` if each value has one of its own."""
        own = self.subject.format.own
        if own is None:
            return None
        kind, problems = f"registry {own.kind}", self.subject.format.problems
        return SerdeSchema(
            kind, own.text, lambda former, text: problems(text) if former == kind else other_kind(former, text, kind)
        )

    def plain(self, data: bytes) -> Any:
        """Returns what data hold without the model: a dict or another value of Avro or JSON, as it was written; of
        Protobuf the bytes."""
        if self._read_plain is None:
            form = self.subject.format.without_model()
            self._read_plain = bytes if form is None else reading(self.subject.with_format(form))
        return self._read_plain(data)

    def of_plain(self, plain: Any) -> Any:
        """Returns the object that such a value stands for."""
        return self.subject.format.of_plain(plain)

    def bind(self, topic: str, *, is_key: bool) -> Serde[Any]:
        """Returns the same serde for another topic."""
        return self._bind(topic, is_key=is_key)

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        place = self.subject.place
        return partial(self._bind, place.topic, is_key=place.is_key), ()


_NOTED: list[Subject] | None = None


@contextmanager
def noted_subjects() -> Iterator[list[Subject]]:
    """Collects the subjects of all serdes that are bound meanwhile, also inside of others; for one thread."""
    global _NOTED
    found: list[Subject] = []
    _NOTED = found
    try:
        yield found
    finally:
        _NOTED = None


class HeaderBoundSerde(BoundSerde):
    """A serde of schemas that is bound to a topic whose records have the ids of their schemas in headers.

    Of a record with such a header the data have nothing in front; without headers, ids are in front of the data. Both
    are read. Values inside of a message or a store have ids in front always: a header is that of one value alone.
    """

    __slots__ = ("_header", "_inside", "_of_records", "_writers")

    def __init__(self, subject: Subject, bind: Callable[..., Serde[Any]]) -> None:
        super().__init__(subject, bind)
        self._header = KEY_HEADER if subject.place.is_key else VALUE_HEADER
        self._inside = BoundSerde(subject, self._bind_inside)
        self._writers = Writers(subject, in_headers=True)
        self._of_records = HeadersSerde(self._write, self._read, name=self.name)

    @property
    def takes_headers(self) -> bool:
        """``True``: the bytes go together with a header."""
        return True

    def inside(self) -> Serde[Any]:
        """Returns the serde of values whose ids are in front."""
        return self._inside

    def moved_inside(self, data: bytes, headers: Headers) -> bytes:
        """Returns the bytes with their id in front: that of the header for values, the one that is written for keys,
        which are looked up by their bytes."""
        moved = (headers.last(self._header) or b"") + data
        if not self.subject.place.is_key:
            return moved
        try:
            return self._inside.serialize(self.deserialize(moved))
        except SchemaError:  # no outage, whose error is another one
            return moved  # a record that nobody could read

    def _bind_inside(self, topic: str, *, is_key: bool) -> Serde[Any]:
        return self._bind(topic, is_key=is_key).inside()

    def with_headers(self, headers: Headers) -> Serde[Any]:
        """Returns the serde for one record: it writes the id to the headers, and reads it there or in front of the
        data."""
        return self._of_records.with_headers(headers)

    def _write(self, value: Any, headers: Headers) -> bytes:
        writer = self._writers.of(self.subject.schema_of(value))
        try:
            data = writer.write(value)
        except Exception as error:
            raise self.subject.failure(error, writer.what) from error
        headers.remove_all(self._header)
        headers.add(self._header, writer.frame)
        return data

    def _read(self, data: bytes, headers: Headers) -> Any:
        frame = headers.last(self._header)
        if frame is None:
            return self.deserialize(data)
        size = _SIZES.get(frame[:1], 0)
        # What is longer than an id would become the start of the data, where the format has nothing between.
        if not size or len(frame) < size or (len(frame) > size and not self.subject.format.has_frame):
            text = f"the header {cut(frame.hex(), MOST_VALUE)} has no id of a schema"
            raise self.subject.failure(SchemaError(text), f"reading {self.subject.place}")
        return self.deserialize(frame + data)


class Subject:
    """The subject of a serde's schemas for one topic, and how they get into the registry.

    :param name: of the serde, for errors.
    :param settings: of the serde, under their dotted names.
    """

    def __init__(
        self, name: str, form: SchemaFormat, registry: SchemaRegistry, settings: Mapping[str, Any], place: TopicPart
    ) -> None:
        self.format = form
        self.place = place
        self.name = name
        self.in_headers: bool = settings.get("schema.ids") == "header"
        """Whether the ids of whole keys and values are in headers."""
        self._registry = registry
        own = f"{place.part}.subject.name.strategy"
        self._strategy: str = settings.get(own, settings.get("subject.name.strategy", ASSOCIATED))
        self.auto_register: bool = settings.get("auto.register.schemas", True)
        """Whether schemas that are not in the registry are registered."""
        self.use_latest: bool = settings.get("use.latest.version", False)
        """Whether values are written with the latest version of the subject."""
        ttl = settings.get("cache.latest.ttl.sec")
        self.latest_for_s: float | None = ttl if self.use_latest or form.own is None else None
        """How long the latest version of the subject counts before the registry is asked again; ``None`` for ever."""
        self._normalize: bool = settings.get("normalize.schemas", False)

    def with_format(self, form: SchemaFormat) -> Subject:
        """Returns the subject with another format."""
        made = copy(self)
        made.format = form
        return made

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

    def schema_of(self, value: Any) -> SchemaText | None:
        """Returns the schema of a value; ``None`` if it is the latest of the subject."""
        own = self.format.own
        return self.format.schema_of_value(value) if own is None else own

    def registered(self, schema: SchemaText | None) -> Registered:
        """Returns the schema that values are written with, with its id.

        :param schema: theirs; ``None`` if they bring none along.
        :raises SchemaError: if it is not in the registry and may not be registered, or the registry refuses it.
        """
        subject, client = self.of(schema), self.client
        if self.use_latest or schema is None:
            return client.latest(subject)
        schema = self.format.with_references(schema, client, register=self.auto_register)
        if self.auto_register:
            return client.register(subject, schema, normalize=self._normalize)
        from streams.registry.client import NotInRegistry

        try:
            return client.lookup(subject, schema, normalize=self._normalize)
        except NotInRegistry as error:
            raise SchemaError(
                f"{error}; register it there, or set auto.register.schemas=true, or use.latest.version=true"
            ) from error

    def failure(self, error: BaseException, what: str) -> Exception:
        """Returns the error of a record, with what is known of it; of an outage an error that is not the record's."""
        if (outage := outage_behind(error)) is not None:
            return RegistryAway(f"{self.name}, {what}: {outage.message}", **outage.place())
        text = plain_str(error)
        if isinstance(error, EOFError):
            text = f"the data end in the middle of a value{f' ({text})' if text else ''}"
        elif isinstance(error, IndexError):
            text = "the data end in the middle of a value, or have a number that their schema has not"
        elif isinstance(error, RecursionError):
            text = "it is nested too deep, or holds itself"
        elif not isinstance(error, SchemaError):
            text = f"{type(error).__name__}: {text}" if text else type(error).__name__
        return SchemaError(f"{self.name}, {what}: {text}")


class Writer(NamedTuple):
    """The function that writes values of one schema."""

    write: Write
    frame: bytes
    """The header of records whose ids are in headers."""
    what: str
    """The id and the subject, for errors."""


class Writers:
    """The functions that write values, one for each schema, made when it is first needed.

    :param in_headers: whether they leave out the id, since it goes into a header.
    """

    def __init__(self, subject: Subject, *, in_headers: bool = False) -> None:
        self._subject = subject
        self._in_headers = in_headers
        self._known: dict[SchemaText | None, Writer] = {}
        self._former: dict[SchemaText | None, Writer] = {}
        """Those that count on while the registry is away."""
        self._renew_at = 0.0
        """When the latest versions that functions write with are to be asked for again."""

    def of(self, schema: SchemaText | None) -> Writer:
        """Returns the function for a schema.

        :raises SchemaError: if the schema is not to be had.
        """
        latest_for_s = self._subject.latest_for_s
        if latest_for_s is not None and (now := _CLOCK.monotonic()) >= self._renew_at:
            self._former, self._known, self._renew_at = self._known, {}, now + latest_for_s
        return self._known.get(schema) or _kept(self._known, schema, self._made_or_former(schema))

    def _made_or_former(self, schema: SchemaText | None) -> Writer:
        try:
            return self._made(schema)
        except Exception as error:
            former = self._former.get(schema)
            if former is None or outage_behind(error) is None:
                raise
            return former

    def _made(self, schema: SchemaText | None) -> Writer:
        subject, form, is_key = self._subject, self._subject.format, self._subject.place.is_key
        try:
            if schema is not None and is_key:
                form.check_key(schema)
            registered = subject.registered(schema)
            what = f"schema id {registered.id} of subject {registered.subject or subject.of(schema)}"
            index = form.frame(registered.schema)
            prefix, frame = ID_MAGIC + registered.id.to_bytes(4, "big") + index, b""
            if self._in_headers:
                prefix, frame = b"", GUID_MAGIC + _guid_of(registered, subject) + index
            return Writer(form.writer(registered.schema, subject.client, prefix, is_key=is_key), frame, what)
        except Exception as error:
            raise subject.failure(error, f"writing {subject.place}") from error


K = TypeVar("K")
F = TypeVar("F")


def _kept(known: dict[K, F], key: K, made: F) -> F:
    """Keeps a function, and forgets all if there are too many."""
    if len(known) >= MOST_KNOWN:
        known.clear()
    known[key] = made
    return made


def _guid_of(registered: Registered, subject: Subject) -> bytes:
    if registered.guid is None:
        raise SchemaError(
            f"the registry {subject.client.url} has no GUIDs of schemas, which ids in headers are: set"
            " schema.ids=prefix, or use a registry that has them"
        )
    return uuid.UUID(registered.guid).bytes


def writing(subject: Subject) -> Write:
    """Returns the function from a value to bytes behind the id of its schema.

    It raises `SchemaError` if the value does not fit its schema, or that cannot be registered.
    """
    writers, own, schema_of = Writers(subject), subject.format.own, subject.format.schema_of_value
    is_one = own is not None and subject.latest_for_s is None
    only: Write | None = None
    """The function of values whose schemas are all the same."""

    def write(value: Any) -> bytes:
        nonlocal only
        write_value = only
        if write_value is None:
            write_value = writers.of(own or schema_of(value)).write
            only = write_value if is_one else None
        try:
            return write_value(value)
        except Exception as error:
            raise subject.failure(error, writers.of(own or schema_of(value)).what) from error

    return write


def reading(subject: Subject) -> Read:
    """Returns the function from data behind the id of their schema to the value.

    It raises `SchemaError` if they have none, the registry does not know it, or they are not of the schema.
    """
    place, form = subject.place, subject.format

    known: dict[bytes, Read] = {}
    """Functions by the bytes in front of the data."""

    def reader_of(data: bytes) -> Read:
        size = _SIZES.get(data[:1], 0)
        if not size or len(data) < size:
            raise subject.failure(SchemaError(_why_no_id(data)), f"reading {place}")
        try:
            if size == GUID_SIZE:
                registered = subject.client.by_guid(str(uuid.UUID(bytes=data[1:size])))
            else:
                registered = subject.client.by_id(int.from_bytes(data[1:size], "big"))
            if registered.schema.kind != form.kind:
                raise SchemaError(f"it is a schema of {registered.schema.kind}, and not of {form.kind}")
            found = form.reader(registered, subject.client, size)
        except Exception as error:
            raise subject.failure(error, f"reading {place} with {what(data)}") from error
        return _kept(known, data[:size], found)

    def what(data: bytes) -> str:
        is_guid = data[:1] == GUID_MAGIC
        name = uuid.UUID(bytes=data[1:GUID_SIZE]) if is_guid else int.from_bytes(data[1:ID_SIZE], "big")
        return f"schema {'GUID' if is_guid else 'id'} {name} (subject {subject.expected})"

    def read(data: bytes) -> Any:
        read_known = known.get(data[:ID_SIZE]) or known.get(data[:GUID_SIZE]) or reader_of(data)
        try:
            return read_known(data)
        except Exception as error:
            raise subject.failure(error, what(data)) from error

    return read


def _why_no_id(data: bytes) -> str:
    size = _SIZES.get(data[:1])
    if size is None and data:
        return f"{len(data)} bytes that begin with {data[:4].hex()} have no id of a schema: the first would be 0 or 1"
    return f"{len(data)} bytes are too few: the id of a schema in front of a value takes {size or ID_SIZE}"
