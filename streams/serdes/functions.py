"""Makes a serde from two functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, SupportsIndex, TypeVar, overload

from processor_api.record import Headers
from processor_api.serde import HeadersSerde, Serde
from processor_api.user_code.checks import takes
from processor_api.user_code.function_code import named_function, why_not_plain
from processor_api.user_code.given_values import check_flags

T = TypeVar("T")


@overload
def serde_of(
    serialize: Callable[[T], bytes],
    deserialize: Callable[[bytes], T],
    *,
    name: str = ...,
    with_headers: Literal[False] = ...,
) -> Serde[T]: ...
@overload
def serde_of(
    serialize: Callable[[T, Headers], bytes],
    deserialize: Callable[[bytes, Headers], T],
    *,
    name: str = ...,
    with_headers: Literal[True],
) -> Serde[T]: ...
def serde_of(
    serialize: Callable[..., bytes],
    deserialize: Callable[..., Any],
    *,
    name: str = "custom",
    with_headers: bool = False,
) -> Serde[Any]:
    """Returns a serde that calls ``serialize`` with a value and ``deserialize`` with its bytes; neither ever sees
    ``None``.

    ::

        numbers = serde_of(lambda number: str(number).encode(), int, name="decimal")
        readings = builder.stream("readings", Consumed(key_serde="string", value_serde=numbers))
        # readings("roof", 40) -> readings("roof", 40)

    With headers both are called with the record's headers behind the value or the bytes. They read them, and
    ``serialize`` may add some, which are then written with the record::

        def write(text, headers):
            headers.add("encoding", b"utf-16")
            return text.encode("utf-16")

        def read(data, headers):
            return data.decode((headers.last("encoding") or b"utf-8").decode())

        texts = serde_of(write, read, name="text", with_headers=True)
        notes = builder.stream("notes", Consumed(key_serde="string", value_serde=texts))

    :param name: for messages.
    :param with_headers: whether both functions take headers as their second argument.
    :raises TypeError: if either cannot be called, is made by ``async def``, or takes other arguments.
    :raises TopologyError: if ``with_headers`` is not a boolean.
    """
    check_flags(with_headers=with_headers)
    headers = ("headers",) if with_headers else ()
    given = (("serialize", serialize, ("value", *headers)), ("deserialize", deserialize, ("data", *headers)))
    for argument, function, arguments in given:
        if why := why_not_plain(function):
            raise TypeError(
                f"serde_of calls its {argument} for each record and uses the result, but {named_function(function)}"
                f" {why}: pass a plain function"
            )
        if not takes(function, arguments):
            raise TypeError(
                f"serde_of calls its {argument} with ({', '.join(arguments)}), and {named_function(function)} takes"
                " other arguments"
            )
    if with_headers:
        return HeadersSerde(serialize, deserialize, name=name)
    return Serde(serialize, deserialize, name=name)


class MadeSerde(Serde[T]):
    """A serde that is pickled as the call that makes it, since its two functions cannot be.

    :param made_by: makes an equal serde.
    """

    __slots__ = ("_made_by",)

    def __init__(
        self,
        serialize: Callable[[T], bytes],
        deserialize: Callable[[bytes], T],
        *,
        name: str,
        made_by: Callable[[], Serde[T]],
    ) -> None:
        super().__init__(serialize, deserialize, name=name)
        self._made_by = made_by

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        return self._made_by, ()
