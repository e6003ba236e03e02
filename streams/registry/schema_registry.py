"""The schema registry of an application, and the serdes of a builder that know it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, SupportsIndex

from processor_api.errors import ConfigError
from processor_api.serde import Serde, with_default
from processor_api.texts import repr_of
from processor_api.user_code.given_values import is_of
from streams.registry.settings import read_settings, shown_settings

if TYPE_CHECKING:
    from streams.registry.client import RegistryClient


class SchemaRegistry:
    """A schema registry: where it is, how to log in, and how serdes use it.

    ::

        from streams import Avro, SchemaRegistry, StreamsBuilder

        registry = SchemaRegistry("http://localhost:8081", auto_register_schemas=False)
        builder = StreamsBuilder(key_serde="string", value_serde="avro", schema_registry=registry)

    Nothing is asked before a record is written or read. All registries of a process with equal settings share one
    client, and ``mock://anything`` is a registry in the memory of the process, for tests.

    :param url: ``http://host:port``, ``https://...``, several separated by commas, or ``mock://scope``.
    :param settings: settings under Confluent's names, with dots or in snake case; docs/schema-registry.md has them all.
    :raises ConfigError: if one is unknown or wrong.
    """

    __slots__ = ("settings",)

    def __init__(self, url: str, **settings: Any) -> None:
        self.settings: Mapping[str, Any] = read_settings({"url": url, **settings})
        """The settings given, under their dotted names."""

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> SchemaRegistry:
        """Returns the registry of settings with dotted names or in snake case; ``url`` is one of them.

        :raises ConfigError: if one is unknown or wrong, or there is no URL.
        """
        if not isinstance(settings, Mapping):
            raise ConfigError(f"the settings of a schema registry must be a mapping, got {repr_of(settings)}")
        given = {str(name).replace("_", "."): value for name, value in settings.items()}
        if "url" not in given:
            raise ConfigError("the settings of a schema registry do not have a url: set schema.registry.url")
        return cls(**given)

    @property
    def url(self) -> str:
        """The URL, or several, separated by commas."""
        return str(self.settings["url"])

    @property
    def client(self) -> RegistryClient:
        """The client of this process for these settings.

        :raises ImportError: if the extra is not installed.
        """
        from streams.registry.client import client_of

        return client_of(self.settings)

    def as_default(self, serde: Serde[Any] | None) -> Serde[Any]:
        """Returns a serde for what has none, which gives this registry to serdes that have none."""
        if serde is not None and not is_of(serde, Serde):
            raise ConfigError(f"a default serde must be a serde, got {repr_of(serde)}")
        return DefaultWithRegistry(serde.inner if isinstance(serde, DefaultWithRegistry) else serde, self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SchemaRegistry) and self.settings == other.settings

    def __hash__(self) -> int:
        return hash(tuple(sorted(self.settings.items())))

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        return SchemaRegistry.of, (self.settings,)

    def __repr__(self) -> str:
        shown = shown_settings(self.settings)
        url = shown.pop("url")
        return f"SchemaRegistry({', '.join([url, *(f'{n}={v}' for n, v in shown.items())])})"


class DefaultWithRegistry(Serde[Any]):
    """The default serde of a builder or an application that has a schema registry. Serdes that have no registry take it
    from here; what has no serde at all gets the inner one, if there is one."""

    __slots__ = ("inner", "registry")

    def __init__(self, inner: Serde[Any] | None, registry: SchemaRegistry) -> None:
        self.inner = None if inner is None else inner.with_default(DefaultWithRegistry(None, registry))
        self.registry = registry
        found = self.inner or Serde(_no_serde, _no_serde, name="none")
        super().__init__(found.serialize, found.deserialize, name=found.name, exact=found.exact)

    def with_default(self, default: Serde[Any]) -> Serde[Any]:
        return self.registry.as_default(with_default(self.inner, default))

    @property
    def is_complete(self) -> bool:
        return self.inner is not None and self.inner.is_complete

    def bind(self, topic: str, *, is_key: bool) -> Serde[Any]:
        if self.inner is None:
            raise ConfigError(
                f"topic {topic!r} does not have a serde of its {'key' if is_key else 'value'}s", topic=topic
            )
        return self.inner.bind(topic, is_key=is_key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DefaultWithRegistry) and (self.inner, self.registry) == (other.inner, other.registry)

    def __hash__(self) -> int:
        return hash(self.registry)

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        return DefaultWithRegistry, (self.inner, self.registry)


def _no_serde(anything: Any) -> Any:
    raise ConfigError("a schema registry is set but no serde: give key_serde= and value_serde=")
