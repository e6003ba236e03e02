"""Type parameters that are `Any` where nothing determines them, as for a serde that is given by name.

The stub beside this file has their defaults: Python 3.11 has none, and only type checkers use them.
"""

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")
V1 = TypeVar("V1")
V2 = TypeVar("V2")
