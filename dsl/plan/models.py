"""Serdes that follow the classes of results: what a function of the user is annotated to return decides on the serde
with which that is written next, unless one is given there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, SupportsIndex

from processor_api.errors import StreamsError, TopologyError
from processor_api.processor import own_serdes
from processor_api.serde import Serde, Serdes, WrappingSerde, with_default
from processor_api.texts import kind_and_text, repr_of
from processor_api.user_code.given_serdes import PROVIDED_NAMES, as_serde, check_serde, value_class
from processor_api.user_code.result_types import PLAIN, ResultType, is_model, pair_types, result_type, type_arguments

ModelSerdes = Callable[[Any], Serde[Any]]
"""A function that returns the serde of a class, such as ``Avro``."""
JSON = "json"
_OF_KAFKA: dict[type, Serde[Any]] = dict(
    zip(PLAIN, (Serdes.STRING, Serdes.BYTES, Serdes.LONG, Serdes.DOUBLE, Serdes.BOOLEAN, Serdes.UUID), strict=True)
)


def read_models(given: Any) -> ModelSerdes | None:
    """Returns the function that makes serdes of classes from the argument ``models`` of a builder.

    :raises TopologyError: if it is neither the name ``"json"`` or ``"avro"`` nor such a function.
    """
    if given is None:
        return None
    if isinstance(given, str) and given == JSON:
        return as_serde
    if isinstance(given, str) and given in PROVIDED_NAMES:
        named: ModelSerdes = type(check_serde(given, "models", "StreamsBuilder"))
        return named
    if isinstance(given, (str, Serde)) or not callable(given) or (isinstance(given, type) and is_model(given)):
        raise TopologyError(
            'models of StreamsBuilder must be "json", "avro" or a function that returns the serde of a class, such as'
            f" Avro, got {repr_of(given)}"
        )
    made: ModelSerdes = given
    return made


class FollowedSerde(Serde[Any]):
    """The serde of a result, which is made where it is used: not each class that a function returns is written.

    It only stands in a plan: the compiler puts the serde itself into the topology.
    """

    __slots__ = ("_models", "model", "why")

    def __init__(self, models: Models, result: ResultType) -> None:
        self._models = models
        self.model = result.kind
        self.why = result.why
        self.name = result.kind.__name__

    def __getattr__(self, attribute: str) -> Any:
        if attribute not in ("serialize", "deserialize", "exact", "write_exact"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {attribute!r}")
        return getattr(self.made(), attribute)

    def made(self) -> Serde[Any]:
        """Returns the serde itself."""
        return self._models.serde_of(self.model, self.why)

    def with_default(self, default: Serde[Any]) -> Serde[Any]:
        """Returns the serde itself, with the default in what it leaves to it."""
        return self.made().with_default(default)


class DefaultWithModels(WrappingSerde[Any]):
    """The default serde of a builder that writes models by a function: classes that are given as serdes get theirs from
    here, also inside of other serdes."""

    __slots__ = ("models",)

    def __init__(self, inner: Serde[Any] | None, models: Models) -> None:
        self.inner = inner
        self.models = models
        found = inner or Serde(_no_serde, _no_serde, name="none")
        super().__init__(found.serialize, found.deserialize, name=found.name, exact=found.exact)

    @property
    def registry(self) -> Any:
        """The schema registry of the default, for serdes that have none; ``None`` if it has none itself."""
        return getattr(self.inner, "registry", None)

    def with_default(self, default: Serde[Any]) -> Serde[Any]:
        """Returns the default of the builder, or that of the application: classes are written already."""
        found = with_default(self.inner, default)
        assert found is not None
        return found

    def bind(self, topic: str, *, is_key: bool) -> Serde[Any]:
        """Returns the inner serde, bound to the topic."""
        return self if self.inner is None else self.inner.bind(topic, is_key=is_key)

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        """Pickles the inner serde alone: the function that makes serdes may have no name."""
        return _unpickled, (self.inner,)


def _unpickled(inner: Serde[Any] | None) -> Serde[Any] | None:
    return inner


def _no_serde(anything: Any) -> Any:
    raise ValueError("no default serde is set: give key_serde= and value_serde=")


class Models:
    """The way a builder writes classes. Without a function that makes serdes, nothing follows: all is as it was given.

    :param key: the default serde of the builder's keys, if it has one; so ``value``.
    """

    def __init__(
        self, make: ModelSerdes | None = None, key: Serde[Any] | None = None, value: Serde[Any] | None = None
    ) -> None:
        self.make = make
        self._key, self._value = key, value
        self._made: dict[type, Serde[Any]] = {}

    def default(self, serde: Serde[Any] | None) -> Serde[Any] | None:
        """Returns a default serde of the builder, which may be given as a class, too."""
        return serde if serde is None or self.make is None else serde.with_default(DefaultWithModels(None, self))

    def serde_of(self, kind: type, why: str = "") -> Serde[Any]:
        """Returns the serde of a class; the same one for the same class.

        :param why: where the class comes from, for the error.
        :raises TopologyError: if the function makes none.
        """
        found = _OF_KAFKA.get(kind) or self._made.get(kind)
        if found is None:
            found = self._made[kind] = self._new(kind, why)
        return found

    def _new(self, kind: type, why: str) -> Serde[Any]:
        assert self.make is not None
        what = f"models of StreamsBuilder cannot make a serde of {kind.__name__}"
        give = f"give another serde where it is written{why and f', because {why}'}"
        try:
            found: Any = self.make(kind)
        except Exception as error:
            text = error.message if isinstance(error, StreamsError) else kind_and_text(error)
            raise TopologyError(f"{what}: {text}; {give}") from error
        if not isinstance(found, Serde):
            raise TopologyError(f"{what}: it returned {repr_of(found)}, not a serde; {give}")
        serde: Serde[Any] = found
        return serde

    # ------------------------------------------------------------------ what follows

    def value(self, *functions: Any, several: bool = False) -> Serde[Any] | None:
        """Returns the serde of the values that functions return, which must agree; ``None`` if that is not certain.

        :param several: whether they return any number of values.
        """
        if self.make is None:
            return None
        found = [one for function in functions if (one := result_type(function, several=several)) is not None]
        return _followed(self, found[0], self._value) if len({one.kind for one in found}) == 1 else None

    def key(self, function: Any) -> Serde[Any] | None:
        """Returns the serde of the keys that a function returns; ``None`` if that is not certain."""
        return None if self.make is None else _followed(self, result_type(function), self._key)

    def pair(self, function: Any, *, several: bool = False) -> tuple[Serde[Any] | None, Serde[Any] | None]:
        """Returns the serdes of the keys and values that a function returns in pairs."""
        key, value = (None, None) if self.make is None else pair_types(function, several=several)
        return _followed(self, key, self._key), _followed(self, value, self._value)

    def forwarded(self, supplier: Any, base: type) -> tuple[Serde[Any] | None, Serde[Any] | None]:
        """Returns the serdes of the keys and values that a processor forwards, by the last type parameters of a base
        class: both, or the value's alone if it has three."""
        found = () if self.make is None else type_arguments(supplier, base)
        key = found[2] if len(found) > _WITH_KEY else None
        return _followed(self, key, self._key), _followed(self, found[-1] if found else None, self._value)

    def common(self, one: Serde[Any] | None, other: Serde[Any] | None) -> Serde[Any] | None:
        """Returns the serde of two streams in one, if both have values of one class."""
        if self.make is None or one is None or other is None:
            return None
        kind = value_class(one)
        return one if one is other or (kind is not None and kind is value_class(other)) else None


