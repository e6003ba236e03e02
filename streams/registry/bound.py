"""A serde of schemas at work on one topic: ids in front of the data, and the functions of each schema.

What is known is a look-up by the bytes in front of the data. Everything else happens once for each schema: the subject
is found, the schema registered or looked up, and its reader or writer made.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex, TypeVar

from processor_api.clock import SystemClock
from processor_api.errors import outage_behind
from processor_api.serde import Headers, HeadersSerde, Serde, SerdeSchema, other_kind
from processor_api.texts import MOST_VALUE, cut, plain_str
from streams.registry.schema_registry import SchemaRegistry
from streams.registry.schemas import NotInRegistry, Registered, RegistryAway, SchemaError, SchemaText, TopicPart, named
from streams.registry.settings import ASSOCIATED, TOPIC, TOPIC_RECORD

if TYPE_CHECKING:
    from streams.registry.client import RegistryClient

MOST_KNOWN = 1_000
"""The most functions of one serde that are kept, each for a schema of the registry; beyond that they are made again."""
ID_MAGIC, GUID_MAGIC = b"\x00", b"\x01"
ID_SIZE, GUID_SIZE = 5, 17
_SIZES = {ID_MAGIC: ID_SIZE, GUID_MAGIC: GUID_SIZE}
"""The bytes in front of the data: a magic byte, and an id of four bytes or a GUID."""

_CLOCK = SystemClock()

Read = Callable[[bytes], Any]
Write = Callable[[Any], bytes]
Made = TypeVar("Made")


class SchemaFormat(ABC):
    """The data of one serde: how values become bytes behind the id of a schema, and bytes values."""

    kind: str
    """Its kind of schemas, as registries name it."""
    has_frame = False
    """Whether :meth:`frame` writes anything."""
    own: SchemaText | None = None
    """The schema of the values; ``None`` if each has one of its own, or the latest of the subject."""

    def __init__(self, model: Any) -> None:
        self.model = model
        """The type of the values, as pydantic knows it; ``None`` for what the format has without one."""

    @abstractmethod
    def record_name(self, schema: SchemaText) -> str:
        """Returns the full name of a schema's record, for subjects; raises `SchemaError` if it has none."""

    @abstractmethod
    def from_json(self, value: Any, subject: Subject) -> Any:
        """Returns the object that a value of JSON stands for."""

    @abstractmethod
    def to_json(self, value: Any, subject: Subject) -> Any:
        """Returns a value as JSON has it."""

    @abstractmethod
    def writer(self, schema: SchemaText, client: RegistryClient, prefix: bytes, *, is_key: bool = False) -> Write:
        """Returns the function that writes values with a schema, behind a prefix; equal keys with equal bytes."""

    @abstractmethod
    def reader(self, schema: SchemaText, client: RegistryClient, start: int) -> Read:
        """Returns the function that reads data with the schema they were written with, behind ``start`` bytes."""

    def unequal(self, schema: SchemaText, client: RegistryClient | None) -> str | None:
        """Returns why equal values of a schema may have different bytes, such as a map, whose entries have no order;
        ``None`` if they have the same bytes. Without a client, what the schema refers to is not looked at."""
        return None

    def frame(self, schema: SchemaText) -> bytes:
        """Returns what stands between the id and the data."""
        return b""

    def with_references(self, schema: SchemaText, client: RegistryClient, *, register: bool) -> SchemaText:
        """Returns a schema with its references, which are registered before if they may be."""
        return schema

    def schema_of_value(self, value: Any) -> SchemaText | None:
        """Returns the schema that a value brings along, one object for all values from one place, or ``None``."""
        return None

    def problems_of(self, former: str, own: str) -> Sequence[str] | None:
        """Returns what of data with a former schema another one does not read; ``None`` if only the data can tell."""
        return None

    def problems(self, former: str) -> Sequence[str] | None:
        """Returns what of data with a former schema it does not read; ``None`` if only the data can tell."""
        found = None if self.own is None else self.problems_of(former, self.own.text)
        return None if found and self.reads_more else found

    def shown_schema(self, subject: Subject) -> str | None:
        """Returns the JSON Schema of what :meth:`to_json` returns, as text; ``None`` if it is not known."""
        return None

    @property
    def reads_more(self) -> bool:
        """Whether the model may read data that its schema does not, by other names or functions of the user's."""
        from streams.serdes.model_shape import reads_more
        from streams.serdes.pydantic_model import core_schema_of

        return self.model is not None and reads_more(core_schema_of(self.model))

    def without_model(self) -> SchemaFormat | None:
        """Returns the format that reads data as they were written; ``None`` if they are bytes without the class."""
        return type(self)(None)

    @cached_property
    def of_plain(self) -> Callable[[Any], Any]:
        """The function from a value without the model to the object that it stands for."""
        from streams.serdes.pydantic_model import validator_of

        return validator_of(self.model) if self.model is not None else lambda plain: plain


