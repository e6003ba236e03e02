"""The values that the parts of this room hand to each other: schemas, references, and what a registry answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from processor_api.errors import ConfigError, UnreachableError
from processor_api.texts import repr_of
from processor_api.user_code.given_values import is_of

AVRO, PROTOBUF, JSON = "AVRO", "PROTOBUF", "JSON"
"""The kinds of schemas, as registries name them."""


@contextmanager
def extra(purpose: str) -> Iterator[None]:
    """Says what to install where an import within fails, as a context manager."""
    try:
        yield
    except ImportError as error:
        package = "protobuf" if (error.name or "").partition(".")[0] == "google" else error.name or error
        what = f"{package} is not installed, {purpose}"
        raise ImportError(f"{what}: pip install 'streams-for-kafka[registry]'", name=error.name) from error


class RegistryAway(UnreachableError):
    """Raised when a registry did not answer, or with something that is not the answer of a registry."""


class NoRegistry(ConfigError):
    """Raised where a serde with schemas was given no registry."""


class SchemaError(ValueError):
    """A record that its schema, or the registry, does not let through; the text names subject, id or field."""


class NotInRegistry(SchemaError):
    """Raised where a registry answers that it has no such schema, subject or version."""


class SchemaReference(NamedTuple):
    """A schema that another one uses: under which name it does, and where it is registered."""

    name: str
    """The name in the schema that refers: a full name in Avro, the path of an import in Protobuf, a ``$ref`` in JSON
    Schema."""
    subject: str
    version: int


class SchemaText(NamedTuple):
    """A schema as registries keep it."""

    text: str
    kind: str = AVRO
    references: tuple[SchemaReference, ...] = ()


def json_text(given: Any, what: str, kinds: tuple[type, ...], expected: str) -> str:
    """Returns the text of a schema that a user gives as JSON or as what JSON stands for; raises `ConfigError` if it is
    of none of the types, which are ``expected`` in words."""
    try:
        found = json.loads(given) if is_of(given, str) else given
        if not any(is_of(found, kind) for kind in kinds):
            raise ValueError(f"it is {expected}")
        return json.dumps(found, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError) as error:
        raise ConfigError(f"{what} must be JSON, got {repr_of(given)}: {error}") from None


class Registered(NamedTuple):
    """A schema in a registry."""

    schema: SchemaText
    id: int
    guid: str | None = None
    """The id that is the same in all registries (Confluent Platform 8); ``None`` where the registry has none."""
    version: int | None = None
    subject: str | None = None


def named(schema_id: int | str) -> str:
    """Returns what messages call the schema with an id, or with a GUID, which is a text."""
    return f"schema {'id' if isinstance(schema_id, int) else 'GUID'} {schema_id}"


class TopicPart(NamedTuple):
    """The topic and the part of its records that a serde is bound to."""

    topic: str
    is_key: bool

    @property
    def part(self) -> str:
        """``key`` or ``value``."""
        return "key" if self.is_key else "value"

    def __str__(self) -> str:
        return f"the {self.part}s of topic {self.topic!r}"
