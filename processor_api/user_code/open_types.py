"""Type parameters that are `Any` where nothing determines them, as for a serde that is given by name.

The stub next to this file has their defaults, because only type checkers use them and Python 3.11 does not have them.
"""

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")
V1 = TypeVar("V1")
V2 = TypeVar("V2")
