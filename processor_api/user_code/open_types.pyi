"""Type parameters that are `Any` where nothing determines them, as for a serde that is given by name."""

from typing import Any

from typing_extensions import TypeVar

K = TypeVar("K", default=Any)
V = TypeVar("V", default=Any)
V1 = TypeVar("V1", default=Any)
V2 = TypeVar("V2", default=Any)
