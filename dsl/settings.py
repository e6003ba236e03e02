"""The few settings of the application that shape a topology, read when it is built."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
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


_FIELDS_OF: Mapping[str, tuple[str, ...]] = {
    "topology.optimization": ("reuse_source_topics", "merge_repartition_topics", "single_store_self_join"),
    "ensure.explicit.internal.resource.naming": ("explicit_names",),
    "statestore.cache.max.bytes": ("caching",),
    "cache.max.bytes.buffering": ("caching",),
    "default.dsl.store": ("engine",),
    "dsl.store.suppliers.class": ("suppliers",),
    "dsl.store.format": ("headers",),
    "dsl.java.defects": ("keeps_java_defects",),
    "processor.wrapper.class": ("wrapper",),
}
_SERDES = ("default.key.serde", "default.value.serde")
_CACHE_SIZES = ("statestore.cache.max.bytes", "cache.max.bytes.buffering")


@dataclass(frozen=True)
class BuilderSettings:
    """The settings that a builder was given. They count for its topology over those of the application, so that it is
    the same whether the builder or its topology is passed on."""

    settings: BuildSettings = field(default_factory=BuildSettings)
    given: frozenset[str] = frozenset()
    """The names of those that were given, not left at their defaults."""

    @classmethod
    def of(cls, config: Mapping[str, Any] | Dotted | None) -> BuilderSettings:
        """Returns the settings of a mapping or a configuration.

        :raises ConfigError: if a setting is unknown, its value wrong, or it does not shape a topology. Such settings
            are accepted among all those of an application, which have an ``application.id``.
        """
        settings = read_settings(config)
        if not isinstance(config, Mapping):
            origin = attribute_of(config, "origin")
            given = {name for name in settings.values if callable(origin) and origin(name) == "given"}
            return cls(settings, frozenset(given))
        given = {str(name).replace("_", ".") if "." not in str(name) else str(name) for name in config}
        if "application.id" not in given:
            _refuse_unused(given, settings)
        return cls(settings, frozenset(given))

    def over(self, config: Mapping[str, Any] | Dotted | None) -> BuildSettings:
        """Returns the settings of an application, with those that the builder was given instead of its own.

        :raises ConfigError: if a setting of the application is unknown, its value wrong, or it contradicts the builder.
        """
        if config is None:
            return self.settings
        theirs, defaults = read_settings(config), BuildSettings()
        fields = {name: fields for name, fields in _FIELDS_OF.items() if name in self.given}
        mine = {one: getattr(self.settings, one) for names in fields.values() for one in names}
        for name, names in fields.items():
            if not any(
                all(_is_same(getattr(theirs, one), getattr(other, one)) for one in names)
                for other in (self.settings, defaults)
            ):
                raise ConfigError(
                    f"{name} is {repr_of(self.settings.values.get(name))} in StreamsBuilder(...) and"
                    f" {repr_of(theirs.values.get(name))} in the settings of the application: remove one of the two"
                )
        own = {name: value for name, value in self.settings.values.items() if name in self.given}
        return replace(theirs, **mine, values={**theirs.values, **own})

    def serde(self, part: str) -> Any:
        """Returns the default serde of keys or values that was given; ``None`` if none was."""
        name = f"default.{part}.serde"
        return self.settings.values.get(name) if name in self.given else None


def _is_same(one: Any, other: Any) -> bool:
    """Whether two settings are the same. Of a class that was given, an object is made at each reading."""
    return one == other or (type(one) is type(other) and type(one).__module__ != "builtins")


def _refuse_unused(given: Iterable[str], settings: BuildSettings) -> None:
    used = {*_FIELDS_OF, *_SERDES}
    unused = sorted(set(given) - used)
    if unused:
        raise ConfigError(
            f"StreamsBuilder does not use {', '.join(unused)}: give it to the application, in StreamsConfig. A builder"
            f" uses {', '.join(sorted(used))}"
        )
    for name in _CACHE_SIZES:
        if name in given and settings.caching:
            raise ConfigError(
                f"StreamsBuilder uses {name} only if it is 0, which turns caches off: give the size of the cache to the"
                " application, in StreamsConfig"
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
