"""Whether values of one JSON Schema can be read by another one, field by field.

The schemas are those that pydantic makes: one of what is written, another one of what is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

from processor_api.serde import SerdeSchema, other_kind
from streams.schemas.schema_pairs import SchemaPair, below, place_name

KIND = "json-schema"
_LIMITS = {
    "minimum": 1,
    "exclusiveMinimum": 1,
    "minLength": 1,
    "minItems": 1,
    "maximum": -1,
    "exclusiveMaximum": -1,
    "maxLength": -1,
    "maxItems": -1,
}
"""Limits, with 1 where a higher one allows less and -1 where a lower one does."""
_EXACT = ("pattern", "format", "multipleOf", "contentEncoding", "contentMediaType")
"""Keywords that values of another schema need not fit."""


def schema_of_json(
    written: Mapping[str, Any] | bool, read: Callable[[], Mapping[str, Any] | bool], *, reads_more: bool = False
) -> SerdeSchema:
    """Returns the schema of a serde of JSON.

    :param written: the schema of what it writes.
    :param read: returns that of what it reads.
    :param reads_more: whether it may read what that schema does not say: what seems to be a problem is none until a row
        shows it then.
    """

    def find(kind: str, text: str) -> list[str] | None:
        if kind != KIND:
            return other_kind(kind, text, "JSON")
        found = problems(text, json.dumps(read()))
        return None if found and reads_more else found

    return SerdeSchema(KIND, canonical(written), find, written_form)


def canonical(schema: Any) -> str:
    """Returns the one text of a schema: without what describes it to readers, and with definitions by number."""
    names: dict[str, str] = {}
    definitions = schema.get("$defs", {}) if isinstance(schema, Mapping) else {}

    def walk(node: Any) -> Any:
        if isinstance(node, list):
            return [walk(each) for each in node]
        if not isinstance(node, Mapping):
            return node
        found: dict[str, Any] = {}
        for word, each in node.items():
            if word in ("properties", "patternProperties"):
                found[word] = {name: walk(one) for name, one in each.items()}
            elif word == "$ref":
                found[word] = names.setdefault(each.rpartition("/")[2], f"#/$defs/{len(names)}")
            elif word not in _WORDS:
                found[word] = walk(each) if word not in ("const", "enum", "required") else each
        return found

    made = walk(schema)
    known: dict[str, Any] = {}
    while len(known) < len(names):  # each definition may name others
        for name, number in list(names.items()):
            if number not in known:
                known[number] = walk(definitions.get(name, {}))
    if known:
        made["$defs"] = {number.rpartition("/")[2]: one for number, one in known.items()}
    return json.dumps(made, separators=(",", ":"))


def written_form(text: str) -> str:
    """Returns what of a schema decides on the bytes of a value: fields with their names, order and types. Limits and
    the like, which differ between releases of pydantic too, do not."""

    def walk(node: Any) -> Any:
        if isinstance(node, list):
            return [walk(each) for each in node]
        if not isinstance(node, Mapping):
            return node
        named = ("properties", "$defs")
        return {
            word: {name: walk(one) for name, one in each.items()} if word in named else walk(each)
            for word, each in node.items()
            if word in _OF_BYTES
        }

    return json.dumps(walk(json.loads(text)))


def problems(former: str, now: str) -> list[str] | None:
    """Returns what of the values of a former schema another schema does not take; ``None`` if the former one says
    nothing of its values.

    :param former: the schema by which values were written.
    :param now: the schema by which they are to be read.
    """
    old, new = json.loads(former), json.loads(now)
    if old in ({}, True) and new not in ({}, True):
        return None
    return _JsonPair(old, new).problems()


class _JsonPair(SchemaPair):
    def branches(self, given: Any, root: Any) -> list[Any]:
        return [_resolved(one, root) for one in _choices(_resolved(given, root))]

    def pair(self, old: Any, new: Any) -> Hashable:
        texts = json.dumps(old, sort_keys=True), json.dumps(new, sort_keys=True)
        return texts if any('"$ref"' in text for text in texts) else None

    def compare(self, old: Any, new: Any, place: str) -> Iterator[str]:
        if new in ({}, True):
            return
        name = place_name(place)
        if "const" in new or "enum" in new:
            yield from _lacking(old, new, name)
            return
        was, kind = _type(old), _type(new)
        if kind is not None and was != kind and not (was == "integer" and kind == "number"):
            yield f"{name} was {was or 'of any type'} and is {kind}"
            return
        yield from _stricter(old, new, name)
        if kind == "object":
            yield from self._objects(old, new, place)
        elif kind == "array":
            yield from self._arrays(old, new, place)

    def _objects(self, old: Mapping[str, Any], new: Mapping[str, Any], place: str) -> Iterator[str]:
        was, now = old.get("properties", {}), new.get("properties", {})
        for name in new.get("required", ()):
            if name not in old.get("required", ()):
                what = "was optional" if name in was else "is new"
                yield f"{place_name(below(place, name))} {what} and does not have a default"
        more = new.get("additionalProperties", True)
        for name, each in was.items():
            if name in now:
                yield from self.find(each, now[name], below(place, name))
            elif more is False:
                yield f"{place_name(below(place, name))} was removed, and other fields are forbidden"
            elif more is not True:
                yield from self.find(each, more, below(place, name))
        further = old.get("additionalProperties", not was)
        if further is not False and more is False:
            yield f"{place_name(place)} could have other fields, which are forbidden now"
        elif isinstance(more, Mapping) and further is not False:
            yield from self.find({} if further is True else further, more, below(place, "*"))

    def _arrays(self, old: Mapping[str, Any], new: Mapping[str, Any], place: str) -> Iterator[str]:
        firsts, wanted = old.get("prefixItems", []), new.get("prefixItems", [])
        for number, (one, other) in enumerate(zip(firsts, wanted, strict=False)):
            yield from self.find(one, other, below(place, str(number)))
        if len(firsts) != len(wanted):
            yield f"{place_name(place)} had {len(firsts)} positions and has {len(wanted)}"
        elif "items" in new and old.get("items") is not False:
            yield from self.find(old.get("items", {}), new["items"], below(place, "*"))
        if new.get("uniqueItems") and not old.get("uniqueItems"):
            yield f"{place_name(place)} could have an item twice"


def _resolved(schema: Any, root: Any) -> Any:
    """Follows the references of a schema to a definition."""
    while isinstance(schema, Mapping):
        if (reference := schema.get("$ref")) is not None:
            schema = root.get("$defs", {}).get(reference.rpartition("/")[2], {})
        elif len(several := schema.get("allOf", ())) == 1:
            schema = several[0]
        else:
            return {} if schema.keys() <= _WORDS else schema
    return {} if schema is True else schema


_OF_BYTES = frozenset((
    "type", "properties", "items", "prefixItems", "additionalProperties", "anyOf", "oneOf", "allOf", "enum", "const",
    "format", "contentEncoding", "$ref", "$defs",
))  # fmt: skip
"""Keywords that say how a value is written."""
_WORDS = frozenset(("title", "description", "default", "examples", "deprecated", "$defs", "readOnly", "writeOnly"))
"""Keywords that allow no more and no less."""


def _choices(schema: Any) -> list[Any]:
    """Returns the schemas of which a value fits one."""
    if not isinstance(schema, Mapping):
        return [schema]
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return list(schema[several])
    kinds = schema.get("type")
    if isinstance(kinds, list):
        return [{**schema, "type": kind} for kind in kinds]
    return [schema]


def _type(schema: Mapping[str, Any]) -> str | None:
    kind: str | None = schema.get("type")
    if kind is not None:
        return kind
    values = [schema["const"]] if "const" in schema else schema.get("enum", ())
    kinds = {_TYPES.get(type(value)) for value in values}
    return kinds.pop() if len(kinds) == 1 else None


_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def _lacking(old: Mapping[str, Any], new: Mapping[str, Any], name: str) -> Iterator[str]:
    """Yields the values that the new schema does not list."""
    known = [new["const"]] if "const" in new else new["enum"]
    if "const" not in old and "enum" not in old:
        yield f"{name} was {old.get('type', 'of any type')} and is one of {json.dumps(known)}"
        return
    gone = [value for value in ([old["const"]] if "const" in old else old["enum"]) if value not in known]
    if gone:
        yield f"{name} could be {', '.join(map(json.dumps, gone))}, which was removed"


def _stricter(old: Mapping[str, Any], new: Mapping[str, Any], name: str) -> Iterator[str]:
    for word, sign in _LIMITS.items():
        if word in new and (word not in old or sign * new[word] > sign * old[word]):
            yield f"{name} has {word} {json.dumps(new[word])}, and had {json.dumps(old.get(word))}"
    for word in _EXACT:
        if word in new and new[word] != old.get(word):
            yield f"{name} has {word} {json.dumps(new[word])}, and had {json.dumps(old.get(word))}"
