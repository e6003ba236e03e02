"""Pydantic models, and anything else pydantic has a schema for, as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import cache, partial
from typing import Any, TypeVar, overload

from pydantic import BaseModel, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import GenerateJsonSchema

from processor_api.forms.json_values import as_json
from processor_api.serde import Serde, SerdeSchema, never_null
from processor_api.texts import kind_and_text, repr_of
from processor_api.user_code.given_serdes import class_of
from processor_api.user_code.given_values import check_flags
from streams.schemas.json_schemas import schema_of_json
from streams.serdes.functions import MadeSerde
from streams.serdes.json import json_serde
from streams.serdes.model_forms import check_read_back, one_form
from streams.serdes.model_shape import MOST_DIGITS, exact_check, has_long_integer, reads_more, shape_of

T = TypeVar("T")

_REPLACED = "\ufffd".encode()
_write_json = never_null(json_serde(use_orjson=False).serialize)
"""Writes floats with the same digits in each process, whichever libraries it has."""


class ModelSerde(MadeSerde[T]):
    """A serde of JSON that is described by a schema, with the arguments of :class:`MadeSerde`.

    :param schema: returns the JSON schema of what is read.
    :param kept: returns what stores keep of it with their rows.
    :param validate: returns the value that an object of Python, such as a dict, stands for.
    :param write_key: writes equal values with equal bytes; ``None`` if ``serialize`` does.
    """

    __slots__ = ("_kept", "_write_key", "json_schema", "validate")

    writes_json = True

    def __init__(
        self,
        *functions: Callable[[Any], Any],
        schema: Callable[[], dict[str, Any]],
        kept: Callable[[], SerdeSchema | None],
        validate: Callable[[Any], T],
        write_key: Callable[[Any], bytes] | None = None,
        **made: Any,
    ) -> None:
        super().__init__(*functions, **made)
        self.json_schema = schema
        self._kept = kept
        self.validate = validate
        self._write_key = write_key

    def with_default(self, default: Serde[Any]) -> Serde[T]:
        """Returns the serde itself; for a class that was given as a serde, what the builder writes classes by."""
        models: Any = getattr(default, "models", None)
        kind = None if models is None else class_of(self)
        if kind is None:
            return self
        found: Serde[T] = models.serde_of(kind)
        return self if found is self else found.with_default(default)

    @property
    def schema(self) -> SerdeSchema | None:
        """The JSON schema of what it writes; ``None`` for a type that has none."""
        return self._kept()

    def plain(self, data: bytes) -> Any:
        """Returns the JSON in the bytes."""
        return json.loads(data)

    def of_plain(self, plain: Any) -> T:
        return self.validate(plain)

    def to_json(self, value: T) -> Any:
        """Returns the JSON that is written of a value, or else what looks like it."""
        try:
            return json.loads(self.serialize(value))
        except (TypeError, ValueError):  # it was read from what it would not be written as
            return as_json(value)

    def from_json(self, given: Any) -> T:
        """Returns the value that JSON stands for, or an object of Python, whose strings are not bytes."""
        try:
            text = json.dumps(given)
        except TypeError:  # there are bytes, decimals or times in it
            return self.validate(given)
        return self.deserialize(text.encode())

    def bind(self, topic: str, *, is_key: bool) -> Serde[T]:
        """Returns the serde itself for values; one that writes equal keys with equal bytes for keys."""
        if not is_key or self._write_key is None:
            return self
        return ModelSerde(
            self._write_key,
            self.deserialize,
            name=self.name,
            made_by=partial(_key_serde, self._made_by),
            schema=self.json_schema,
            kept=self._kept,
            validate=self.validate,
        )


class _WholeJsonSchema(GenerateJsonSchema):
    """Makes schemas of what is written where no field is left out: those with a default are there, too."""

    def field_is_required(self, field: Any, total: bool) -> bool:
        """Whether the field is in each object."""
        if field["type"] == "typed-dict-field":  # the key of a dict may be absent
            return super().field_is_required(field, total)
        return not field.get("serialization_exclude")


def _kept_schema(adapter: TypeAdapter[Any], *, leaves_out: bool) -> SerdeSchema | None:
    """Returns the schema that stores keep; it takes some tenths of a millisecond to make.

    :param leaves_out: whether fields may be left out where they are written.
    """
    generator = GenerateJsonSchema if leaves_out else _WholeJsonSchema
    try:
        written = adapter.json_schema(by_alias=True, mode="serialization", schema_generator=generator)
        read = partial(adapter.json_schema, by_alias=True)
        return schema_of_json(written, read, reads_more=reads_more(adapter.core_schema))
    except PydanticInvalidForJsonSchema:
        return None


def _key_serde(made_by: Callable[[], Serde[Any]]) -> Serde[Any]:
    return made_by().bind("", is_key=True)


@overload
def pydantic_serde(model: type[T], *, exclude_none: bool = ..., exclude_unset: bool = ...) -> Serde[T]: ...
@overload
def pydantic_serde(model: Any, *, exclude_none: bool = ..., exclude_unset: bool = ...) -> Serde[Any]: ...


def pydantic_serde(model: Any, *, exclude_none: bool = False, exclude_unset: bool = False) -> Serde[Any]:
    """Returns a serde that writes JSON under the fields' aliases, and validates what it reads.

    A value that is not of the type, or would not come back equal, is refused when it is written (semantics 189): NaN,
    a field that is left out, a subclass with more fields. What is read and does not fit raises pydantic's
    ``ValidationError``, a ``ValueError``. As a key, equal values have equal bytes.

    ::

        from pydantic import BaseModel

        from streams.serdes import pydantic_serde

        class Order(BaseModel):
            item: str
            cents: int

        orders = pydantic_serde(Order)
        assert orders.serialize(Order(item="tea", cents=300)) == b'{"item":"tea","cents":300}'

    :param model: a model class, a dataclass, a ``TypedDict``, a union of these, or any type pydantic knows.
    :param exclude_none: leaves out fields that are ``None``.
    :param exclude_unset: leaves out fields that were not given.
    :raises TypeError: if pydantic can make nothing of it.
    """
    check_flags(exclude_none=exclude_none, exclude_unset=exclude_unset)
    adapter = _adapter(model)
    write_json = adapter.serializer.to_json
    to_json = partial(
        write_json,
        by_alias=True,
        warnings="error",
        exclude_none=exclude_none,
        exclude_unset=exclude_unset,
    )

    name = f"pydantic {getattr(model, '__name__', model)}"
    checked = isinstance(model, type) and (issubclass(model, BaseModel) or is_dataclass(model))
    shape = shape_of(adapter.core_schema)
    if exclude_none or exclude_unset:
        shape = shape._replace(is_uncertain=True, has_many_forms=True)
    read = adapter.validator.validate_json

    def refused(text: str) -> ValueError:
        return ValueError(f"{name}: {text}")

    def write_looked_at(value: Any) -> bytes:
        is_model = not checked or type(value) is model
        if not is_model and not isinstance(value, model):  # pydantic writes a dataclass as an empty object
            raise TypeError(f"{name}: expected {model.__name__}, got {type(value).__name__}")
        data: bytes = to_json(value)
        if is_exact is not None or doubt(data, value) or not is_model:
            check_read_back(read, data, value, refused)
        return data

    # If it receives an option about warnings, pydantic takes a microsecond to read that.
    is_exact = None if shape.is_uncertain else exact_check(adapter.core_schema)
    write: Callable[[Any], bytes] = write_looked_at
    if is_exact is not None:
        write = _quick(is_exact, write_json, write_looked_at, _REPLACED if shape.has_many_forms else None)

    def write_key(value: Any) -> bytes:
        if exclude_unset:
            raise ValueError(
                f"{name}: exclude_unset omits fields that were not given, so equal keys have different bytes"
            )
        write(value)
        tree = adapter.dump_python(value, mode="json", by_alias=True, exclude_none=exclude_none)
        return _write_json(one_form(value, tree))

    doubt = shape.doubt()
    return ModelSerde(
        write,
        read,
        name=name,
        made_by=partial(pydantic_serde, model, exclude_none=exclude_none, exclude_unset=exclude_unset),
        schema=partial(adapter.json_schema, by_alias=True),
        kept=cache(partial(_kept_schema, adapter, leaves_out=exclude_none or exclude_unset)),
        validate=adapter.validate_python,
        write_key=write_key if shape.has_many_forms else None,
    )


def _quick(
    is_exact: Callable[[Any], bool],
    write_json: Callable[..., bytes],
    write: Callable[[Any], bytes],
    replaced: bytes | None,
) -> Callable[[Any], bytes]:
    """Returns a function that writes exact values at once, and all others by ``write``.

    :param replaced: what stands for the half of a surrogate pair in the key of a dict; ``None`` without dicts.
    """

    def write_quick(value: Any) -> bytes:
        try:
            exact = is_exact(value)
        except Exception:  # a field that is not there, or a method of the user's
            exact = False
        if exact:
            data = write_json(value, by_alias=True)
            is_whole = replaced is None or replaced not in data
            if is_whole and (len(data) <= MOST_DIGITS or not has_long_integer(data)):
                return data
        return write(value)

    return write_quick


def core_schema_of(model: Any) -> Any:
    """Returns the schema that pydantic has of a type.

    :raises TypeError: if it can make nothing of the type.
    """
    return _adapter(model).core_schema


def _adapter(model: Any) -> TypeAdapter[Any]:
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(model)
        _ = adapter.serializer.to_json, adapter.validator.validate_python  # a class that is half defined has none
    except Exception as error:
        raise TypeError(
            f"a model must be a class that pydantic supports, got {repr_of(model)}: {kind_and_text(error)}"
        ) from error
    return adapter


def validator_of(model: Any, *, from_json: bool = False) -> Callable[[Any], Any]:
    """Returns the function from an object of Python, such as a dict, to the value of a type that it stands for.

    :param from_json: whether the function takes a text of JSON in its place.
    :raises TypeError: if pydantic can make nothing of the type.
    """
    validator = _adapter(model).validator
    return validator.validate_json if from_json else validator.validate_python