class BoundSerde(Serde[Any]):
    """A serde of schemas that is bound to a topic; raises `SchemaError` for keys if its schema is none of a key."""

    __slots__ = ("_bind", "_read_plain", "subject")

    def __init__(self, subject: Subject, bind: Callable[..., Serde[Any]]) -> None:
        subject.check_key(subject.format.own)
        super().__init__(writing(subject), reading(subject), name=subject.name)
        self.subject, self._bind = subject, bind
        self._read_plain: Read | None = None
        if _NOTED is not None and subject not in _NOTED:
            _NOTED.append(subject)

    def from_json(self, given: Any) -> Any:
        return self.subject.format.from_json(given, self.subject)

    def to_json(self, value: Any) -> Any:
        return self.subject.format.to_json(value, self.subject)

    @property
    def schema(self) -> SerdeSchema | None:
        form = self.subject.format
        if form.own is None:
            return None
        kind = f"registry {form.kind}"

        def problems(former: str, text: str) -> Sequence[str] | None:
            return form.problems(text) if former == kind else other_kind(former, text, kind)

        return SerdeSchema(kind, form.own.text, problems)

    @property
    def shown_schema(self) -> str | None:
        return self.subject.format.shown_schema(self.subject)

    def plain(self, data: bytes) -> Any:
        if self._read_plain is None:
            form = self.subject.format.without_model()
            self._read_plain = bytes if form is None else reading(replace(self.subject, format=form))
        return self._read_plain(data)

    def of_plain(self, plain: Any) -> Any:
        return self.subject.format.of_plain(plain)

    def bind(self, topic: str, *, is_key: bool) -> Serde[Any]:
        return self._bind(topic, is_key=is_key)

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        place = self.subject.place
        return partial(self._bind, place.topic, is_key=place.is_key), ()


_NOTED: list[Subject] | None = None


@contextmanager
def noted_subjects() -> Iterator[list[Subject]]:
    """Collects the subjects of all serdes that are bound meanwhile, also inside of others; for one thread."""
    global _NOTED
    found = _NOTED = []
    try:
        yield found
    finally:
        _NOTED = None


class HeaderBoundSerde(BoundSerde):
    """A serde of schemas that is bound to a topic whose records have the ids of their schemas in headers.

    Ids in front of the data are read too. Values inside of a message or a store have them there always: a header is
    that of one value alone.
    """

    __slots__ = ("_header", "_inside", "_of_records", "_writers")

    def __init__(self, subject: Subject, bind: Callable[..., Serde[Any]]) -> None:
        super().__init__(subject, bind)
        self._header = f"__{subject.place.part}_schema_id"
        self._inside = BoundSerde(subject, self._bind_inside)
        self._writers = Writers(subject, in_headers=True)
        self._of_records = HeadersSerde(self._write, self._read, name=self.name)

    @property
    def takes_headers(self) -> bool:
        return True

    def inside(self) -> Serde[Any]:
        return self._inside

    def moved_inside(self, data: bytes, headers: Headers) -> bytes:
        # Keys are looked up by their bytes, so theirs is the id that is written.
        moved = (headers.last(self._header) or b"") + data
        headers.remove_all(self._header)
        if not self.subject.place.is_key:
            return moved
        try:
            return self._inside.serialize(self.deserialize(moved))
        except SchemaError:  # no outage, whose error is another one
            return moved  # a record that no one could read

    def _bind_inside(self, topic: str, *, is_key: bool) -> Serde[Any]:
        return self._bind(topic, is_key=is_key).inside()

    def with_headers(self, headers: Headers) -> Serde[Any]:
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
            text = f"the header {cut(frame.hex(), MOST_VALUE)} does not contain a schema id"
            raise self.subject.failure(SchemaError(text), f"reading {self.subject.place}")
        value = self.deserialize(frame + data)
        # The record may be written with other bytes, whose reader would look at a header first.
        headers.remove_all(self._header)
        return value


