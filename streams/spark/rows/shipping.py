"""Work that travels to executors: as bytes, and as text, since options of data sources are text."""

from __future__ import annotations

import io
import pickle
import sys
from base64 import b64decode, b64encode
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from processor_api.texts import kind_and_text, repr_of
from streams.spark.errors import SerdeNotPicklable, SparkBridgeError

cloudpickle: Any
try:
    cloudpickle = import_module("pyspark.cloudpickle")
except ImportError:  # without Spark
    cloudpickle = import_module("cloudpickle.cloudpickle")

_Pickler: Any = cloudpickle.CloudPickler
_by_value: Any = cloudpickle.list_registry_pickle_by_value
"""Returns the names of the modules whose functions and classes are sent with their code."""

PLAN = "plan_with_secrets"
"""The option that holds the description. It may hold passwords of Kafka; Spark hides options of such a name."""


class _ShippingPickler(_Pickler):  # type: ignore[misc]
    """A pickler that sends the functions and classes of a script with their code, and sentinels by their name.

    A sentinel is compared by identity, so a copy of one is another value. A dataclass of a script holds several of the
    module ``dataclasses``, such as ``MISSING``; without them it has no fields, or defaults that are not in its source.
    """

    def reducer_override(self, value: Any) -> Any:
        """Returns how a value is made again: a sentinel is looked up in its module."""
        if _may_be_sentinel(value) and (found := _name_of(value)) is not None:
            return _named, found
        return super().reducer_override(value)


def dumps(value: Any) -> bytes:
    """Pickles a value for another process; functions and classes that no module has are pickled with their code."""
    with io.BytesIO() as file:
        _ShippingPickler(file).dump(value)
        return file.getvalue()


SHIP = (
    "install it on the machines of the executors, or ship it: --py-files of spark-submit, or"
    " spark.addArtifacts(FILE, pyfile=True), which Spark Connect takes too"
)
"""The advice where executors have no module of the user."""


def loads(data: bytes) -> Any:
    """Makes a value again that :func:`dumps` pickled.

    :raises SparkBridgeError: if a module that it needs is not here.
    """
    try:
        return pickle.loads(data)
    except ModuleNotFoundError as error:
        raise SparkBridgeError(f"a Spark executor has no module {repr_of(error.name)}: {SHIP}") from error


def _may_be_sentinel(value: Any) -> bool:
    """Whether a value is an instance of a class that says nothing of copies, and has no state that is public."""
    kind: Any = type(value)
    if kind is object:
        return True
    if isinstance(value, type) or any(getattr(kind, name) is not getattr(object, name) for name in _OF_COPIES):
        return False
    return kind.__module__ == "dataclasses" or not (getattr(value, "__dict__", None) or _has_slots(kind))


_OF_COPIES = ("__reduce__", "__reduce_ex__")
"""The methods by which a class says how its instances are copied."""


def _has_slots(kind: type) -> bool:
    return any(getattr(base, "__slots__", ()) for base in kind.__mro__) or kind.__basicsize__ > _PLAIN_BYTES


class _Plain:
    """A class whose instances have no state."""


_PLAIN_BYTES = _Plain.__basicsize__


def _name_of(value: Any) -> tuple[str, str] | None:
    """Returns the module in which a sentinel is, and its name there; ``None`` if no module that others can import has
    it."""
    kind = type(value)
    modules = list(sys.modules) if kind is object else [kind.__module__]
    for module in modules:
        for name, found in _variables(module):
            if found is value:
                return module, name
    return None


def _variables(module: str) -> Iterator[tuple[str, Any]]:
    """Yields the variables of a module that executors can import too."""
    found = sys.modules.get(module)
    by_value: set[str] = _by_value()
    if module == "__main__" or getattr(found, "__spec__", None) is None or module.partition(".")[0] in by_value:
        return
    yield from list(vars(found).items())


def _named(module: str, name: str) -> Any:
    return getattr(import_module(module), name)


def packed(plan: Any) -> str:
    """Returns a description as text.

    :raises SerdeNotPicklable: if a serde in it, or a client's setting, cannot be sent to another process.
    """
    try:
        return b64encode(dumps(plan)).decode()
    except Exception as error:
        raise SerdeNotPicklable(
            f"a serde or a client's setting cannot be sent to the executors: {kind_and_text(error)}; make it"
            " of functions of a module, without locks, clients or open files"
        ) from error


def unpacked(text: str) -> Any:
    """Returns the description that :func:`packed` wrote.

    :raises SparkBridgeError: if a module that it needs is not here.
    """
    return loads(b64decode(text))
