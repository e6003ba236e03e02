"""Type parameters that are `Any` where nothing determines them, as for a serde that is given by name."""

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import typing_extensions

    K = typing_extensions.TypeVar("K", default=Any)
    V = typing_extensions.TypeVar("V", default=Any)
    V1 = typing_extensions.TypeVar("V1", default=Any)
    V2 = typing_extensions.TypeVar("V2", default=Any)
else:  # Python 3.11 has no defaults of type parameters, and only type checkers use them.
    K = TypeVar("K")
    V = TypeVar("V")
    V1 = TypeVar("V1")
    V2 = TypeVar("V2")