@dataclass(eq=False, slots=True)
class Subject:
    """The subject of a serde's schemas for one topic, and how they get into the registry."""

    name: str
    """That of the serde, for errors."""
    format: SchemaFormat
    registry: SchemaRegistry
    settings: Mapping[str, Any]
    """Those in effect, under their dotted names."""
    place: TopicPart

    @property
    def client(self) -> RegistryClient:
        """The client of the process that asks."""
        return self.registry.client

    @property
    def expected(self) -> str:
        """The subject of the topic, for errors."""
        return f"{self.place.topic}-{self.place.part}"

    def of(self, schema: SchemaText | None) -> str:
        """Returns the subject of a schema; raises `SchemaError` if the subject has the name of the record, and the
        schema is not known yet, as the latest of a subject."""
        of_all = self.settings["subject.name.strategy"]
        strategy = self.settings.get(f"{self.place.part}.subject.name.strategy", of_all)
        if strategy == ASSOCIATED:
            return self.client.associated(self.place) or self.expected
        if strategy == TOPIC:
            return self.expected
        if schema is None:
            what = "a subject by the name of the record needs a schema: give the serde a model or schema="
            raise SchemaError(f"{self.name}: {what}")
        record = self.format.record_name(schema)
        return f"{self.place.topic}-{record}" if strategy == TOPIC_RECORD else record

    def schema_of(self, value: Any) -> SchemaText | None:
        """Returns the schema of a value; ``None`` if it is the latest of the subject."""
        own = self.format.own
        return self.format.schema_of_value(value) if own is None else own

    def registered(self, schema: SchemaText | None) -> Registered:
        """Returns the schema that values are written with, with its id: theirs, or the latest if they bring none along.
        Raises `SchemaError` if it is not there and may not be registered, or the registry refuses it."""
        subject, client, may_register = self.of(schema), self.client, self.settings["auto.register.schemas"]
        if schema is None or self.settings["use.latest.version"]:
            return client.latest(subject)
        schema = self.format.with_references(schema, client, register=may_register)
        normalize = self.settings["normalize.schemas"]
        if may_register:
            return client.register(subject, schema, normalize=normalize)
        try:
            return client.lookup(subject, schema, normalize=normalize)
        except NotInRegistry as error:
            how = "register it there, or set auto.register.schemas=true, or use.latest.version=true"
            raise SchemaError(f"{error}; {how}") from error

    def check_key(self, schema: SchemaText | None, client: RegistryClient | None = None) -> None:
        """Raises `SchemaError` for a schema of keys in which equal values may have different bytes."""
        if schema is not None and self.place.is_key and (why := self.format.unequal(schema, client)) is not None:
            raise SchemaError(f"{why}: equal keys would have different bytes, and be written to different partitions")

    def failure(self, error: BaseException, what: str) -> Exception:
        """Returns the error of a record, with what is known of it; of an outage an error that is not the record's."""
        if (outage := outage_behind(error)) is not None:
            return RegistryAway(f"{self.name}, {what}: {outage.message}", **outage.place())
        text = plain_str(error)
        if isinstance(error, (EOFError, IndexError)):
            text = "the data ends in the middle of a value, or has a number that its schema does not have"
        elif isinstance(error, RecursionError):
            text = "it is nested too deeply, or contains itself"
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
    """The functions that write values, one for each schema, made when it is first needed. They leave out the ids that
    go into headers."""

    def __init__(self, subject: Subject, *, in_headers: bool = False) -> None:
        self._subject, self._in_headers = subject, in_headers
        is_latest = subject.format.own is None or subject.settings["use.latest.version"]
        self.latest_for_s: float | None = subject.settings.get("cache.latest.ttl.sec") if is_latest else None
        """How long the latest version of the subject counts before the registry is asked again; ``None`` for ever."""
        self._known: dict[SchemaText | None, Writer] = {}
        self._former: dict[SchemaText | None, Writer] = {}
        """Those that count on while the registry is away."""
        self._renew_at = 0.0
        """When the latest versions that functions write with are to be asked for again."""

    def of(self, schema: SchemaText | None) -> Writer:
        """Returns the function for a schema; raises `SchemaError` if the schema is not to be had."""
        if self.latest_for_s is not None and (now := _CLOCK.monotonic()) >= self._renew_at:
            self._former, self._known, self._renew_at = self._known, {}, now + self.latest_for_s
        return self._known.get(schema) or self._made(schema)

    def _made(self, schema: SchemaText | None) -> Writer:
        subject, form = self._subject, self._subject.format
        try:
            subject.check_key(schema)
            registered = subject.registered(schema)
            subject.check_key(registered.schema, subject.client)
            what = f"schema id {registered.id} of subject {registered.subject or subject.of(schema)}"
            index, frame = form.frame(registered.schema), b""
            prefix = ID_MAGIC + registered.id.to_bytes(4, "big") + index
            if self._in_headers:
                if registered.guid is None:
                    how = "set schema.ids=prefix, or use a registry with GUIDs"
                    what = (
                        f"schema ids in headers are GUIDs, but the registry {subject.client.url} does not have"
                        f" them: {how}"
                    )
                    raise SchemaError(what)
                prefix, frame = b"", GUID_MAGIC + uuid.UUID(registered.guid).bytes + index
            write = form.writer(registered.schema, subject.client, prefix, is_key=subject.place.is_key)
            found = Writer(write, frame, what)
        except Exception as error:
            if schema not in self._former or outage_behind(error) is None:
                raise subject.failure(error, f"writing {subject.place}") from error
            found = self._former[schema]
        return kept(self._known, schema, found)


