"""Names of nodes, stores and topics."""

from typing import Any

import pytest

from dsl import Materialized, SessionWindows, SlidingWindows, StreamsBuilder, TimeWindows
from dsl.naming import Names, looks_generated, repartition_topic, validate_name
from processor_api.errors import TopologyError


@pytest.mark.parametrize("name", ["a", "A-1_b.c", "x" * 249, "..."])
def test_a_name_that_could_be_part_of_a_topic_is_taken(name: str) -> None:
    assert validate_name(name) == name


@pytest.mark.parametrize(
    ("name", "says"),
    [
        *((name, "must be a string that is not empty, got ") for name in ("", None, 7)),
        *((name, "is not allowed for a topic") for name in (".", "..")),
        *((name, "contains a character other than ASCII letters") for name in ("a b", "ä", "a/b", "a\n")),
        ("x" * 250, "has 250 characters; 249 are the limit"),
    ],
)
def test_any_other_name_is_refused(name: object, says: str) -> None:
    with pytest.raises(TopologyError, match=says):
        validate_name(name)


def test_one_counter_serves_nodes_and_stores_and_a_given_name_uses_up_a_number() -> None:
    names = Names()
    assert names.processor("P-") == "P-0000000000"
    assert names.store("S-") == "S-STATE-STORE-0000000001"
    assert names.choose("mine", "P-") == "mine"
    assert names.suffixed("mine", "-sink", "P-") == "mine-sink"
    assert names.suffixed(None, "-sink", "P-") == "P-0000000004"
    assert names.choose(None, "P-") == "P-0000000005"


def test_a_suffix_must_not_make_a_name_too_long() -> None:
    with pytest.raises(TopologyError, match="-sink' has 250 characters; 249 are the limit"):
        Names().suffixed("x" * 245, "-sink", "P-")


def test_a_repartition_topic_is_called_after_its_prefix_once() -> None:
    assert repartition_topic("g") == "g-repartition"
    assert repartition_topic("g-repartition") == "g-repartition"


def test_only_numbered_names_of_streams_look_generated() -> None:
    assert looks_generated("KSTREAM-AGGREGATE-STATE-STORE-0000000002")
    assert not looks_generated("KTABLE-AGGREGATE-STATE-STORE-0000000002")
    assert not looks_generated("KSTREAM-AGGREGATE-STATE-STORE-0000000002-repartition")
    assert not looks_generated("counts")


@pytest.mark.parametrize(
    ("windows", "store"),
    [
        (TimeWindows.of_size_with_no_grace(5), "KSTREAM-AGGREGATE-STATE-STORE-0000000002"),
        (SlidingWindows.of_time_difference_with_no_grace(5), "KSTREAM-AGGREGATE-STATE-STORE-0000000001"),
        (SessionWindows.of_inactivity_gap_with_no_grace(5), "KSTREAM-AGGREGATE-STATE-STORE-0000000002"),
    ],
    ids=["time", "sliding", "session"],
)
def test_a_count_with_options_but_no_name_uses_up_a_number_except_in_sliding_windows(windows: Any, store: str) -> None:
    """As in Kafka Streams, where it goes back to older versions that sliding windows were not in."""
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().windowed_by(windows).count(materialized=Materialized(caching=False))
    assert list(builder.build().stores) == [store]
