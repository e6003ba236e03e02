"""Pydantic models, and anything else pydantic has a schema for, as JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import is_dataclass
from functools import partial
from typing import Any, TypeVar, overload

from pydantic import BaseModel, TypeAdapter

from processor_api.serde import Serde
from processor_api.texts import kind_and_text, repr_of
from processor_api.user_code.given_values import check_flags
from streams.serdes.functions import MadeSerde

T = TypeVar("T")


class ModelSerde(MadeSerde[T]):
    """A serde of JSON that is described by a schema, with the arguments of :class:`MadeSerde`.

    :param schema: returns the JSON schema of the values.
    :param validate: returns the value that an object of Python, such as a dict, stands for.
    """

    __slots__ = ("json_schema", "validate")

    def __init__(
        self,
        *functions: Callable[[Any], Any],
        schema: Callable[[], dict[str, Any]],
        validate: Callable[[Any], T],
        **made: Any,
    ) -> None:
        super().__init__(*functions, **made)
        self.json_schema = schema
        self.validate = validate


@overload
def pydantic_serde(model: type[T], *, exclude_none: bool = ..., exclude_unset: bool = ...) -> Serde[T]: ...
@overload
def pydantic_serde(model: Any, *, exclude_none: bool = ..., exclude_unset: bool = ...) -> Serde[Any]: ...


def pydantic_serde(model: Any, *, exclude_none: bool = False, exclude_unset: bool = False) -> Serde[Any]:
    """Returns a serde that writes JSON under the fields' aliases, and validates what it reads.

    A value that is not of the type is refused when it is written. What is read and does not fit raises pydantic's
    ``ValidationError``, a ``ValueError``.

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
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(model)
        write_json = adapter.serializer.to_json
    except Exception as error:
        raise TypeError(
            f"a model is a class that pydantic knows, got {repr_of(model)}: {kind_and_text(error)}"
        ) from error
    to_json = partial(
        write_json,
        by_alias=True,
        warnings="error",
        exclude_none=exclude_none,
        exclude_unset=exclude_unset,
    )

    def write_instance(value: Any) -> bytes:
        if not isinstance(value, model):  # pydantic writes a dataclass given for a model as an empty object
            raise TypeError(f"{name}: expected {model.__name__}, got {type(value).__name__}")
        return to_json(value)

    name = f"pydantic {getattr(model, '__name__', model)}"
    checked = isinstance(model, type) and (issubclass(model, BaseModel) or is_dataclass(model))
    again = partial(pydantic_serde, model, exclude_none=exclude_none, exclude_unset=exclude_unset)
    write = write_instance if checked else to_json
    return ModelSerde(
        write,
        adapter.validator.validate_json,
        name=name,
        made_by=again,
        schema=partial(adapter.json_schema, by_alias=True),
        validate=adapter.validate_python,
    )
