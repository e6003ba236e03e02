"""JSON with its JSON Schema in a registry: objects of a model by pydantic, anything else as plain JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from processor_api.serde import never_null
from streams.registry.bound import Read, SchemaFormat, Subject, Write
from streams.registry.schemas import JSON, SchemaError, SchemaReference, SchemaText, json_text
from streams.schemas.json_schemas import problems
from streams.serdes.json import json_serde

if TYPE_CHECKING:
    from streams.registry.client import RegistryClient

DIALECT = "http://json-schema.org/draft-07/schema#"
"""The dialect of the schema of a model, which names none itself."""


class JsonSchemaFormat(SchemaFormat):
    """The JSON of one serde, with the arguments of `JsonSchema`."""

    kind = JSON

    def __init__(self, model: Any, schema: Any = None, references: Sequence[SchemaReference] = ()) -> None:
        super().__init__(model)
        self._serde: Any = json_serde(sort_keys=True)
        if model is not None:
            from streams.serdes.pydantic_model import pydantic_serde

            self._serde = pydantic_serde(model)
            if schema is None:
                schema = {"$schema": DIALECT, **self._serde.json_schema()}
        if schema is not None:
            text = json_text(schema, "a JSON Schema", (bool, dict), "an object")
            self.own = SchemaText(text, JSON, tuple(references))

    def record_name(self, schema: SchemaText) -> str:
        title = json.loads(schema.text).get("title")
        if not isinstance(title, str):
            raise SchemaError("a subject by the name of the record needs a JSON Schema with a title")
        return title

    def from_json(self, value: Any, subject: Subject) -> Any:
        return self._serde.from_json(value)

    def to_json(self, value: Any, subject: Subject) -> Any:
        return self._serde.to_json(value)

    def shown_schema(self, subject: Subject) -> str | None:
        """Returns the schema of what the model writes; without a model, that of the registry."""
        if self.model is not None:
            found: str | None = self._serde.shown_schema
            return found
        return None if self.own is None else self.own.text

    def problems_of(self, former: str, own: str) -> Sequence[str] | None:
        return problems(former, own)

    def writer(self, schema: SchemaText, client: RegistryClient, prefix: bytes, *, is_key: bool = False) -> Write:
        # Equal keys are written in one form, as without a registry.
        serialize = never_null(self._serde.bind("", is_key=is_key).serialize)
        return lambda value: prefix + serialize(value)

    def reader(self, schema: SchemaText, client: RegistryClient, start: int) -> Read:
        deserialize = never_null(self._serde.deserialize)
        return lambda data: deserialize(data[start:])
