"""Makes records up from the serdes of a topic: texts, numbers, and whatever a model or dataclass describes."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

from processor_api.serde import Serde, Serdes
from streams.cli.output.causes import CannotRun
from streams.cli.records.input_lines import Item, TimeStep
from streams.cli.records.json_lines import GivenRecord
from streams.serdes.values import DoesNotFit, fitted

STEP_MS = 1000
"""Time between two made-up records."""
_NAMES = ("ann", "bob", "cid", "dan", "eve")
_WORDS = ("to", "be", "or", "not", "that", "is", "the", "question")
_LARGEST = 100
_MOST_ITEMS = 3
_DEEPEST = 6
_TRIES = 20
_FIRST_DAY = datetime(2025, 1, 1, tzinfo=UTC)

Schema = Mapping[str, Any]


class Inventor:
    """Makes up keys and values; the same ones for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def value(self, serde: Serde[Any], topic: str, part: str) -> Any:
        """Returns a value of JSON that the serde takes.

        :param part: ``key`` or ``value``, for the error.
        :raises CannotRun: if nothing says what the serde takes.
        """
        if serde is Serdes.VOID:
            return None
        make = self._maker(serde, part)
        if make is None:
            raise CannotRun(
                f"the {part}s of topic {topic!r} cannot be generated: the serde {serde.name!r} has no description of"
                " its values. Give the topic a pydantic model or a dataclass, or give records by --input"
            )
        for left in reversed(range(_TRIES)):
            found = make()
            try:
                fitted(serde, found, is_text=False)
            except DoesNotFit as error:  # such as a rule that the schema does not say
                if not left:
                    raise CannotRun(
                        f"the {part}s of topic {topic!r} cannot be generated: {error}. Give records by --input"
                    ) from None
            else:
                return found
        raise AssertionError

    def _maker(self, serde: Serde[Any], part: str) -> Callable[[], Any] | None:
        random, json_schema = self._random, getattr(serde, "json_schema", None)
        if json_schema is not None:
            schema: Schema = json_schema()
            return lambda: self._by_schema(schema, schema.get("$defs", {}), 0)
        whole = (Serdes.LONG, Serdes.INTEGER, Serdes.SHORT)
        makers: dict[Serde[Any], Callable[[], Any]] = {
            Serdes.STRING: (lambda: random.choice(_NAMES)) if part == "key" else self._line,
            Serdes.BYTES: lambda: random.choice(_NAMES),
            **dict.fromkeys(whole, lambda: random.randint(1, 5 if part == "key" else _LARGEST)),
            **dict.fromkeys((Serdes.DOUBLE, Serdes.FLOAT), lambda: random.randint(1, 4 * _LARGEST) / 4),
            Serdes.BOOLEAN: lambda: random.random() < 0.5,
            Serdes.UUID: self._uuid,
        }
        return makers.get(serde)

    def _line(self) -> str:
        return " ".join(self._random.choices(_WORDS, k=self._random.randint(2, 6)))

    def _uuid(self) -> str:
        return str(UUID(int=self._random.getrandbits(128), version=4))

    # ------------------------------------------------------------------ schemas

    def _by_schema(self, schema: Schema, definitions: Schema, depth: int) -> Any:
        random = self._random
        if "$ref" in schema:
            return self._by_schema(definitions[schema["$ref"].rpartition("/")[2]], definitions, depth + 1)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return random.choice(schema["enum"])
        for several in ("anyOf", "oneOf"):
            if several in schema:
                choices = [one for one in schema[several] if depth < _DEEPEST or one.get("type") == "null"]
                return self._by_schema(random.choice(choices or schema[several]), definitions, depth + 1)
        if "allOf" in schema:
            merged = {name: rule for each in schema["allOf"] for name, rule in each.items()}
            return self._by_schema(merged, definitions, depth + 1)
        kind = schema.get("type")
        if kind == "object":
            return self._object(schema, definitions, depth)
        if kind == "array":
            return self._array(schema, definitions, depth)
        return self._scalar(kind, schema)

    def _object(self, schema: Schema, definitions: Schema, depth: int) -> dict[str, Any]:
        required = set(schema.get("required", ()))
        found = {
            name: self._by_schema(each, definitions, depth + 1)
            for name, each in schema.get("properties", {}).items()
            if name in required or depth < _DEEPEST
        }
        more = schema.get("additionalProperties")
        if not found and isinstance(more, Mapping):
            found = {name: self._by_schema(more, definitions, depth + 1) for name in _NAMES[:2]}
        return found

    def _array(self, schema: Schema, definitions: Schema, depth: int) -> list[Any]:
        fixed: Sequence[Schema] = schema.get("prefixItems", ())
        found = [self._by_schema(each, definitions, depth + 1) for each in fixed]
        least = schema.get("minItems", 0)
        most = schema.get("maxItems", max(least, _MOST_ITEMS))
        wanted = least if depth >= _DEEPEST else self._random.randint(least, most)
        items = schema.get("items")
        while len(found) < wanted and isinstance(items, Mapping):
            found.append(self._by_schema(items, definitions, depth + 1))
        return found

    def _scalar(self, kind: Any, schema: Schema) -> Any:
        random = self._random
        if kind == "integer":
            return self._integer(schema)
        if kind == "number":
            low = schema.get("minimum", schema.get("exclusiveMinimum", 0))
            high = schema.get("maximum", schema.get("exclusiveMaximum", low + _LARGEST))
            return round(random.uniform(low, high), 2)
        if kind == "boolean":
            return random.random() < 0.5
        if kind == "string":
            return self._text(schema)
        return None if kind == "null" else random.choice(_NAMES)

    def _integer(self, schema: Schema) -> int:
        low = schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
        high = schema.get("maximum", schema.get("exclusiveMaximum", low + _LARGEST + 1) - 1)
        step = schema.get("multipleOf", 1)
        return int(self._random.randint(-(-low // step), max(high // step, -(-low // step))) * step)

    def _text(self, schema: Schema) -> str:
        random = self._random
        at = _FIRST_DAY + timedelta(seconds=random.randrange(86_400))
        formats: dict[str, Callable[[], str]] = {
            "date-time": at.isoformat,
            "date": lambda: at.date().isoformat(),
            "time": lambda: at.time().isoformat(),
            "duration": lambda: f"PT{random.randint(1, _LARGEST)}S",
            "uuid": self._uuid,
            "email": lambda: f"{random.choice(_NAMES)}@example.com",
            "uri": lambda: f"https://example.com/{random.choice(_NAMES)}",
            "ipv4": lambda: f"192.0.2.{random.randint(1, 254)}",
        }
        if schema.get("format") in formats:
            return formats[schema["format"]]()
        text = random.choice(_NAMES)
        text += "".join(random.choices(string.ascii_lowercase, k=max(0, schema.get("minLength", 0) - len(text))))
        return text[: schema.get("maxLength", len(text))]


def made_up(count: int, seed: int, topics: Mapping[str, tuple[Serde[Any], Serde[Any]]]) -> Iterator[Item]:
    """Yields this many records for each topic, in turn, each a second after the one before it.

    :param topics: the serdes of keys and values, by topic.
    :raises CannotRun: if nothing says what a serde takes.
    """
    inventor, number = Inventor(seed), 0
    for _ in range(count):
        for topic, (key_serde, value_serde) in topics.items():
            if number:
                yield TimeStep("made up", by_ms=STEP_MS)
            number += 1
            key = inventor.value(key_serde, topic, "key")
            value = inventor.value(value_serde, topic, "value")
            yield GivenRecord(f"made up:{number}", value, key, topic=topic)
