"""Option objects: what they refuse."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from dsl import Branched, Consumed, Grouped, Materialized, Named, Produced, Repartitioned
from dsl.options import name_of
from processor_api.errors import TopologyError
from processor_api.stores.factory import MEMORY, Stores

SUPPLIER = Stores.in_memory_key_value_store("s")


@pytest.mark.parametrize(
    "make",
    [
        lambda: Named("a b"),
        lambda: name_of("a b"),
        lambda: Consumed(name="a b"),
        lambda: Produced(name="a b"),
        lambda: Grouped.as_("a b"),
        lambda: Repartitioned.as_("a b"),
        lambda: Materialized.as_("a b"),
        lambda: Branched.as_("a b"),
        lambda: Repartitioned(number_of_partitions=0),
        lambda: Branched(function=lambda s: s, consumer=lambda s: None),
        lambda: Materialized(name="n", supplier=SUPPLIER),
        lambda: Materialized(supplier=SUPPLIER, store_type=MEMORY),
        lambda: Materialized(name="n", store_type="disk"),
        lambda: Materialized(name="n", logging=False, topic_config={"segment.bytes": "1"}),
        lambda: Materialized(name="n", retention=timedelta(milliseconds=-1)),
    ],
)
def test_what_cannot_be_is_refused_at_once(make: Callable[[], object]) -> None:
    with pytest.raises(TopologyError):
        make()


def test_a_name_may_come_as_text_or_as_an_object() -> None:
    assert (name_of("n"), name_of(Named.as_("n")), name_of(None)) == ("n", "n", None)


def test_a_store_is_called_as_its_supplier_says() -> None:
    assert Materialized.as_(SUPPLIER).store_name == "s"
    assert Materialized.as_("n").store_name == "n"
    assert Materialized().store_name is None
