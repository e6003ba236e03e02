"""Option objects: what they refuse."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from dsl import (
    Branched,
    Consumed,
    Grouped,
    Joined,
    Materialized,
    Named,
    Produced,
    Repartitioned,
    StreamJoined,
    TableJoined,
)
from dsl.options import name_of
from processor_api.errors import TopologyError
from processor_api.stores.factory import Stores
from processor_api.stores.suppliers import MEMORY

SUPPLIER = Stores.in_memory_key_value_store("s")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Named("a b"), "the name 'a b' contains"),
        (lambda: name_of("a b"), "the name 'a b' contains"),
        (lambda: Consumed(name="a b"), "the name 'a b' contains"),
        (lambda: Produced(name="a b"), "the name 'a b' contains"),
        (lambda: Grouped.as_("a b"), "the name 'a b' contains"),
        (lambda: Repartitioned.as_("a b"), "the name 'a b' contains"),
        (lambda: Materialized.as_("a b"), "the name 'a b' contains"),
        (lambda: Branched.as_("a b"), "the name 'a b' contains"),
        (lambda: Repartitioned(number_of_partitions=0), "must be an integer of at least 1, got 0"),
        (lambda: Branched(function=lambda s: s, consumer=lambda s: None), "a function or a consumer, not both"),
        (lambda: Materialized(name="n", supplier=SUPPLIER), "'s': remove the name 'n'"),
        (lambda: Materialized(supplier=SUPPLIER, store_type=MEMORY), "remove store_type"),
        (lambda: Materialized(name="n", store_type="disk"), "storage engine 'disk' does not exist"),
        (
            lambda: Materialized(name="n", logging=False, topic_config={"segment.bytes": "1"}),
            "logging=False turns it off",
        ),
        (lambda: Materialized(name="n", retention=timedelta(milliseconds=-1)), "retention must not be negative"),
    ],
)
def test_what_cannot_be_is_refused_at_once(make: Callable[[], object], says: str) -> None:
    with pytest.raises(TopologyError, match=says):
        make()


def test_a_name_may_come_as_text_or_as_an_object() -> None:
    assert (name_of("n"), name_of(Named.as_("n")), name_of(None)) == ("n", "n", None)


def test_each_option_with_a_name_has_the_short_form() -> None:
    for kind in (Consumed, Produced, Grouped, Repartitioned, Materialized, Branched, Joined, TableJoined):
        assert kind.as_("n") == kind(name="n")
    assert StreamJoined.as_("n") == StreamJoined(store_name="n")  # as in Java


def test_a_store_is_called_as_its_supplier_says() -> None:
    assert Materialized.as_(SUPPLIER).store_name == "s"
    assert Materialized.as_("n").store_name == "n"
    assert Materialized().store_name is None
