"""Avro schemas whose named types are known: their parts, their limits, and whether two are alike.

A schema comes from a registry, so all of it is looked at once, and each named type once: the time grows with its
length. What could make short data cost much is refused here, or marked for the careful reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from streams.registry.schemas import SchemaError

NAMED = ("record", "error", "enum", "fixed")
RECORDS = ("record", "error")
_PARTS = {"array": "items", "map": "values"}
_KEPT = ("name", "aliases", "symbols", "default", "size")
DEEPEST = 200
"""The most types within each other, without those that hold themselves: each is a call of compiled code."""
_MOST_EMPTY = 100
"""The most values of a record that are read from no bytes at all: a schema can double them with each of its types."""


def kind_of(node: Any) -> str:
    """Returns ``union``, or the type of a node."""
    if isinstance(node, list):
        return "union"
    found: str = node if isinstance(node, str) else node["type"]
    return found


def short(name: str) -> str:
    """Returns a name without its namespace."""
    return name.rpartition(".")[2]


class AvroSchema:
    """A schema that fastavro has parsed, so that names are in full.

    :param named: its named types, with those of its references.
    :raises SchemaError: if reading by it could cost more than the data that are read.
    """

    def __init__(self, root: Any, named: Mapping[str, Any]) -> None:
        is_named = isinstance(root, dict) and "name" in root
        self.root, self.named = named[root["name"]] if is_named else root, named
        self.in_choices: set[str] = set()
        """Types that stand in a union with others that have the same form without a model."""
        self.is_recursive = False
        self.has_empty_items = False
        """Whether there are arrays whose items take no bytes, so that any number of them may be read."""
        self.map: str | None = None
        """The place of a map, if there is one."""
        self.mixed: str | None = None
        """The place of a union of which equal values may have different bytes, if there is one."""
        self._empty: dict[str, int | None] = {}
        self._depths: dict[str, int] = {}
        self.depth = self._look(self.root, "the key", frozenset())[1]

    def meant(self, node: Any) -> Any:
        """Returns the node behind a name."""
        while not isinstance(node, list):
            inner = node if isinstance(node, str) else node["type"]
            if isinstance(inner, (dict, list)):
                node = inner
            elif inner in self.named and node is not self.named[inner]:
                node = self.named[inner]
            else:
                break
        return node

    def _look(self, given: Any, place: str, within: frozenset[str]) -> tuple[int, int]:
        """Returns how many values of a type are read from no bytes, and how many types are within each other.

        :param within: the records that the type is in, with no byte between.
        """
        node = self.meant(given)
        kind = kind_of(node)
        depth, empty = 0, 0
        name = node["name"] if kind in NAMED else None
        if name is not None:
            if name in self._empty:
                if name in within:
                    raise SchemaError(f"the Avro schema cannot be read: the record {name} holds itself, without an end")
                known = self._empty[name]
                self.is_recursive = self.is_recursive or known is None
                return known or 0, self._depths.get(name, 0)
            self._empty[name] = None
        if kind in RECORDS:
            found = [
                self._look(field["type"], f"{place}.{field['name']}", within | {node["name"]})
                for field in node["fields"]
            ]
            empty = sum(one for one, _ in found)
            if empty > _MOST_EMPTY:
                raise SchemaError(f"the Avro schema cannot be read: the record {name} has more values than bytes")
            depth = max((one for _, one in found), default=0)
            empty = empty + 1 if all(one for one, _ in found) else 0
        elif kind in _PARTS:
            self.map = place if kind == "map" and self.map is None else self.map
            empty_items, depth = self._look(node[_PARTS[kind]], f"{place}[]", frozenset())
            self.has_empty_items = self.has_empty_items or (kind == "array" and empty_items > 0)
        elif kind == "union":
            depth = max((self._look(branch, place, frozenset())[1] for branch in node), default=0)
            self._note_choices(node, place)
        elif kind == "null":
            empty = 1
        elif kind == "fixed":
            if type(node["size"]) is not int or node["size"] < 0:
                raise SchemaError(f"the Avro schema cannot be read: the size of {name} is no whole number")
            empty = 0 if node["size"] else 1
        if depth >= DEEPEST:
            raise SchemaError(f"the Avro schema cannot be read: it is nested deeper than {DEEPEST} types")
        if name is not None:
            self._empty[name], self._depths[name] = empty, depth + 1
        return empty, depth + 1

    def _note_choices(self, branches: list[Any], place: str) -> None:
        nodes = [self.meant(branch) for branch in branches]
        kinds = [kind_of(node) for node in nodes]
        if any(kind not in NAMED and kinds.count(kind) > 1 for kind in set(kinds)):
            raise SchemaError(f"the Avro schema cannot be read: {place} is a union with two branches of one type")
        for several in (RECORDS, ("enum", "string"), ("fixed", "bytes")):
            alike = [node for node, kind in zip(nodes, kinds, strict=True) if kind in several]
            if len(alike) > 1:
                self.in_choices.update(node["name"] for node in alike if kind_of(node) in NAMED)
        groups = [{"long": "int", "double": "float"}.get(kind, kind) for kind in kinds]
        if len({"boolean", "int", "float"}.intersection(groups)) > 1 and self.mixed is None:
            self.mixed = place

    def types(self) -> Iterator[Any]:
        """Yields each type of the schema once."""
        waiting, seen = [self.root], set()
        while waiting:
            node = self.meant(waiting.pop())
            if id(node) in seen:
                continue
            seen.add(id(node))
            yield node
            kind = kind_of(node)
            if kind == "union":
                waiting += node
            elif kind in _PARTS:
                waiting.append(node[_PARTS[kind]])
            elif kind in RECORDS:
                waiting += [field["type"] for field in node["fields"]]

    def copied(self, given: Any, mark: Callable[[Any], dict[str, Any]]) -> Any:
        """Returns the JSON of a type of the schema, with all that it refers to in it, and without logical types.

        :param mark: returns what each type has besides.
        """
        return self._copy(given, set(), mark)

    def _copy(self, given: Any, seen: set[str], mark: Callable[[Any], dict[str, Any]]) -> Any:
        node = self.meant(given)
        if isinstance(node, list):
            return [self._copy(branch, seen, mark) for branch in node]
        kind = kind_of(node)
        found = {"type": kind, **mark(node)}
        if kind in NAMED:
            name = node["name"]
            if name in seen:
                return name
            seen.add(name)
            found |= {key: node[key] for key in _KEPT if key in node}
            found["namespace"] = name.rpartition(".")[0]
        if kind in RECORDS:
            found["fields"] = [{**field, "type": self._copy(field["type"], seen, mark)} for field in node["fields"]]
        elif kind in _PARTS:
            found[_PARTS[kind]] = self._copy(node[_PARTS[kind]], seen, mark)
        return found if len(found) > 1 else kind


def is_alike(one: AvroSchema, other: AvroSchema, *, larger: bool = False) -> bool:
    """Returns whether data of one schema are those of another, value for value.

    :param larger: whether the first may have other names for its types, more fields and more symbols.
    """
    seen: set[tuple[int, int]] = set()

    def alike(first: Any, second: Any) -> bool:
        a, b = one.meant(first), other.meant(second)
        kind = kind_of(a)
        if kind != kind_of(b):
            return False
        if kind == "union":
            return len(a) == len(b) and all(alike(*pair) for pair in zip(a, b, strict=True))
        if (id(a), id(b)) in seen:
            return True
        seen.add((id(a), id(b)))
        if _logical(a) != _logical(b):
            return False
        if kind in _PARTS:
            return alike(a[_PARTS[kind]], b[_PARTS[kind]])
        if kind in NAMED and not larger and a["name"] != b["name"]:
            return False
        if kind == "enum":
            return set(b["symbols"]) <= set(a["symbols"]) if larger else a["symbols"] == b["symbols"]
        if kind == "fixed":
            return bool(a["size"] == b["size"])
        if kind not in RECORDS:
            return True
        fields = {field["name"]: field["type"] for field in a["fields"]}
        if not larger and list(fields) != [field["name"] for field in b["fields"]]:
            return False
        return all(field["name"] in fields and alike(fields[field["name"]], field["type"]) for field in b["fields"])

    return alike(one.root, other.root)


def _logical(node: Any) -> Any:
    return isinstance(node, dict) and tuple(node.get(name) for name in ("logicalType", "precision", "scale"))
