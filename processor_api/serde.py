"""Serdes: how keys and values become bytes, and back, and the headers that go with the bytes.

The built-in ones write the bytes of Kafka's Java serdes of the same name. ``None`` is null, and every serde writes and
reads it as ``None``: its two functions are never called with it.
"""

from __future__ import annotations

import json
import re
import struct
import uuid as uuid_module
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, isfunction
from typing import Any, ClassVar, Generic, NamedTuple, SupportsIndex, TypeVar

from processor_api.errors import StreamsError
from processor_api.forms.json_values import (
    as_json,
    bytes_of_json,
    expected,
    json_of,
    number_of_json,
    number_of_text,
    parsed_json,
)
from processor_api.texts import kind_and_text, repr_of

T = TypeVar("T")
Given = TypeVar("Given")
Found = TypeVar("Found")

_UUID = re.compile(rb"-".join(rb"0*([0-9a-fA-F]{1,%d})" % digits for digits in (8, 4, 4, 4, 12)))


_NOT_PLAIN = CO_ASYNC_GENERATOR | CO_COROUTINE | CO_GENERATOR


class Headers(list[tuple[str, bytes | None]]):
    """The headers of a record: a list of ``(name, value)`` in which names may repeat.

    ::

        headers = Headers([("trace", b"7")]).add("source", b"web")
        assert headers.last("source") == b"web"
    """

    __slots__ = ()

    def add(self, name: str, value: bytes | None) -> Headers:
        """Appends a header; returns the headers.

        ::

            headers = Headers().add("source", b"web")
            assert headers == [("source", b"web")]
        """
        self.append((name, value))
        return self

    def last(self, name: str) -> bytes | None:
        """Returns the value of the last header of this name, or ``None``.

        ::

            headers = Headers().add("source", b"web").add("source", b"app")
            assert headers.last("source") == b"app"
        """
        for found, value in reversed(self):
            if found == name:
                return value
        return None

    def all(self, name: str) -> list[bytes | None]:
        """Returns the values of all headers of this name, in order.

        ::

            headers = Headers().add("source", b"web").add("source", b"app")
            assert headers.all("source") == [b"web", b"app"]
        """
        return [value for found, value in self if found == name]

    def remove_all(self, name: str) -> Headers:
        """Removes every header of this name; returns the headers.

        ::

            headers = Headers().add("source", b"web").remove_all("source")
            assert headers == []
        """
        self[:] = [header for header in self if header[0] != name]
        return self


class SerdeSchema(NamedTuple):
    """The schema of the values that a serde writes, and how it is compared with that of rows that are there."""

    kind: str
    """The language of the text, such as ``json-schema`` or ``avro``."""
    text: str
    """The schema; equal ones have equal texts in each process."""
    problems: Callable[[str, str], Sequence[str] | None]
    """Takes the kind and the text of an older schema, and returns in words what of its rows this serde could not read,
    by field: nothing if it reads all, ``None`` if only the rows can tell."""
    form: Callable[[str], str] = str
    """Takes the text of a schema of this kind, and returns what of it decides on the bytes of a value: equal keys have
    equal bytes as long as that is the same."""


def other_kind(former: str, text: str, now: str) -> list[str]:
    """Returns what is wrong with rows that were written by a serde of another kind.

    :param former: the kind of their schema, whose text names the serde if the kind is ``built-in``.
    :param now: what reads them.
    """
    return [f"they are written as {text if former == 'built-in' else former}, and read as {now}"]


