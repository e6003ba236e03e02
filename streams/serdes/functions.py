"""Makes a serde from two functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, SupportsIndex, TypeVar

from processor_api.serde import Serde

T = TypeVar("T")


def serde_of(serialize: Callable[[T], bytes], deserialize: Callable[[bytes], T], *, name: str = "custom") -> Serde[T]:
    """Returns a serde that calls ``serialize`` with a value and ``deserialize`` with its bytes; neither ever sees
    ``None``.

    ::

        numbers = serde_of(lambda number: str(number).encode(), int, name="decimal")
        readings = builder.stream("readings", Consumed(key_serde="string", value_serde=numbers))
        # readings("roof", 40) -> readings("roof", 40)

    :param name: for messages.
    :raises TypeError: if either cannot be called.
    """
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
