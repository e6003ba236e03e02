"""The calls that change a store, of whatever kind it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NoReturn

from processor_api.errors import StoreError

__all__ = ["WRITES", "RefusesWrites"]


class RefusesWrites(ABC):
    """A store that is only read where it stands."""

    @abstractmethod
    def _refusal(self) -> StoreError:
        """Why it is not written."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise self._refusal()

    put = put_if_absent = put_all = delete = remove = _refuse


WRITES = frozenset(name for name, call in vars(RefusesWrites).items() if call is RefusesWrites.put) - {"_refuse"}
"""Their names."""