def schema_around(kind: str, parts: Mapping[str, Serde[Any] | None]) -> SerdeSchema | None:
    """Returns the schema of a serde that writes values of others inside of its own; ``None`` if one is not known.

    Its text is JSON: ``{"left": ["built-in", "long"], ...}``.

    :param kind: the form around the values, in words.
    :param parts: the serdes of the values by the names of their places; the only one may have an empty name.
    """
    known = {place: schema for place, serde in parts.items() if serde is not None and (schema := serde.schema)}
    if len(known) < len(parts):
        return None

    def problems(former: str, text: str) -> list[str] | None:
        if former != kind:
            return other_kind(former, text, kind)
        found: list[str] = []
        unknown = False
        for place, (old_kind, old) in json.loads(text).items():
            now = known[place]
            each = () if (old_kind, old) == (now.kind, now.text) else now.problems(old_kind, old)
            unknown = unknown or each is None
            found += [f"{place}: {one}" if place else one for one in each or ()]
        return None if unknown and not found else found

    def form(text: str) -> str:
        """Inner schemas of another kind are as they are: their serde says whether it reads them."""
        return json.dumps(
            {
                place: (old_kind, known[place].form(old) if old_kind == known[place].kind else old)
                for place, (old_kind, old) in json.loads(text).items()
            }
        )

    text = json.dumps({place: (one.kind, one.text) for place, one in known.items()}, separators=(",", ":"))
    return SerdeSchema(kind, text, problems, form)


def _or_null(function: Callable[[Any], Any], given: Any) -> Any:
    return None if given is None else function(given)


def never_null(function: Callable[[Given], Found]) -> Callable[[Given], Found]:
    """Returns the function of a serde for a caller that has checked for ``None`` itself, with one call less."""
    if type(function) is partial and function.func is _or_null:
        return function.args[0]  # type: ignore[no-any-return]
    return function


def _method_or_null(method: Any) -> Any:
    """Returns a method of a serde that gives ``None`` for ``None``; what cannot be called so is refused where the serde
    is given."""
    if not isfunction(method) or method.__code__.co_flags & _NOT_PLAIN or method.__code__.co_argcount != 2:
        return method

    @wraps(method)
    def call(self: Any, given: Any) -> Any:
        return None if given is None else method(self, given)

    return call


