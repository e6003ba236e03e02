"""JSON with its JSON Schema in a registry: objects of a model by pydantic, anything else as plain JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from processor_api.errors import ConfigError
from processor_api.texts import repr_of
from processor_api.user_code.given_values import is_of
from streams.registry.bound import SchemaFormat
from streams.registry.schemas import JSON, Registered, SchemaError, SchemaReference, SchemaText
from streams.schemas.json_schemas import problems
from streams.serdes.json import json_serde

if TYPE_CHECKING:
    from streams.registry.client import RegistryClient

DIALECT = "http://json-schema.org/draft-07/schema#"
"""The dialect of the schema of a model, which names none itself."""


class JsonSchemaFormat(SchemaFormat):
    """The JSON of one serde.

    :param model: the class of the values; ``None`` for what JSON has.
    :param given: the schema: JSON, or a dict; ``None`` makes one from the model.
    """

    kind = JSON

    def __init__(self, model: Any, given: Any = None, references: Sequence[SchemaReference] = ()) -> None:
        if model is not None:
            from streams.serdes.pydantic_model import pydantic_serde

            serde = pydantic_serde(model)
            if given is None:
                given = {"$schema": DIALECT, **serde.json_schema()}  # type: ignore[attr-defined]
            self._validate: Callable[[Any], Any] = serde.of_plain
        else:
            serde = json_serde(sort_keys=True)
            self._validate = serde.of_plain
        self._serialize, self._deserialize = serde.serialize, serde.deserialize
        if given is not None:
            self.own = SchemaText(_text_of(given), JSON, tuple(references))

    def record_name(self, schema: SchemaText) -> str:
        """Returns the title of a schema, for subjects.

        :raises SchemaError: if it has none.
        """
        title = json.loads(schema.text).get("title")
        if not isinstance(title, str):
            raise SchemaError("a subject by the name of the record needs a JSON Schema with a title")
        return title

    def check_key(self, schema: SchemaText) -> None:
        """Refuses schemas of keys with maps, whose entries have no order.

        :raises SchemaError: if there is one.
        """
        if _has_map(json.loads(schema.text)):
            raise SchemaError(
                "the key has a map (additionalProperties), whose entries have no order: equal keys would have different"
                " bytes, and go to different partitions"
            )

    def from_json(self, value: Any) -> Any:
        """Returns the object that a value of JSON stands for."""
        return self._deserialize(json.dumps(value).encode())

    def problems(self, former: str) -> Sequence[str] | None:
        """Returns what of data with a former schema it does not read."""
        assert self.own is not None
        return problems(former, self.own.text)

    def without_model(self) -> JsonSchemaFormat:
        """Returns the format that reads data as JSON has them."""
        return JsonSchemaFormat(None)

    def of_plain(self, plain: Any) -> Any:
        """Returns the object that a value of JSON stands for."""
        return self._validate(plain)

    def writer(self, schema: SchemaText, client: RegistryClient, prefix: bytes) -> Callable[[Any], bytes]:
        """Returns the function that writes values behind a prefix."""
        serialize = self._serialize
        return lambda value: prefix + serialize(value)

    def reader(
        self, registered: Registered, client: RegistryClient, start: int, frame: bytes | None = None
    ) -> Callable[[bytes], Any]:
        """Returns the function that reads data, which begin at ``start``."""
        deserialize = self._deserialize
        return lambda data: deserialize(data[start:])


def _text_of(given: Any) -> str:
    try:
        found = json.loads(given) if is_of(given, str) else given
        if not any(is_of(found, kind) for kind in (bool, dict)):
            raise ValueError("it is an object")
        return json.dumps(found, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError) as error:
        raise ConfigError(f"a JSON Schema is JSON, which {repr_of(given)} is not: {error}") from None


def _has_map(schema: Any) -> bool:
    if isinstance(schema, list):
        return any(map(_has_map, schema))
    if not isinstance(schema, dict):
        return False
    if isinstance(schema.get("additionalProperties"), dict) or "patternProperties" in schema:
        return True
    return any(map(_has_map, schema.values()))
