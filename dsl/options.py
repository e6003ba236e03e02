"""Options of operators: names, serdes, stores.

All are frozen values with keyword arguments; ``dataclasses.replace`` makes a changed copy. A serde of ``None`` is the
one that comes down from the operator before, otherwise the application's default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Generic, Protocol, TypeVar, cast

from dsl.naming import validate_name
from processor_api.errors import TopologyError
from processor_api.serde import Serde
from processor_api.stores.custom import KeyValueBytesStoreSupplier
from processor_api.stores.defaults import DslStoreSuppliers
from processor_api.stores.suppliers import StoreSupplier, as_supplier, engine_of_word
from processor_api.stores.time_to_live import TimeToLive
from processor_api.texts import repr_of
from processor_api.timestamps import TimestampExtractor
from processor_api.topology.partitioner import StreamPartitioner
from processor_api.user_code.calls import explain_calls
from processor_api.user_code.checks import check_fields, check_function
from processor_api.user_code.durations import Duration, to_ms
from processor_api.user_code.given_serdes import SerdeOption, is_serde_like, serde_option
from processor_api.user_code.given_values import is_of
from processor_api.user_code.migrating_serde import Migrate
from processor_api.user_code.offset_reset import AutoOffsetReset
from processor_api.user_code.open_types import K, V
from state.engine.registry import check_engine

S = TypeVar("S")


def chosen(given: Any, kind: type[S], *, beside: Sequence[str] = ()) -> S:
    """Returns the options that were given, or those of the kind with nothing set.

    :param beside: arguments of the same call, one of which may be meant.
    :raises TopologyError: if they are of another kind.
    """
    if given is None:
        return kind()
    if not isinstance(given, kind):
        got = f"{type(given).__name__}(...)" if is_dataclass(given) and not isinstance(given, type) else repr_of(given)
        raise TopologyError(f"expected {kind.__name__}(...), got {got}{_meant(given, kind, beside)}")
    return given


def _meant(given: Any, kind: Any, beside: Sequence[str]) -> str:
    """Returns the end of the sentence about something that was given instead of options: the argument that is meant."""
    if not isinstance(given, (str, type, Serde)):
        return ""
    free = [*beside, *(one.name for one in fields(kind))]
    meant = ("value_serde",) if is_serde_like(given) else ("materialized", "name")
    name = next((one for one in meant if one in free), free[0])
    value = given.__name__ if isinstance(given, type) else repr_of(given, 60)
    return f": did you mean {f'{name}={value}' if name in beside else f'{kind.__name__}({name}={value})'}?"


def with_serdes(given: Any, kind: type[S], call: str, key_serde: Any, value_serde: Any) -> S:
    """Returns the options that were given, with serdes that stand beside them in the call.

    :param call: the name of the call, for the error.
    :raises TopologyError: if the options are of another kind, or a serde is given in both places.
    """
    others = ("materialized",) if call in ("table", "global_table") else ()
    how = chosen(given, kind, beside=("key_serde", "value_serde", *others))
    beside = {name: one for name, one in (("key_serde", key_serde), ("value_serde", value_serde)) if one is not None}
    for name in beside:
        if getattr(how, name) is not None:
            raise TopologyError(
                f"{call} has two values for {name}, one in {kind.__name__}(...) and one as an argument: remove one"
            )
    return replace(how, **beside) if beside else how  # type: ignore[type-var]


class StoreOptions(Protocol):
    """Options that choose where stores are, and whether they have changelogs."""

    @property
    def store_type(self) -> DslStoreSuppliers | str | None:
        """The choice of the store, or the name of an engine."""
        ...

    @property
    def logging(self) -> bool:
        """Whether changes go to a changelog topic."""
        ...

    @property
    def topic_config(self) -> Mapping[str, str]:
        """Settings of the changelog topic."""
        ...


def check_store_options(options: StoreOptions, store: str | None) -> None:
    """Checks that options of a store do not contradict each other, and gives an engine its name here.

    :param store: the name of the store, for the error.
    :raises TopologyError: if the choice is none, or there are settings for a changelog that is turned off.
    """
    choice = options.store_type
    if isinstance(choice, str):
        engine = engine_of_word(choice)
        check_engine(engine, store)
        object.__setattr__(options, "store_type", engine)
    elif choice is not None and not is_of(choice, DslStoreSuppliers):
        raise TopologyError(
            f"store_type must be the name of an engine or a DslStoreSuppliers, got {repr_of(choice)}", store=store
        )
    if options.topic_config and not options.logging:
        raise TopologyError(
            "topic_config is for the changelog, but logging=False turns it off: remove one of the two", store=store
        )


def _check(name: str | None) -> None:
    if name is not None:
        validate_name(name)


@explain_calls
@dataclass(frozen=True)
class Named:
    """A name for an operator. Wherever one is taken, a plain string will do.

    ::

        big = payments.filter(lambda customer, cents: cents > 10_000, name=Named("big-payments"))
        same = payments.filter(lambda customer, cents: cents > 10_000, name="too")
        assert repr(big) == "KStream(big-payments)"

    :raises TopologyError: if the name is illegal (see :func:`~dsl.naming.validate_name`).
    """

    name: str

    def __post_init__(self) -> None:
        validate_name(self.name)

    @classmethod
    def as_(cls, name: str) -> Named:
        """Returns a name, as the constructor does (Java: ``Named.as``).

        ::

            big = payments.filter(lambda customer, cents: cents > 10_000, name=Named.as_("big-payments"))
            assert repr(big) == "KStream(big-payments)"
        """
        return cls(name)


NamedLike = str | Named | None


def name_of(named: NamedLike) -> str | None:
    """Returns the name that was given, or ``None``.

    :raises TopologyError: if it is illegal, or no name.
    """
    if named is None:
        return None
    if isinstance(named, Named):
        return named.name
    if not isinstance(named, str):
        raise TopologyError(f"expected a name, got {repr_of(named)}")
    return validate_name(named)


@explain_calls
@dataclass(frozen=True, kw_only=True)
class Consumed(Generic[K, V]):
    """Options of a source: how a topic is read.

    ``timestamp_extractor`` decides over the application's; ``offset_reset`` says where to start without a committed
    offset (KIP-1106).

    ::

        consumed = Consumed(key_serde="string", value_serde="long", offset_reset=AutoOffsetReset.earliest())
        readings = builder.stream("readings", consumed)
        # readings("roof", 40) -> readings("roof", 40)
    """

    key_serde: SerdeOption[K] = serde_option()
    value_serde: SerdeOption[V] = serde_option()
    timestamp_extractor: TimestampExtractor | None = None
    offset_reset: AutoOffsetReset | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        _check(self.name)
        check_fields(self, type(self).__name__)

    @classmethod
    def as_(cls, name: str) -> Consumed[Any, Any]:
        """Returns options with a name, and nothing else set (Java: ``Consumed.as``).

        ::

            readings = builder.stream("readings", Consumed.as_("read-sensors"))
            assert repr(readings) == "KStream(read-sensors)"
        """
        return Consumed(name=name)


@explain_calls
@dataclass(frozen=True, kw_only=True)
class Produced(Generic[K, V]):
    """Options of a sink: how records are written to a topic.

    Without a ``partitioner``, Kafka's default chooses by the key.

    ::

        lines.to("loud", Produced(value_serde="string", name="write-loud"))
        # ("ann", "hello") -> loud("ann", "hello")
    """

    key_serde: SerdeOption[K] = serde_option()
    value_serde: SerdeOption[V] = serde_option()
    partitioner: StreamPartitioner | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        _check(self.name)
        check_fields(self, type(self).__name__)

    @classmethod
    def as_(cls, name: str) -> Produced[Any, Any]:
        """Returns options with a name, and nothing else set (Java: ``Produced.as``).

        ::

            lines.to("loud", Produced.as_("write-loud"))
            assert "Sink: write-loud (topic: loud)" in builder.build().describe()
        """
        return Produced(name=name)


@explain_calls
@dataclass(frozen=True, kw_only=True)
class Grouped(Generic[K, V]):
    """Options of a group: how records are grouped.

    A ``name`` gives the repartition topic the name ``<name>-repartition``, should one be needed.

    ::

        by_item = Grouped(name="by-item", key_serde="string", value_serde="string")
        sold = orders.group_by(lambda customer, item: item, by_item).count()
        # ("ann", "tea"), ("bob", "tea") -> ("tea", 1), ("tea", 2)
    """

    name: str | None = None
    key_serde: SerdeOption[K] = serde_option()
    value_serde: SerdeOption[V] = serde_option()

    def __post_init__(self) -> None:
        _check(self.name)
        check_fields(self, type(self).__name__)

    @classmethod
    def as_(cls, name: str) -> Grouped[Any, Any]:
        """Returns options with a name, and nothing else set (Java: ``Grouped.as``).

        ::

            sold = orders.group_by(lambda customer, item: item, Grouped.as_("by-item")).count()
            assert "topics: [by-item-repartition]" in builder.build().describe()
        """
        return Grouped(name=name)


@explain_calls
@dataclass(frozen=True, kw_only=True)
class Repartitioned(Generic[K, V]):
    """Options of a repartition: the topic is called ``<name>-repartition``.

    ::

        spread = orders.repartition(Repartitioned(name="spread", number_of_partitions=12))
        # ("ann", "tea") -> ("ann", "tea")

    :raises TopologyError: if the number of partitions is below 1.
    """

    name: str | None = None
    key_serde: SerdeOption[K] = serde_option()
    value_serde: SerdeOption[V] = serde_option()
    partitioner: StreamPartitioner | None = None
    number_of_partitions: int | None = None
    """``None``: as many as the widest topic upstream (semantics 103)."""

    def __post_init__(self) -> None:
        _check(self.name)
        check_fields(self, type(self).__name__)
        number: object = self.number_of_partitions
        if number is not None and (type(number) is not int or number < 1):
            raise TopologyError(f"number_of_partitions must be an integer of at least 1, got {repr_of(number)}")

    @classmethod
    def as_(cls, name: str) -> Repartitioned[Any, Any]:
        """Returns options with a name, and nothing else set (Java: ``Repartitioned.as``).

        ::

            spread = orders.repartition(Repartitioned.as_("spread"))
            assert "topics: [spread-repartition]" in builder.build().describe()
        """
        return Repartitioned(name=name)


@explain_calls
@dataclass(frozen=True, kw_only=True)
class Materialized(Generic[K, V]):
    """Options of the store of a table: its name or supplier, serdes, changelog and cache.

    Only a store that has a name (or a supplier, which has one) can be queried. Wherever a ``Materialized`` is taken,
    the name alone will do.

    ::

        from streams import Materialized, Serdes, StreamsBuilder, TopologyTestDriver

        kept = Materialized(name="lengths", key_serde=Serdes.STRING, value_serde=Serdes.LONG, caching=False)
        builder = StreamsBuilder()
        builder.table("texts").map_values(len, materialized=kept)

        settings = {"default.key.serde": "string", "default.value.serde": "string"}
        with TopologyTestDriver(builder.build(), settings) as driver:
            driver.create_input_topic("texts").pipe_input("a", "hello")
            assert driver.get_key_value_store("lengths").get("a") == 5

    :raises TopologyError: if settings contradict each other.
    """

    name: str | None = None
    supplier: StoreSupplier | KeyValueBytesStoreSupplier | None = None
    """A kind of store on an engine, instead of a name and the application's default engine."""
    key_serde: SerdeOption[K] = serde_option()
    value_serde: SerdeOption[V] = serde_option()
    logging: bool = True
    """Whether changes go to a changelog topic, from which the store is restored on another worker."""
    topic_config: Mapping[str, str] = field(default_factory=dict)
    """Settings of the changelog topic, over the built-in ones."""
    caching: bool = True
    """Whether a key's changes are sent on once per commit or eviction, the last one only, rather than each."""
    retention: Duration | None = None
    """How long a window or session is kept, a ``timedelta`` or integer milliseconds; for windowed tables only."""
    store_type: DslStoreSuppliers | str | None = None
    """The choice of the store, such as ``BuiltInDslStoreSuppliers.IN_MEMORY``, or the name of an engine (``"rocksdb"``,
    ``"memory"``, one that is registered); ``None`` is the application's default."""
    time_to_live: TimeToLive | None = None
    """After how long a key that is not used expires; for tables that are not windowed. Nothing is forwarded then."""
    migrate: Migrate | None = None
    """Converts values of an older form: it takes what such a value holds in its plain form (of a model or of ``json``
    the dict, of a list those of its items, of other serdes the bytes) and returns the value of today or its plain form.
    It is called where the value serde cannot read a value; what is put is written in the new form."""

    def __post_init__(self) -> None:
        _check(self.name)
        check_fields(self, type(self).__name__)
        if self.supplier is not None:
            object.__setattr__(self, "supplier", as_supplier(self.supplier))
        if self.supplier is not None and self.name is not None:
            raise TopologyError(f"the supplier names the store {self.supplier.name!r}: remove the name {self.name!r}")
        if self.supplier is not None and self.store_type is not None:
            raise TopologyError("a supplier chooses the engine itself: remove store_type", store=self.supplier.name)
        check_store_options(self, self.store_name)
        if self.migrate is not None:
            check_function(self.migrate, "migrate", "Materialized", ("plain",))
        if self.time_to_live is not None and not isinstance(self.time_to_live, TimeToLive):
            raise TopologyError(
                f"time_to_live must be a TimeToLive(duration, by), got {repr_of(self.time_to_live)}",
                store=self.store_name,
            )
        if self.retention is not None and to_ms(self.retention, "retention") < 0:
            raise TopologyError(f"retention must not be negative, got {repr_of(self.retention)}", store=self.store_name)

    @property
    def store_name(self) -> str | None:
        """The name of the store; ``None`` if it will be generated."""
        return self.name if self.supplier is None else self.supplier.name

    @classmethod
    def as_(cls, store: str | StoreSupplier | KeyValueBytesStoreSupplier | DslStoreSuppliers) -> Materialized[Any, Any]:
        """Returns options with a store's name, supplier or choice, and nothing else set (Java: ``Materialized.as``).

        ::

            counts = clicks.group_by_key().count(materialized=Materialized.as_("clicks-per-user"))
            assert counts.queryable_store_name == "clicks-per-user"

        :raises TopologyError: for ``None``: leave the options out for a store without a name.
        """
        if store is None:
            raise TopologyError(
                "Materialized.as_ needs the name of a store, a supplier or a DslStoreSuppliers, got None"
            )
        if isinstance(store, str):
            return Materialized(name=store)
        if is_of(store, DslStoreSuppliers):
            return Materialized(store_type=cast("DslStoreSuppliers", store))
        return Materialized(supplier=cast("StoreSupplier | KeyValueBytesStoreSupplier", store))