def kept(known: dict[Any, Made], key: Any, made: Made) -> Made:
    """Keeps a function, and forgets all if there are too many."""
    if len(known) >= MOST_KNOWN:
        known.clear()
    known[key] = made
    return made


def writing(subject: Subject) -> Write:
    """Returns the function from a value to bytes behind the id of its schema; that raises `SchemaError` if the value
    does not fit its schema, or that cannot be registered."""
    writers, schema_of = Writers(subject), subject.schema_of
    is_one = subject.format.own is not None and writers.latest_for_s is None
    only: Write | None = None
    """The function of values whose schemas are all the same."""

    def write(value: Any) -> bytes:
        nonlocal only
        write_value = only
        if write_value is None:
            write_value = writers.of(schema_of(value)).write
            only = write_value if is_one else None
        try:
            return write_value(value)
        except Exception as error:
            raise subject.failure(error, writers.of(schema_of(value)).what) from error

    return write


def reading(subject: Subject) -> Read:
    """Returns the function from data behind the id of their schema to the value; that raises `SchemaError` if they have
    none, the registry does not know it, or they are not of the schema."""
    known: dict[bytes, Read] = {}
    """Functions by the bytes in front of the data."""

    def what(schema_id: int | str) -> str:
        return f"{named(schema_id)} (subject {subject.expected})"

    def reader_of(data: bytes) -> Read:
        doing = f"reading {subject.place}"
        try:
            schema_id, size = id_in(data)
            doing += f" with {what(schema_id)}"
            registered, form = subject.client.by_id(schema_id), subject.format
            if registered.schema.kind != form.kind:
                raise SchemaError(f"it is a schema of {registered.schema.kind}, not of {form.kind}")
            return kept(known, data[:size], form.reader(registered.schema, subject.client, size))
        except Exception as error:
            raise subject.failure(error, doing) from error

    def read(data: bytes) -> Any:
        read_known = known.get(data[:ID_SIZE]) or known.get(data[:GUID_SIZE]) or reader_of(data)
        try:
            return read_known(data)
        except Exception as error:
            raise subject.failure(error, what(id_in(data)[0])) from error

    return read


def id_in(data: bytes) -> tuple[int | str, int]:
    """Returns the id in front of data, or the GUID as a text, and how many bytes it takes; raises `SchemaError` if
    there is none."""
    size = _SIZES.get(data[:1] or ID_MAGIC)
    if size is None:
        what = f"{len(data)} bytes that begin with {data[:4].hex()}"
        raise SchemaError(f"{what} do not contain a schema id: the first byte must be 0 or 1")
    if len(data) < size:
        raise SchemaError(f"{len(data)} bytes are too few: the schema id before a value needs {size}")
    found = data[1:size]
    return int.from_bytes(found, "big") if size == ID_SIZE else str(uuid.UUID(bytes=found)), size
