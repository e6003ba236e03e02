"""The few settings of the application that shape a topology, read when it is built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from processor_api.errors import ConfigError
from processor_api.stores.defaults import DslStoreSuppliers
from processor_api.stores.suppliers import ROCKSDB, engine_of_word
from processor_api.texts import repr_of
from processor_api.user_code.given_values import attribute_of, is_of
from processor_api.user_code.settings_reader import checked_settings

REUSE_SOURCE_TOPICS = "reuse.ktable.source.topics"
MERGE_REPARTITION_TOPICS = "merge.repartition.topics"
SELF_JOIN = "single.store.self.join"
OPTIMIZATIONS = frozenset({REUSE_SOURCE_TOPICS, MERGE_REPARTITION_TOPICS, SELF_JOIN})


class Dotted(Protocol):
    """A configuration that can show itself under Kafka's dotted names."""

    def dotted(self) -> Mapping[str, Any]:
        """Returns the settings under Kafka's dotted names."""
        ...


@dataclass(frozen=True, kw_only=True)
class BuildSettings:
    """The settings of the application that the compiler uses."""

    reuse_source_topics: bool = False
    """Let the topic of a table serve as its store's changelog (semantics 108)."""
    merge_repartition_topics: bool = False
    """Let one repartition topic after a key change serve all that need one (semantics 107)."""
    single_store_self_join: bool = False
    explicit_names: bool = False
    """Refuse generated names of stores and internal topics (KIP-1111)."""
    caching: bool = True
    """``False`` if the application has no memory for caches at all."""
    engine: str = ROCKSDB
    """The engine of stores that do not choose one (``default.dsl.store``)."""
    suppliers: DslStoreSuppliers | None = None
    """The suppliers instead of the engine, if given (``dsl.store.suppliers.class``)."""
    headers: bool = False
    """Whether those stores keep the headers of records beside values (``dsl.store.format``, KIP-1271)."""
    keeps_java_defects: bool = False
    """Whether the defects of Kafka Streams are kept that are cured otherwise (``dsl.java.defects``)."""
    wrapper: Any = None
    """Wraps every processor (KIP-1112)."""
    values: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """All settings, for the wrapper."""


def read_settings(config: Mapping[str, Any] | Dotted | None) -> BuildSettings:
    """Reads the settings from a mapping, which is checked as that of an application is, or from an object with a method
    ``dotted()``, which has been.

    :raises ConfigError: if a setting is unknown, or its value wrong.
    """
    if config is None:
        return BuildSettings()
    if not isinstance(config, Mapping) and not callable(attribute_of(config, "dotted")):
        raise ConfigError(f"config must be a StreamsConfig or a dict of settings, got {repr_of(config)}")
    values = checked_settings(config) if isinstance(config, Mapping) else config.dotted()
    optimizations = _optimizations(values.get("topology.optimization"))
    return BuildSettings(
        reuse_source_topics=REUSE_SOURCE_TOPICS in optimizations,
        merge_repartition_topics=MERGE_REPARTITION_TOPICS in optimizations,
        single_store_self_join=SELF_JOIN in optimizations,
        explicit_names=_is_true(values.get("ensure.explicit.internal.resource.naming")),
        caching=_cache_bytes(values) > 0,
        engine=_engine(values),
        suppliers=_suppliers(values),
        headers=str(values.get("dsl.store.format")).upper() == "HEADERS",
        keeps_java_defects=values.get("dsl.java.defects") == "keep",
        wrapper=_wrapper(values),
        values=values,
    )


def _optimizations(value: Any) -> frozenset[str]:
    names = frozenset(part.strip() for part in str(value or "none").split(","))
    if names == {"none"}:
        return frozenset()
    if names == {"all"}:
        return OPTIMIZATIONS
    if unknown := names - OPTIMIZATIONS:
        raise ConfigError(
            f"topology.optimization must be 'none', 'all', or some of {', '.join(sorted(OPTIMIZATIONS))}; got"
            f" {', '.join(map(repr, sorted(unknown)))}"
        )
    return names


def _is_true(value: Any) -> bool:
    return str(value).lower() == "true"


def _cache_bytes(values: Mapping[str, Any]) -> int:
    for name in ("statestore.cache.max.bytes", "cache.max.bytes.buffering"):
        value = values.get(name)
        if value is not None:
            return int(value)
    return 1


def _engine(values: Mapping[str, Any]) -> str:
    """Java's names for ours, or the name of an engine."""
    found = str(values.get("default.dsl.store") or ROCKSDB)
    return engine_of_word(found)


def _suppliers(values: Mapping[str, Any]) -> DslStoreSuppliers | None:
    """An object or a class of one. What is named by its import path or by Java's name is found by a configuration.

    :raises ConfigError: if it is none of these.
    """
    found = values.get("dsl.store.suppliers.class")
    if found is None or (isinstance(found, str) and not found):
        return None
    made = found() if isinstance(found, type) else found
    if not is_of(made, DslStoreSuppliers):
        raise ConfigError(
            "dsl.store.suppliers.class must have key_value_store, window_store and session_store, got"
            f" {repr_of(found)}; to give it by name, build the topology with a StreamsConfig"
        )
    return cast("DslStoreSuppliers", made)


def _wrapper(values: Mapping[str, Any]) -> Any:
    """An object, a class of one, or a function. What is named by its import path is found by a configuration."""
    found = values.get("processor.wrapper.class")
    return found() if isinstance(found, type) else None if isinstance(found, str) else found
