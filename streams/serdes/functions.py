"""Makes a serde from two functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from processor_api.serde import Serde

__all__ = ["serde_of"]

T = TypeVar("T")


def serde_of(serialize: Callable[[T], bytes], deserialize: Callable[[bytes], T], *, name: str = "custom") -> Serde[T]:
    """Returns a serde that calls ``serialize`` with a value and ``deserialize`` with its bytes; neither ever sees
    ``None``.

    :param name: for messages.
    :raises TypeError: if either cannot be called.
    """
    return Serde(serialize, deserialize, name=name)
