"""The arguments and options of joins: names, serdes, stores, grace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Generic

from dsl.naming import validate_name
from dsl.options import check_store_options
from processor_api.errors import TopologyError
from processor_api.stores.defaults import DslStoreSuppliers
from processor_api.stores.suppliers import StoreSupplier, as_supplier
from processor_api.texts import repr_of
from processor_api.user_code.calls import explain_calls
from processor_api.user_code.checks import check_fields
from processor_api.user_code.durations import Duration, to_ms
from processor_api.user_code.given_serdes import SerdeOption, serde_option
from processor_api.user_code.open_types import V1, V2, K


@explain_calls
@dataclass(frozen=True, kw_only=True)
class Joined(Generic[K, V1, V2]):
    """Options of a join of a stream with a table.

    A ``name`` is the operator's, and gives the repartition topic the name ``<name>-repartition``, should one be needed.

    ::

        with_city = Joined(name="with-city", key_serde="string", value_serde="string")
        sent = orders.join(customers, lambda item, city: f"{item} to {city}", joined=with_city)
        # customers("ann", "Oslo"), orders("ann", "tea") -> ("ann", "tea to Oslo")

    :raises TopologyError: if the grace period is negative.
    """

    name: str | None = None
    key_serde: SerdeOption[K] = serde_option()
    value_serde: SerdeOption[V1] = serde_option()
    """The serde of the stream's values."""
    other_value_serde: SerdeOption[V2] = serde_option()
    """The serde of the table's values; the table's store has its own."""
    grace: Duration | None = None
    """How long a record waits for late updates of the table, a ``timedelta`` or integer milliseconds; ``None``: not at
    all. It takes a versioned table (KIP-923)."""

    def __post_init__(self) -> None:
        if self.name is not None:
            validate_name(self.name)
        check_fields(self, type(self).__name__)
        if self.grace is not None and to_ms(self.grace, "grace") < 0:
            raise TopologyError(f"the grace period of a join must not be negative, got {repr_of(self.grace)}")

    @classmethod
    def as_(cls, name: str) -> Joined[Any, Any, Any]:
        """Returns options with a name, and nothing else set (Java: ``Joined.as``).

        ::

            sent = orders.join(customers, lambda item, city: f"{item} to {city}", joined=Joined.as_("with-city"))
            assert repr(sent) == "KStream(with-city)"
        """
        return Joined(name=name)


@explain_calls
@dataclass(frozen=True, kw_only=True)
class StreamJoined(Generic[K, V1, V2]):
    """Options of a join of two streams.

    ::

        within = JoinWindows.of_time_difference_with_no_grace(timedelta(minutes=5))
        stores = StreamJoined(name="paid", store_name="paid", value_serde="string", other_value_serde="long")
        paid = orders.join(payments, lambda item, cents: f"{item} for {cents}", windows=within, joined=stores)
        # orders("ann", "tea") @ 0, payments("ann", 300) @ 700 -> ("ann", "tea for 300")

    :raises TopologyError: if settings contradict each other.
    """

    name: str | None = None
    """The beginning of the names of the join's nodes, and of its repartition topics: ``<name>-left-repartition``."""
    store_name: str | None = None
    """The beginning of the names of its stores, such as ``<store_name>-this-join-store``."""
    key_serde: SerdeOption[K] = serde_option()
    value_serde: SerdeOption[V1] = serde_option()
    """The serde of the left stream's values."""
    other_value_serde: SerdeOption[V2] = serde_option()
    """The serde of the right stream's values."""
    this_store_supplier: StoreSupplier | None = None
    """The window store of the left stream: it keeps duplicates, for the window's size plus grace."""
    other_store_supplier: StoreSupplier | None = None
    """The window store of the right stream."""
    store_type: DslStoreSuppliers | str | None = None
    """The choice of the stores, such as ``BuiltInDslStoreSuppliers.IN_MEMORY``, or the name of an engine; ``None`` is
    the application's default."""
    logging: bool = True
    """Whether the stores' changes go to changelog topics, from which they are restored on another worker."""
    topic_config: Mapping[str, str] = field(default_factory=dict)
    """Settings of the changelog topics, over the built-in ones."""

    def __post_init__(self) -> None:
        for name in (self.name, self.store_name):
            if name is not None:
                validate_name(name)
        check_fields(self, type(self).__name__)
        for supplier in ("this_store_supplier", "other_store_supplier"):
            given = getattr(self, supplier)
            if given is not None:
                object.__setattr__(self, supplier, as_supplier(given))
        this, other = self.this_store_supplier, self.other_store_supplier
        if this is not None and other is not None and this.name == other.name:
            raise TopologyError(
                f"both suppliers of a join make a store named {this.name!r}: give each side its own name",
                store=this.name,
            )
        check_store_options(self, self.store_name)

    @classmethod
    def as_(cls, store_name: str) -> StreamJoined[Any, Any, Any]:
        """Returns options with a name for the stores, and nothing else set (Java: ``StreamJoined.as``).

        ::

            within = JoinWindows.of_time_difference_with_no_grace(timedelta(minutes=5))
            paid = orders.join(payments, lambda item, cents: cents, windows=within, joined=StreamJoined.as_("paid"))
            assert set(builder.build().stores) == {"paid-this-join-store", "paid-other-join-store"}
        """
        return StreamJoined(store_name=store_name)


@dataclass(frozen=True, kw_only=True)
class JoinKind:
    """The kind of a join: which side is kept without a partner, and what the joiner takes."""

    keeps_left: bool = False
    keeps_right: bool = False
    takes_key: bool = False
    takes_mapped_key: bool = False
    """Whether it takes the key that a function selects too, after the stream's own."""


@dataclass(frozen=True, kw_only=True)
class JoinArguments:
    """The arguments of a join besides the other side; ``None`` where one is not given."""

    joiner: Callable[..., Any]
    windows: Any = None
    joined: Any = None
    key_selector: Any = None
    name: Any = None

    def only(self, what: str, *allowed: str) -> None:
        """Checks that no argument was given which belongs to a join with something else.

        :param what: the other side, for the error: ``"a table"``.
        :raises TopologyError: if one was.
        """
        for one in fields(self):
            if one.name not in ("joiner", *allowed) and getattr(self, one.name) is not None:
                known = ", ".join(allowed)
                raise TopologyError(f"a join with {what} has the options {known}; {one.name} is for other joins")
