"""The class of a result is read from an annotation, and only where it is certain."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, NewType, Optional, Self, TypeVar, Union
from uuid import UUID

import pytest
from pydantic import BaseModel

from processor_api.processor import FixedKeyProcessor, Processor
from processor_api.user_code.result_types import pair_types, result_type, type_arguments

if TYPE_CHECKING:
    from somewhere import Unknown  # type: ignore[import-not-found]

T = TypeVar("T")
Number = NewType("Number", str)


@dataclass
class Order:
    cents: int = 0

    def doubled(self) -> Self:
        return self

    @classmethod
    def parsed(cls, text: str) -> Self:
        return cls(int(text))

    def __call__(self, value: Any) -> Order | None: ...


class Model(BaseModel):
    cents: int


class Plain:
    pass


def order(value: Any) -> Order: ...
def order_or_null(value: Any) -> Optional[Order]: ...  # noqa: UP045
def null_or_order(value: Any) -> Order | None: ...
def noted(value: Any) -> Annotated[Order, "a note"]: ...
def number(value: Any) -> Number: ...
def kind(value: Any) -> Literal["new", "old"]: ...
def either(value: Any) -> Union[int, str]: ...  # noqa: UP007
def anything(value: Any) -> Any: ...
def a_dict(value: Any) -> dict[str, int]: ...
def a_list(value: Any) -> list[Order]: ...
def plain(value: Any) -> Plain: ...
def generic(value: T) -> T: ...
def unknown(value: Any) -> Unknown: ...
def nothing(value: Any) -> None: ...
def mixed(value: Any) -> Literal["a", 1]: ...
def bare(value): ...  # type: ignore[no-untyped-def]


@functools.wraps(order)
def wrapped(*given: Any) -> Any: ...


@functools.cache
def cached(value: Any) -> UUID: ...


def with_local_class() -> Callable[[int], Any]:
    @dataclass
    class Local:
        number: int

    def made(value: int) -> Local:
        return Local(value)

    return made


@pytest.mark.parametrize(
    ("function", "found"),
    [
        (order, "Order"),
        (order_or_null, "Order"),
        (null_or_order, "Order"),
        (noted, "Order"),
        (number, "str"),
        (kind, "str"),
        (Order, "Order"),
        (int, "int"),
        (Order().doubled, "Order"),
        (Order.parsed, "Order"),
        (Order(), "Order"),
        (Model.model_validate, "Model"),
        (Model.model_validate_json, "Model"),
        (functools.partial(order, 1), "Order"),
        (functools.partial(Order, 1), "Order"),
        (wrapped, "Order"),
        (cached, "UUID"),
        (with_local_class(), "Local"),
        *((one, None) for one in (either, anything, a_dict, a_list, plain, generic, unknown, nothing, mixed, bare)),
        *((one, None) for one in (len, str.upper, lambda value: value, 5, None, list, dict, Plain, Order.doubled)),
    ],
)
def test_a_class_is_found_if_it_is_certain(function: Any, found: str | None) -> None:
    result = result_type(function)
    assert (None if result is None else result.kind.__name__) == found


def test_the_reason_names_the_function_and_its_line() -> None:
    found = result_type(order)
    assert found is not None
    assert found.why.startswith("order at ")
    assert found.why.endswith(f"test_result_types.py:{order.__code__.co_firstlineno} returns Order")
    assert getattr(result_type(Order), "why", None) == "the class Order is called"


def items(value: Any) -> list[Order | ValueError]: ...
def item_tuple(value: Any) -> tuple[Order, ...]: ...
def generated(value: Any) -> Iterator[Order]:
    yield Order()


def pair(key: Any, value: Any) -> tuple[str, Order | None]: ...
def pairs(key: Any, value: Any) -> Iterator[tuple[str, Order]]:
    yield "", Order()


def triple(key: Any, value: Any) -> tuple[str, Order, int]: ...
def text(value: Any) -> str: ...
def different(value: Any) -> tuple[int, str]: ...


def test_several_results_have_the_class_of_the_items() -> None:
    for function in (items, item_tuple, generated):
        found = result_type(function, several=True)
        assert found is not None
        assert found.kind is Order
    assert [result_type(one, several=True) for one in (text, order, a_dict, different, bare)] == [None] * 5


def test_pairs_have_a_class_of_keys_and_one_of_values() -> None:
    for one in (pair_types(pair), pair_types(pairs, several=True)):
        assert [getattr(part, "kind", None) for part in one] == [str, Order]
    assert [pair_types(one) for one in (pairs, triple, item_tuple, order, bare)] == [(None, None)] * 5


class Named(Processor[str, int, str, Order]):
    def process(self, record: Any) -> None: ...


class Open(Processor[T, int, T, Order], Generic[T]):
    def process(self, record: Any) -> None: ...


class Bare(Processor):  # type: ignore[type-arg]
    def process(self, record: Any) -> None: ...


class Below(Named):
    pass


def supplier() -> Named:
    return Named()


def test_a_processor_has_the_classes_of_its_type_parameters() -> None:
    for one in (Named, Below, supplier):
        assert [getattr(part, "kind", None) for part in type_arguments(one, Processor)] == [str, int, str, Order]
    assert [getattr(part, "kind", None) for part in type_arguments(Open, Processor)] == [None, int, None, Order]
    assert [type_arguments(one, Processor) for one in (Bare, lambda: Named(), bare)] == [()] * 3
    assert type_arguments(Named, FixedKeyProcessor) == ()