@explain_calls
@dataclass(frozen=True, kw_only=True)
class Branched(Generic[S]):
    """Options of a branch of a split stream.

    Its name in the resulting dict is the splitter's name with ``name``, or with the branch's number, appended. A
    ``function`` puts the stream it returns into the dict (nothing if it returns ``None``); a ``consumer`` takes the
    branch and leaves nothing in the dict.

    ::

        split = payments.split(name="paid-").branch(lambda customer, cents: cents >= 10_000, Branched(name="much"))
        split.default_branch(Branched(consumer=lambda little: little.to("little")))
        # ("ann", 25_000), ("bob", 300) -> little("bob", 300)

    :raises TopologyError: if both a function and a consumer are given.
    """

    name: str | None = None
    function: Callable[[S], S | None] | None = None
    consumer: Callable[[S], None] | None = None

    def __post_init__(self) -> None:
        _check(self.name)
        check_fields(self, type(self).__name__)
        if self.function is not None and self.consumer is not None:
            raise TopologyError("a branch accepts either a function or a consumer, not both")
        for name, given in (("function", self.function), ("consumer", self.consumer)):
            if given is not None:
                check_function(given, name, "Branched", ("stream",))

    @classmethod
    def as_(cls, name: str) -> Branched[Any]:
        """Returns options with a name, and nothing else set (Java: ``Branched.as``).

        ::

            parts = payments.split(name="paid-").default_branch(Branched.as_("all"))
            assert list(parts) == ["paid-all"]
        """
        return Branched(name=name)