class Serde(Generic[T]):
    """A serde: a pair of functions from a value to bytes and from bytes to a value.

    ::

        cents = Serde(lambda euros: str(round(euros * 100)).encode(), lambda data: int(data) / 100, name="cents")
        prices = builder.table("prices", Consumed(key_serde="string", value_serde=cents))
        assert cents.serialize(3.2) == b"320"
        assert cents.serialize(None) is None

    :param serialize: called with a value that is not ``None``; returns ``bytes``.
    :param deserialize: called with ``bytes``; returns the value.
    :param name: for messages and ``describe``.
    :param exact: returns whether a given value comes back unchanged, in type and value, after a round trip; stores keep
        such values decoded. ``None`` (the default) means that no value does, which is right for anything mutable.
    :param write_exact: a quicker ``serialize`` for values that ``exact`` has accepted.
    :raises TypeError: if one of the two is not a function.
    """

    __slots__ = ("deserialize", "exact", "name", "serialize", "write_exact")

    writes_json: ClassVar[bool] = False
    """Whether its bytes are the JSON of its values, in UTF-8."""

    def __init__(
        self,
        serialize: Callable[[T], bytes],
        deserialize: Callable[[bytes], T],
        *,
        name: str = "custom",
        exact: Callable[[object], bool] | None = None,
        write_exact: Callable[[T], bytes] | None = None,
    ) -> None:
        given: tuple[object, ...] = (serialize, deserialize)
        if not all(map(callable, given)):
            raise TypeError("a serde needs two functions: value to bytes, and bytes to value")
        self.serialize: Callable[[T], bytes] = partial(_or_null, never_null(serialize))
        self.deserialize: Callable[[bytes], T] = partial(_or_null, never_null(deserialize))
        self.name = name
        self.exact = exact
        self.write_exact = write_exact

    def __init_subclass__(cls, **more: Any) -> None:
        """Makes methods that take the place of the two functions give ``None`` for ``None``."""
        super().__init_subclass__(**more)
        for name in ("serialize", "deserialize"):
            if name in vars(cls):
                setattr(cls, name, _method_or_null(vars(cls)[name]))

    def bind(self, topic: str, *, is_key: bool) -> Serde[T]:
        """Returns the serde for one topic. Override it where bytes depend on the topic (schema registries)."""
        return self

    def with_default(self, default: Serde[Any]) -> Serde[T]:
        """Returns the serde for an application whose default serde is ``default``; called before :meth:`bind`.

        Override it where a serde wraps another one that may be left to the default.
        """
        return self

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to the default. Override it together with :meth:`with_default`."""
        return True

    @property
    def takes_headers(self) -> bool:
        """Whether the bytes go together with headers of their record. Override it together with :meth:`with_headers`.

        It is asked once for each place where the serde is used. A serde that takes none costs nothing for it.
        """
        return False

    def plain(self, data: bytes) -> Any:
        """Returns what bytes hold without a type of the application, for a function that converts older values.

        The bytes themselves, unless it is overridden: a serde of JSON returns dicts, lists, texts and numbers.
        """
        return data

    def of_plain(self, plain: Any) -> T:
        """Returns the value that a plain form stands for; what is one already is returned as it is.

        :raises ValueError: if it stands for none.
        """
        found: T = plain
        return found

    def to_json(self, value: T) -> Any:
        """Returns a value as JSON has it, which people read in commands, over HTTP and in DataFrames.

        Unless it is overridden, what JSON has no type for is a text or an object that looks like it. Override it
        together with :meth:`from_json`, so that what was shown can be given again.
        """
        return as_json(value)

    def from_json(self, given: Any) -> T:
        """Returns the value that JSON stands for: of what :meth:`to_json` returns, an equal one.

        Columns of DataFrames have bytes, decimals, dates and times of Python instead of texts. Unless it is
        overridden, the value is what was given, or what the serde reads from that as a text in UTF-8 or as JSON: the
        first that the serde writes, and would show so.

        :raises ValueError: if it stands for none.
        """

        def read(bound: Serde[T]) -> T:
            text = given if isinstance(given, str) else json.dumps(json_of(given), ensure_ascii=False)
            return bound.deserialize(_write_string(text))

        return _first_taken(self, (lambda _: given, read), lambda found: bool(self.to_json(found) == given))

    def from_text(self, text: str) -> T | None:
        """Returns the value that a person typed; ``None`` for null.

        A text is the JSON of the value. Unless :meth:`from_json` is overridden, it is rather its bytes in UTF-8, or the
        value itself: which of them only the serde knows.

        :raises ValueError: if it stands for none.
        """
        typed: object = text
        if not isinstance(typed, str):
            raise TypeError(f"a typed key or value must be a str, got {repr_of(typed)}")
        if self.knows_json:
            given = parsed_json(text)
            return None if given is None else self.from_json(given)
        tries: tuple[Callable[[Serde[T]], Any], ...] = (
            lambda bound: bound.deserialize(_write_string(text)),
            lambda _: text,
            lambda _: parsed_json(text),
        )
        return _first_taken(self, tries, lambda _: True)

    @property
    def knows_json(self) -> bool:
        """Whether it says itself what its values are in JSON, by :meth:`to_json` and :meth:`from_json`."""
        return type(self).from_json is not Serde.from_json

    @property
    def schema(self) -> SerdeSchema | None:
        """The schema of the values that it writes; ``None`` if nothing is known of their form.

        Stores keep it with their rows, so that a later version of the application that cannot read these is refused at
        its start. Override it for a serde whose values may get another form.
        """
        name = self.name
        if getattr(Serdes, name.upper(), None) is not self:
            return None
        return SerdeSchema("built-in", name, lambda kind, text: other_kind(kind, text, name))

    @property
    def shown_schema(self) -> str | None:
        """The JSON Schema of what :meth:`to_json` returns, as text; ``None`` if it is not known."""
        found = self.schema
        return found.text if found is not None and found.kind == "json-schema" else None

    def with_headers(self, headers: Headers) -> Serde[T]:
        """Returns the serde for one record, whose headers it reads, and to which it adds some when it writes.

        Override it where a serde wraps another one. For functions that take headers use
        :func:`~streams.serdes.functions.serde_of`.
        """
        return self

    def inside(self) -> Serde[T]:
        """Returns the serde for values inside of a message or a store: the headers of a record are not theirs alone.

        Override it together with :meth:`moved_inside` where the bytes of a record's key or value go together with a
        header that belongs to nothing else.
        """
        return self

    def moved_inside(self, data: bytes, headers: Headers) -> bytes:
        """Returns the bytes that :meth:`inside` reads, for those of a record with these headers."""
        return data

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        """Pickles a serde of `Serdes` as its name: stores have quicker ways for these, and know them by identity."""
        name = self.name.upper()
        if getattr(Serdes, name, None) is self:
            return f"Serdes.{name}"
        return super().__reduce_ex__(protocol)

    def __repr__(self) -> str:
        return f"Serde({self.name})"


def _first_taken(serde: Serde[T], tries: Sequence[Callable[[Serde[T]], Any]], is_meant: Callable[[T], bool]) -> T:
    """Returns the first value that a serde writes and reads, and which is meant; if none is, the first of the others.

    :param tries: make the values, with the serde for headers that all of one try share.
    """
    others, error = list[T](), None
    for each in tries:
        bound = serde.with_headers(Headers())
        try:
            value: T = each(bound)
            found = bound.deserialize(bound.serialize(value))
            if is_meant(found):
                return value
            others.append(value)
        except Exception as failure:
            error = error or failure
    if others:
        return others[0]
    assert error is not None
    if isinstance(error, (StreamsError, TypeError, ValueError)):
        raise error
    raise ValueError(kind_and_text(error)) from error  # what the functions of a user raise, or the value's own methods


def json_part(serde: Serde[Any], value: Any) -> Any:
    """Returns a part of a value, which may be ``None``, as JSON has it."""
    return None if value is None else serde.to_json(value)


def part_of_json(serde: Serde[Any], given: Any) -> Any:
    """Returns the part of a value that JSON stands for, which may be ``None``."""
    return None if given is None else serde.from_json(given)


class HeadersSerde(Serde[T]):
    """A serde whose functions take the headers of the record as well (KAFKA-20173).

    What the functions change in the headers of a record that is written or read, the record has from then on.

    :param write: called with a value that is not ``None`` and the record's headers; returns ``bytes``.
    :param read: called with ``bytes`` and the record's headers; returns the value.
    :param name: for messages and ``describe``.
    :raises TypeError: if one of the two is not a function.
    """

    __slots__ = ("_read", "_write")

    def __init__(
        self, write: Callable[[T, Headers], bytes], read: Callable[[bytes, Headers], T], *, name: str = "custom"
    ) -> None:
        super().__init__(self._write_alone, self._read_alone, name=name)
        given: tuple[object, ...] = (write, read)
        if not all(map(callable, given)):
            raise TypeError("a serde needs two functions: value and headers to bytes, and bytes and headers to value")
        self._write = write
        self._read = read

    @property
    def takes_headers(self) -> bool:
        """``True``."""
        return True

    def with_headers(self, headers: Headers) -> Serde[T]:
        """Returns a serde that calls both functions with these headers."""
        return _OfRecord(self, headers)

    def write(self, value: T, headers: Headers) -> bytes:
        """Returns the bytes of a value, whose record has these headers."""
        return self._write(value, headers)

    def read(self, data: bytes, headers: Headers) -> T:
        """Returns the value of bytes, whose record has these headers."""
        return self._read(data, headers)

    def _write_alone(self, value: T) -> bytes:
        return self._write(value, Headers())

    def _read_alone(self, data: bytes) -> T:
        return self._read(data, Headers())


class _OfRecord(Serde[T]):
    """A serde that takes headers, with those of one record: one is made for each, so it has no functions to set."""

    __slots__ = ("_headers", "_of")

    exact = write_exact = None

    def __init__(self, of: HeadersSerde[T], headers: Headers) -> None:
        self._of = of
        self._headers = headers

    @property
    def name(self) -> str:  # type: ignore[override]
        return self._of.name

    def serialize(self, value: T) -> bytes:
        return self._of.write(value, self._headers)

    def deserialize(self, data: bytes) -> T:
        return self._of.read(data, self._headers)


class CurrentHeaders:
    """The headers of the record that is read or written now, for readers and writers that are made once."""

    def __init__(self) -> None:
        self.now = Headers()
        """Set it before each record."""

    def handed_to(self, serde: Serde[T]) -> Serde[T]:
        """Returns the serde with the headers that are there at each call; itself if it takes none."""
        if not serde.takes_headers:
            return serde
        return Serde(
            lambda value: serde.with_headers(self.now).serialize(value),
            lambda data: serde.with_headers(self.now).deserialize(data),
            name=serde.name,
        )


class WrappingSerde(Serde[T]):
    """A serde around another one, its inner serde; ``None`` instead of that is the application's default.

    All that is asked of a serde is asked of the inner one; the two functions and the form are those of the class.
    """

    __slots__ = ("inner",)

    inner: Serde[Any] | None

    @property
    def form(self) -> str | None:
        """The name of the bytes around those of the inner serde, the kind of its schema; ``None`` if that is not known.

        Another form is another name, so that rows of the former one are found.
        """
        return None

    @property
    def schema(self) -> SerdeSchema | None:
        """The schema of the inner serde, in the form of this one."""
        return None if self.form is None else schema_around(self.form, {"": self.inner})

    def _around(self, inner: Serde[Any]) -> Serde[T]:
        """Returns the same around another serde. Override it where more than that is given to the class."""
        kind: Callable[[Serde[Any]], Serde[T]] = type(self)
        return kind(inner)

    def _with(self, inner: Serde[Any] | None) -> Serde[T]:
        return self if inner is self.inner or inner is None else self._around(inner)

    def with_default(self, default: Serde[Any]) -> Serde[T]:
        """Returns the serde with the default in what its inner one leaves to it."""
        return self._with(with_default(self.inner, default))

    @property
    def is_complete(self) -> bool:
        """Whether the inner serde is known, and complete."""
        return self.inner is not None and self.inner.is_complete

    def bind(self, topic: str, *, is_key: bool) -> Serde[T]:
        """Returns the serde with its inner one bound to the topic, for values inside of a message."""
        return self._with(None if self.inner is None else self.inner.bind(topic, is_key=is_key).inside())

    @property
    def takes_headers(self) -> bool:
        """Whether the inner serde does."""
        return self.inner is not None and self.inner.takes_headers

    def with_headers(self, headers: Headers) -> Serde[T]:
        """Returns the serde with its inner one for a record with these headers."""
        return self._with(None if self.inner is None else self.inner.with_headers(headers))


def with_default(given: Serde[Any] | None, default: Serde[Any] | None) -> Serde[Any] | None:
    """Returns the serde given, with the default in what it leaves to it; the default if there is none."""
    if given is None:
        return default
    return given if default is None else given.with_default(default)


SerdeProvider = Callable[[Any], "Serde[Any] | None"]
"""A function from a class to the serde of its objects, or from the name of a format; ``None`` if it knows neither."""

_PROVIDERS: list[SerdeProvider] = []


def register_serde_provider(provider: SerdeProvider) -> None:
    """Adds a provider of serdes that need more than the standard library; it is asked when one is first needed."""
    _PROVIDERS.append(provider)


def provided_serde(given: Any) -> Serde[Any] | None:
    """Returns the serde that the first provider has for a class or a format; ``None`` if none has one."""
    for provider in _PROVIDERS:
        found = provider(given)
        if found is not None:
            return found
    return None


def _write_string(value: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError as error:  # Java writes a question mark, which makes one key of several
        wrong = f"has half of a surrogate pair at index {error.start}, which UTF-8 does not have"
        raise ValueError(f"string: {repr_of(value)} {wrong}") from None
    except AttributeError:
        raise TypeError(f"string: expected a str, got {type(value).__name__}") from None


def _read_string(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:  # Java puts the replacement character, which makes one key of several
        raise ValueError(f"string: the bytes {repr_of(data)} are not UTF-8, from index {error.start} on") from None


def _exact_string(value: object) -> bool:
    if type(value) is not str:
        return False
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


class _BuiltIn(Serde[T]):
    """A serde of one type of Kafka's.

    :param given: returns the value that JSON stands for.
    :param typed: returns the value that a text stands for, which is not ``null``; ``None`` if that is one too.
    """

    __slots__ = ("_given", "_typed")

    def __init__(
        self,
        *functions: Callable[[Any], Any],
        given: Callable[[Any], T],
        typed: Callable[[str], T] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(*functions, **more)
        self._given = given
        self._typed = typed

    def from_json(self, given: Any) -> T:
        return self._given(given)

    def from_text(self, text: str) -> T | None:
        if self._typed is None:
            return self._given(text)
        return None if text == "null" else self._typed(text)


def _only(kind: type[T], what: str) -> Callable[[Any], T]:
    def given(value: Any) -> T:
        if type(value) is not kind:
            raise expected(what)
        return value

    return given


def _given_uuid(value: Any) -> uuid_module.UUID:
    try:
        return value if isinstance(value, uuid_module.UUID) else uuid_module.UUID(value)
    except (ValueError, AttributeError, TypeError):
        raise expected("a UUID such as 6ba7b810-9dad-11d1-80b4-00c04fd430c8") from None


def _typed_boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise expected("true or false")
    return text == "true"


def _nothing(value: Any) -> Any:
    raise expected("null")


def _number(code: str, name: str, low: int, high: int) -> Serde[int]:
    packer = struct.Struct(">" + code)
    pack, unpack, size = packer.pack, packer.unpack, packer.size

    def write(value: int) -> bytes:
        if type(value) is bool:
            raise TypeError(f"{name}: expected an int, got {repr_of(value)}")
        try:
            return pack(value)
        except struct.error:
            raise ValueError(f"{name}: {repr_of(value)} is not an integer from {low} to {high}") from None

    def read(data: bytes) -> int:
        if len(data) != size:
            raise ValueError(f"{name}: expected {size} bytes, got {len(data)}")
        value: int = unpack(data)[0]
        return value

    def exact(value: object) -> bool:
        return type(value) is int and low <= value <= high

    typed = number_of_text(int, "an integer")
    given = _only(int, "an integer")
    return _BuiltIn(write, read, name=name, exact=exact, write_exact=pack, given=given, typed=typed)


def _float(code: str, name: str) -> Serde[float]:
    packer = struct.Struct(">" + code)
    pack, unpack, size = packer.pack, packer.unpack, packer.size

    def write(value: float) -> bytes:
        if type(value) is not float:
            value = _as_float(value, name)
        try:
            return pack(value)
        except (struct.error, OverflowError):
            raise ValueError(f"{name}: {repr_of(value)} is not a number it can hold") from None

    def read(data: bytes) -> float:
        if len(data) != size:
            raise ValueError(f"{name}: expected {size} bytes, got {len(data)}")
        value: float = unpack(data)[0]
        return value

    exact = (lambda value: type(value) is float) if code == "d" else None
    return _BuiltIn(write, read, name=name, exact=exact, given=number_of_json, typed=number_of_json)


def _as_float(value: Any, name: str) -> float:
    """Returns a number of another type as a float.

    :raises ValueError: if no float is equal to it.
    """
    try:
        found = float(value)
        is_number = type(value) is not bool and not isinstance(value, (str, bytes, bytearray))
        if is_number and (found == value or (found != found and isinstance(value, float))):
            return found
    except Exception:  # also whatever its own methods raise
        pass
    raise ValueError(f"{name}: {repr_of(value)} is not a number it can hold")


def _write_bytes(given: bytes) -> bytes:
    if type(given) is bytes:
        return given
    value: Any = given
    if isinstance(value, (bytes, bytearray)) or (isinstance(value, memoryview) and value.itemsize == 1):
        return bytes(value)
    raise TypeError(f"bytes: expected bytes, got {type(value).__name__}")


def _write_bool(value: bool) -> bytes:
    if type(value) is not bool:
        raise TypeError(f"boolean: expected a bool, got {repr_of(value)}")
    return b"\x01" if value else b"\x00"


def _read_bool(data: bytes) -> bool:
    if data == b"\x01":
        return True
    if data == b"\x00":
        return False
    raise ValueError(f"boolean: expected one byte, 0 or 1, got {data!r}")


def _write_uuid(value: uuid_module.UUID) -> bytes:
    given: object = value
    if not isinstance(given, uuid_module.UUID):
        raise TypeError(f"uuid: expected a UUID, got {repr_of(value)}")
    return str(value).encode()


def _read_uuid(data: bytes) -> uuid_module.UUID:
    match = _UUID.fullmatch(data)
    if match is None or len(data) > 36:
        raise ValueError(f"uuid: {data!r} is not the text of a UUID")
    # As Java, it fills short groups with zeros; Java also cuts long ones, which makes one key of several.
    value = 0
    for group, bits in zip(match.groups(), (32, 16, 16, 16, 48), strict=True):
        value = value << bits | int(group, 16)
    return uuid_module.UUID(int=value)


def _write_void(value: None) -> bytes:
    raise ValueError(f"void: only None can be written, got {repr_of(value)}")


def _read_void(data: bytes) -> None:
    raise ValueError(f"void: expected no bytes, got {len(data)}")


class _JsonSerde(Serde[Any]):
    """The serde of JSON, whose functions are provided when they are first read: the quickest library may be another
    package. From then on they are plain attributes."""

    __slots__ = ()

    writes_json = True

    def __init__(self) -> None:
        self.name = "json"
        self.exact = self.write_exact = None

    def __getattr__(self, attribute: str) -> Any:
        if attribute not in ("serialize", "deserialize"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {attribute!r}")
        found = provided_serde("json")
        if found is None:
            raise ImportError("JSON is written and read by the package streams: import it first", name="streams")
        self.serialize, self.deserialize = found.serialize, found.deserialize
        return getattr(self, attribute)

    def plain(self, data: bytes) -> Any:
        return self.deserialize(data)

    def from_json(self, given: Any) -> Any:
        return json_of(given)

    @property
    def schema(self) -> SerdeSchema | None:
        """The schema of values of any form."""
        return SerdeSchema(
            "json-schema", "{}", lambda kind, text: () if kind == "json-schema" else other_kind(kind, text, "json")
        )

    def bind(self, topic: str, *, is_key: bool) -> Serde[Any]:
        """Returns the serde itself for values; one that sorts the names of objects for keys, so that equal keys have
        equal bytes and one partition."""
        return provided_serde("json key") or self if is_key else self


class Serdes:
    """Kafka's own serdes, byte for byte, and JSON. Each is a value, not a factory: ``Serdes.STRING``.

    Wherever a serde is taken, in code and in settings, its name in small letters will do: ``"string"``::

        from streams import Serdes

        assert Serdes.STRING.serialize("abc") == b"abc"
        assert Serdes.LONG.serialize(3) == bytes([0, 0, 0, 0, 0, 0, 0, 3])
        assert Serdes.LONG.deserialize(bytes([0, 0, 0, 0, 0, 0, 1, 0])) == 256
    """

    STRING: Serde[str] = _BuiltIn(
        _write_string,
        _read_string,
        name="string",
        exact=_exact_string,
        write_exact=str.encode,
        given=_only(str, "a text"),
    )
    """Text in UTF-8."""
    BYTES: Serde[bytes] = _BuiltIn(
        _write_bytes, bytes, name="bytes", exact=lambda value: type(value) is bytes, given=bytes_of_json
    )
    """Bytes as they are."""
    INTEGER: Serde[int] = _number("i", "integer", -(1 << 31), (1 << 31) - 1)
    """32 bits, big-endian."""
    LONG: Serde[int] = _number("q", "long", -(1 << 63), (1 << 63) - 1)
    """64 bits, big-endian."""
    SHORT: Serde[int] = _number("h", "short", -(1 << 15), (1 << 15) - 1)
    """16 bits, big-endian."""
    FLOAT: Serde[float] = _float("f", "float")
    """32-bit IEEE 754: the number of 32 bits that is nearest, so that most of Python's floats lose digits."""
    DOUBLE: Serde[float] = _float("d", "double")
    """64-bit IEEE 754, as Python's floats."""
    BOOLEAN: Serde[bool] = _BuiltIn(
        _write_bool,
        _read_bool,
        name="boolean",
        exact=lambda value: type(value) is bool,
        given=_only(bool, "true or false"),
        typed=_typed_boolean,
    )
    """One byte, 0 or 1."""
    UUID: Serde[uuid_module.UUID] = _BuiltIn(_write_uuid, _read_uuid, name="uuid", given=_given_uuid, typed=_given_uuid)
    """The 36-character text form, as Java writes it."""
    VOID: Serde[Any] = _BuiltIn(_write_void, _read_void, name="void", given=_nothing, typed=_nothing)
    """The serde of keys or values that are always null."""
    JSON: Serde[Any] = _JsonSerde()
    """The values that JSON has, compact and in UTF-8; objects that are keys of records have their names sorted."""
