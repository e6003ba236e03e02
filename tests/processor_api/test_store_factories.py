"""Stores by keyword arguments are those of the factories with Kafka Streams' names."""

from __future__ import annotations

from typing import Any

import pytest

from processor_api.errors import TopologyError
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.factory import Stores

S, N = Serdes.STRING, Serdes.LONG
HOUR, MINUTE = 3_600_000, 60_000


def key_value(timestamps: bool, headers: bool, in_memory: bool) -> StoreBuilder[Any, Any]:
    if headers:
        supplier = Stores.persistent_timestamped_key_value_store_with_headers("s")
        make: Any = Stores.timestamped_key_value_store_with_headers_builder
    elif timestamps:
        supplier, make = Stores.persistent_timestamped_key_value_store("s"), Stores.timestamped_key_value_store_builder
    else:
        supplier, make = Stores.persistent_key_value_store("s"), Stores.key_value_store_builder
    return make(Stores.in_memory_key_value_store("s") if in_memory else supplier, S, N)  # type: ignore[no-any-return]


def window(timestamps: bool, headers: bool, in_memory: bool, **options: Any) -> StoreBuilder[Any, Any]:
    make: Any
    if headers:
        make, supply = (
            Stores.timestamped_window_store_with_headers_builder,
            Stores.persistent_timestamped_window_store_with_headers,
        )
    elif timestamps:
        make, supply = Stores.timestamped_window_store_builder, Stores.persistent_timestamped_window_store
    else:
        make, supply = Stores.window_store_builder, Stores.persistent_window_store
    chosen: Any = Stores.in_memory_window_store if in_memory else supply
    return make(chosen("s", HOUR, MINUTE, **options), S, N)  # type: ignore[no-any-return]


def session(timestamps: bool, headers: bool, in_memory: bool, **options: Any) -> StoreBuilder[Any, Any]:
    make: Any
    if headers:
        make, supply = Stores.session_store_with_headers_builder, Stores.persistent_session_store_with_headers
    elif timestamps:
        make, supply = Stores.timestamped_session_store_builder, Stores.persistent_timestamped_session_store
    else:
        make, supply = Stores.session_store_builder, Stores.persistent_session_store
    chosen: Any = Stores.in_memory_session_store if in_memory else supply
    return make(chosen("s", HOUR, **options), S, N)  # type: ignore[no-any-return]


@pytest.mark.parametrize("in_memory", [False, True], ids=["rocksdb", "memory"])
@pytest.mark.parametrize(("timestamps", "headers"), [(False, False), (True, False), (False, True)])
def test_a_store_by_keywords_is_the_one_of_javas_factories(timestamps: bool, headers: bool, in_memory: bool) -> None:
    how = {"with_timestamps": timestamps, "with_headers": headers, "in_memory": in_memory}
    assert Stores.key_value_store("s", S, N, **how) == key_value(timestamps, headers, in_memory)
    assert Stores.window_store("s", HOUR, MINUTE, S, N, **how) == window(timestamps, headers, in_memory)
    assert Stores.session_store("s", HOUR, S, N, **how) == session(timestamps, headers, in_memory)


def test_headers_come_with_timestamps_in_windows_and_in_key_value_stores() -> None:
    both = {"with_timestamps": True, "with_headers": True}
    assert Stores.key_value_store("s", **both) == Stores.key_value_store("s", with_headers=True)
    assert Stores.window_store("s", HOUR, MINUTE, **both) == Stores.window_store("s", HOUR, MINUTE, with_headers=True)
    with pytest.raises(TopologyError, match=r"session store 's' can have timestamps or headers .*, not both") as caught:
        Stores.session_store("s", HOUR, with_timestamps=True, with_headers=True)
    assert caught.value.store == "s"


def test_what_else_a_store_of_windows_or_sessions_has_is_passed_on() -> None:
    options = {"segment_interval": 120_000, "time_ordered": True}
    assert Stores.session_store("s", HOUR, S, N, **options) == session(False, False, False, **options)  # type: ignore[arg-type]
    options["retain_duplicates"] = True
    assert Stores.window_store("s", HOUR, MINUTE, S, N, **options) == window(False, False, False, **options)  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match=r"the retention \(1 ms\) is smaller than the window"):
        Stores.window_store("s", 1, 2)


def test_a_builder_is_put_on_another_engine() -> None:
    moved = Stores.key_value_store("s", S, N).on_engine("memory")
    assert moved == Stores.key_value_store("s", S, N, in_memory=True)


def test_a_builder_in_place_of_a_supplier_is_refused_with_what_to_give() -> None:
    made: Any = Stores.key_value_store("s")
    with pytest.raises(TopologyError, match=r"expected a store supplier, got .*: give its attribute supplier"):
        Stores.key_value_store_builder(made)
