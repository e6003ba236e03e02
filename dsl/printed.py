"""Options of printing: where the records of a stream go as text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from dsl.naming import validate_name
from processor_api.errors import TopologyError
from processor_api.texts import repr_of
from processor_api.user_code.calls import explain_calls
from processor_api.user_code.checks import check_fields, check_function

K = TypeVar("K")
V = TypeVar("V")


@explain_calls
@dataclass(frozen=True, kw_only=True)
class Printed(Generic[K, V]):
    """Options of :meth:`KStream.print <dsl.streams.KStream.print>`: where the lines go, and what they say.

    A line is ``[label]: key, value``.

    ::

        orders.print(Printed(label="order", mapper=lambda customer, item: f"{item} for {customer}"))
        # ("ann", "tea") -> print("[order]: tea for ann")

    :raises TopologyError: if the name is illegal, the path is not a path, or its directory is not there.
    """

    path: str | Path | None = None
    """The file to whose end the lines are added; ``None`` is the standard output. A relative path is made absolute
    here."""
    label: str | None = None
    """The text in front of each line; ``None`` is the name of the stream's node."""
    mapper: Callable[[K, V], object] | None = None
    """``mapper(key, value)`` is printed instead of ``key, value``."""
    name: str | None = None
    """The name of the node that prints."""

    def __post_init__(self) -> None:
        if self.name is not None:
            validate_name(self.name)
        check_fields(self, type(self).__name__)
        label: object = self.label
        if label is not None and not isinstance(label, str):
            raise TopologyError(f"the label of printed records must be a string, got {repr_of(label)}")
        if self.mapper is not None:
            check_function(self.mapper, "mapper", type(self).__name__, ("key", "value"), returns=True)
        given: object = self.path
        if given is not None and (not isinstance(given, str | Path) or not str(given)):
            raise TopologyError(f"the file for printed records must be a path, got {repr_of(given)}")
        if self.path is not None:  # a task opens it later, perhaps when the working directory is another one
            object.__setattr__(self, "path", Path(self.path).absolute())
        if self.path is not None and not Path(self.path).parent.is_dir():
            raise TopologyError(f"records cannot be printed to file {str(self.path)!r}: create its directory")

    @classmethod
    def to_sys_out(cls) -> Printed[Any, Any]:
        """Returns options that print to the standard output (Java: ``Printed.toSysOut``).

        ::

            orders.print(Printed.to_sys_out())
            # ("ann", "tea") -> print("[KSTREAM-SOURCE-0000000000]: ann, tea")
        """
        return Printed()

    @classmethod
    def to_file(cls, path: str | Path) -> Printed[Any, Any]:
        """Returns options that print to the end of a file (Java: ``Printed.toFile``, which empties the file first).

        ::

            orders.print(Printed.to_file("orders.txt"))

        :raises TopologyError: if there is no such path, or its directory is not there.
        """
        if path is None:
            raise TopologyError("the file for printed records must be a path, got None; see Printed.to_sys_out")
        return Printed(path=path)
