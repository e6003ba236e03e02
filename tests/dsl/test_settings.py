"""Settings of the application that shape a topology."""

from typing import Any

import pytest

from dsl.settings import BuildSettings, read_settings
from processor_api.errors import ConfigError
from processor_api.stores.suppliers import MEMORY, ROCKSDB


def test_without_a_configuration_nothing_is_optimized() -> None:
    assert read_settings(None) == read_settings({}) == BuildSettings()


def test_an_object_may_show_itself_under_dotted_names() -> None:
    class Config:
        def dotted(self) -> dict[str, Any]:
            return {"topology.optimization": "reuse.ktable.source.topics"}

    assert read_settings(Config()) == BuildSettings(reuse_source_topics=True)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("none", (False, False, False)),
        ("all", (True, True, True)),
        ("merge.repartition.topics", (False, True, False)),
        ("reuse.ktable.source.topics, single.store.self.join", (True, False, True)),
    ],
)
def test_optimizations_are_all_none_or_some(value: str, expected: tuple[bool, bool, bool]) -> None:
    found = read_settings({"topology.optimization": value})
    assert (found.reuse_source_topics, found.merge_repartition_topics, found.single_store_self_join) == expected


@pytest.mark.parametrize("value", ["some", "all,none", "merge.repartition.topics,all", "reuse.ktable.source.topics,x"])
def test_an_unknown_optimization_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match=r"topology\.optimization"):
        read_settings({"topology.optimization": value})


def test_an_application_without_memory_for_caches_has_none() -> None:
    """The older name counts only where the newer one is not given."""
    assert not read_settings({"statestore.cache.max.bytes": 0}).caching
    assert not read_settings({"cache.max.bytes.buffering": "0"}).caching
    assert read_settings({"statestore.cache.max.bytes": 1, "cache.max.bytes.buffering": 0}).caching


def test_the_engine_of_stores_may_be_chosen() -> None:
    assert read_settings({"default.dsl.store": "in_memory"}).engine == MEMORY
    assert read_settings({"default.dsl.store": "rocksDB"}).engine == ROCKSDB
