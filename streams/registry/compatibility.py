"""Whether the data of one Avro schema can be read with another, by the rules of Avro's specification."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

LEVELS = ("BACKWARD", "FORWARD", "FULL", "NONE")
"""The levels at which a schema is held against the one before it."""
_PROMOTED = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}


def complaints(level: str, new: str, old: str) -> list[str]:
    """Returns what makes a schema break a level against the one before; nothing if it keeps it.

    :param level: ``BACKWARD``: the new schema reads the data of the old one; ``FORWARD``: the old one those of the new
        one; ``FULL``: both; ``NONE``.
    :param new: the schema, as JSON; so ``old``.
    """
    found = []
    if level in ("BACKWARD", "FULL"):
        found += [f"older records cannot be read: {one}" for one in _unreadable(new, old)]
    if level in ("FORWARD", "FULL"):
        found += [f"older readers cannot read: {one}" for one in _unreadable(old, new)]
    return found


def _unreadable(reader: str, writer: str) -> list[str]:
    read, written = json.loads(reader), json.loads(writer)
    return list(_Pair(_names(read, {}), _names(written, {})).complaints(read, written, "record"))


def _names(schema: Any, known: dict[str, Any], namespace: str = "") -> dict[str, Any]:
    if isinstance(schema, list):
        for one in schema:
            _names(one, known, namespace)
    elif isinstance(schema, dict):
        namespace = schema.get("namespace", namespace)
        if "name" in schema:
            known[schema["name"]] = schema
            known[f"{namespace}.{schema['name']}"] = schema
        for inner in ("type", "items", "values"):
            if isinstance(schema.get(inner), (dict, list)):
                _names(schema[inner], known, namespace)
        for field in schema.get("fields", ()):
            _names(field["type"], known, namespace)
    return known


class _Pair:
    def __init__(self, readers: Mapping[str, Any], writers: Mapping[str, Any]) -> None:
        self._readers, self._writers = readers, writers
        self._seen: set[tuple[str, str]] = set()

    def complaints(self, read: Any, written: Any, place: str) -> Iterator[str]:
        """Yields why the data of one schema cannot be read with another."""
        read, written = _plain(read, self._readers), _plain(written, self._writers)
        if isinstance(written, list):
            for branch in written:
                yield from self.complaints(read, branch, place)
            return
        if isinstance(read, list):
            if all(any(self.complaints(branch, written, place)) for branch in read):
                yield f"{place} has no branch for {_kind(written)}"
            return
        kind, old = _kind(read), _kind(written)
        if kind != old:
            if kind not in _PROMOTED.get(old, ()):
                yield f"{place} is {old} and would be read as {kind}"
        elif kind == "record":
            yield from self._of_records(read, written, place)
        elif kind in ("array", "map"):
            inner = "items" if kind == "array" else "values"
            yield from self.complaints(read[inner], written[inner], f"{place}[]")
        elif kind == "enum" and "default" not in read:
            missing = [symbol for symbol in written["symbols"] if symbol not in read["symbols"]]
            if missing:
                yield f"{place} has the symbols {', '.join(missing)}, which the reader lacks"
        elif kind == "fixed" and read["size"] != written["size"]:
            yield f"{place} is {written['size']} bytes long and would be read as {read['size']}"

    def _of_records(self, read: Any, written: Any, place: str) -> Iterator[str]:
        pair = (read["name"], written["name"])
        if pair in self._seen:
            return
        self._seen.add(pair)
        fields = {field["name"]: field for field in written["fields"]}
        for field in read["fields"]:
            names = (field["name"], *field.get("aliases", ()))
            known = next((fields[name] for name in names if name in fields), None)
            where = f"{place}.{field['name']}"
            if known is not None:
                yield from self.complaints(field["type"], known["type"], where)
            elif "default" not in field:
                yield f"{where} is missing in the data, and has no default"


def _plain(schema: Any, names: Mapping[str, Any]) -> Any:
    if isinstance(schema, str):
        return names.get(schema, schema)
    if isinstance(schema, dict) and isinstance(schema["type"], (dict, list)):
        return _plain(schema["type"], names)
    return schema


def _kind(schema: Any) -> str:
    return schema if isinstance(schema, str) else str(schema["type"])
