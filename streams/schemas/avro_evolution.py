"""Whether data of one Avro schema are read by another one, field by field: the rules of schema resolution."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from typing import Any

from streams.schemas.schema_pairs import SchemaPair, below, place_name

WIDER = {
    "int": {"long", "float", "double"},
    "long": {"float", "double"},
    "float": {"double"},
    "string": {"bytes"},
    "bytes": {"string"},
}
"""Primitive types with those that read them too."""
_UNNAMED = ("array", "map")
_TRANSITIVE = "_TRANSITIVE"
LEVELS = ("BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE", "NONE")
"""The levels of compatibility, as registries name them."""


def is_transitive(level: str) -> bool:
    """Returns whether a level is kept against all versions of a subject, and not against the latest alone."""
    return level.endswith(_TRANSITIVE)


def complaints(level: str, new: str, old: str) -> list[str]:
    """Returns what makes a schema break a level against one before; nothing if it keeps it.

    :param level: one of :data:`LEVELS`. ``BACKWARD``: the new schema reads the data of the old one; ``FORWARD``: the
        old one those of the new one; ``FULL``: both. A transitive one is that of each pair.
    :param new: the schema, as JSON; so ``old``.
    """
    found, level = [], level.removesuffix(_TRANSITIVE)
    if level in ("BACKWARD", "FULL"):
        found += [f"older records cannot be read: {one}" for one in problems(old, new)]
    if level in ("FORWARD", "FULL"):
        found += [f"older readers cannot read: {one}" for one in problems(new, old)]
    return found


def problems(former: str, now: str, filled: Callable[[str], Collection[str]] = lambda name: ()) -> list[str]:
    """Returns in words what of the data of a former schema another one does not read.

    :param former: the schema by which data were written.
    :param now: the schema by which they are to be read.
    :param filled: returns the fields of a record that have a value where neither data nor schema have one.
    """
    return _Resolution(json.loads(former), json.loads(now), filled).problems()


class _Resolution(SchemaPair):
    def __init__(self, old: Any, new: Any, filled: Callable[[str], Collection[str]]) -> None:
        super().__init__(old, new)
        self._filled, self._names = filled, {id(root): _names(root) for root in (old, new)}

    def branches(self, given: Any, root: Any) -> list[Any]:
        names = self._names[id(root)]
        found = _known(given, names)
        return [_known(one, names) for one in found] if isinstance(found, list) else [found]

    def pair(self, old: Any, new: Any) -> Hashable:
        return (id(old), id(new)) if "name" in old and "name" in new else None

    def compare(self, old: Mapping[str, Any], new: Mapping[str, Any], place: str) -> Iterator[str]:
        was, kind = old["type"], new["type"]
        logical = old.get("logicalType"), new.get("logicalType")
        if "name" in old and "name" in new and not _same_name(old, new):
            yield f"{place_name(place)} was {old['name']} and is {new['name']}"
        elif was != kind and kind not in WIDER.get(was, ()):
            yield f"{place_name(place)} was {was} and is {kind}"
        elif logical[0] != logical[1] and None not in logical:
            yield f"{place_name(place)} was {logical[0]} and is {logical[1]}"
        elif logical == ("decimal", "decimal") and old.get("scale", 0) != new.get("scale", 0):
            yield f"{place_name(place)} had scale {old.get('scale', 0)} and has {new.get('scale', 0)}"
        elif kind in ("record", "error"):
            yield from self._records(old, new, place)
        elif kind == "enum":
            gone = [symbol for symbol in old["symbols"] if symbol not in new["symbols"]]
            if gone and "default" not in new:
                yield f"{place_name(place)} could be {', '.join(gone)}, which was removed, and does not have a default"
        elif kind == "fixed" and old["size"] != new["size"]:
            yield f"{place_name(place)} had {old['size']} bytes and has {new['size']}"
        elif kind in _UNNAMED:
            part = "items" if kind == "array" else "values"
            yield from self.find(old[part], new[part], below(place, "*"))

    def _records(self, old: Mapping[str, Any], new: Mapping[str, Any], place: str) -> Iterator[str]:
        written = {field["name"]: field["type"] for field in old["fields"]}
        filled = self._filled(new["name"])
        for field in new["fields"]:
            names = (field["name"], *field.get("aliases", ()))
            name = next((one for one in names if one in written), None)
            if name is not None:
                yield from self.find(written[name], field["type"], below(place, field["name"]))
            elif "default" not in field and field["name"] not in filled:
                yield f"{place_name(below(place, field['name']))} is new and does not have a default"


def _same_name(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    names = (new["name"], *new.get("aliases", ()))
    return old["name"].rpartition(".")[2] in {name.rpartition(".")[2] for name in names}


def _names(schema: Any) -> dict[str, Any]:
    """Returns the named types of a schema, by full name and by the name alone."""
    found: dict[str, Any] = {}
    waiting = [(schema, "")]
    while waiting:
        node, namespace = waiting.pop()
        if isinstance(node, list):
            waiting += [(one, namespace) for one in node]
        elif isinstance(node, dict):
            if isinstance(node.get("type"), (dict, list)):
                waiting.append((node["type"], namespace))
            if "name" in node:
                space = node.get("namespace", namespace)
                full = node["name"] if "." in node["name"] or not space else f"{space}.{node['name']}"
                found[full] = found[full.rpartition(".")[2]] = node
                namespace = full.rpartition(".")[0]
            waiting += [(field["type"], namespace) for field in node.get("fields", ())]
            waiting += [(node[part], namespace) for part in ("items", "values") if part in node]
    return found


def _known(schema: Any, names: Mapping[str, Any]) -> Any:
    """Returns a type as a dict, or a union as a list."""
    while not isinstance(schema, list):
        if isinstance(schema, str):
            if schema not in names:
                return {"type": schema}
            schema = names[schema]
        elif isinstance(schema["type"], (dict, list)):
            schema = schema["type"]
        elif schema["type"] in names and "name" not in schema:
            schema = names[schema["type"]]
        else:
            return schema
    return schema