_WITH_KEY = 3


def _followed(models: Models, result: ResultType | None, default: Serde[Any] | None) -> Serde[Any] | None:
    """Returns the serde of a result, unless the builder's default is as good: for text and numbers the user's choice of
    a format such as JSON holds, and a default of their own class does."""
    if result is None:
        return None
    if result.kind in _OF_KAFKA and default is not None and value_class(default) in (None, result.kind):
        return None
    return FollowedSerde(models, result)


def followed_in(node: Any) -> Iterator[str]:
    """Yields which serdes of a node in a plan follow a result, and why, in words."""
    for name, serde in _serdes_in(node):
        inner: Any = serde
        while inner is not None and not isinstance(inner, FollowedSerde):
            inner = getattr(inner, "inner", None)
        if inner is not None:
            yield f"{name} serde {inner.made().name}, because {inner.why}"


def _serdes_in(node: Any) -> Iterator[tuple[str, Any]]:
    for name, serde in own_serdes(getattr(node, "supplier", None)).items():
        yield name.removesuffix("_serde").replace("_", " "), serde
    owners = [node, getattr(node, "produced", None), getattr(node, "store", None), getattr(node, "buffer", None)]
    for owner in (*owners, *getattr(node, "own_stores", ())):
        for name in ("key_serde", "value_serde"):
            if owner is not None:
                yield name.removesuffix("_serde"), getattr(owner, name, None)
