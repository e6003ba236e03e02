"""Avro schemas whose named types are known: their parts, their limits, and whether two are alike.

A schema comes from a registry, so all of it is looked at once, and each named type once: the time grows with its
length. What could make short data cost much is refused here, or marked for the careful reader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from streams.registry.schemas import SchemaError

NAMED = ("record", "error", "enum", "fixed")
RECORDS = ("record", "error")
_PARTS = {"array": "items", "map": "values"}
MOST_DEFAULTS = 100_000
DEEPEST = 200
"""The most types within each other, without those that hold themselves: each is a call of compiled code."""
_MOST_VALUES = 32
"""The most values of a type for each of the bytes that it takes at least."""


class _Size(NamedTuple):
    """The least that a value of a type costs, and how many types are within each other."""

    values: int
    bytes: int
    depth: int


def unreadable(why: str) -> SchemaError:
    return SchemaError(f"the Avro schema cannot be read: {why}")


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
        self.defaults_left = MOST_DEFAULTS
        self.is_recursive = False
        self.has_empty_items = False
        """Whether there are arrays whose items take no bytes, so that any number of them may be read."""
        self.map: str | None = None
        """The place of a map, if there is one."""
        self.types: list[Any] = []
        """Each type of the schema once."""
        self._sizes: dict[str | None, _Size | None] = {}
        self.depth = self._look(self.root, "the key", frozenset()).depth

    def meant(self, node: Any) -> Any:
        """Returns the node behind a name; fastavro lets nothing else stand for another one."""
        return self.named.get(node, node) if isinstance(node, str) else node

    def _look(self, given: Any, place: str, within: frozenset[str]) -> _Size:
        """Returns the size of a type; ``within`` are the records that it is in, with no byte between."""
        node = self.meant(given)
        kind = kind_of(node)
        name = node["name"] if kind in NAMED else None
        if name in within:
            raise unreadable(f"the record {name} contains itself endlessly")
        if name in self._sizes:
            known = self._sizes[name]
            self.is_recursive = self.is_recursive or known is None
            return known or _Size(1, 1, 0)
        self.types.append(node)
        if name is not None:
            self._sizes[name] = None
        size = self._size(node, kind, place, within)
        if size.depth >= DEEPEST:
            raise unreadable(f"it is nested deeper than {DEEPEST} types")
        if size.values > _MOST_VALUES * (size.bytes + 1):
            raise unreadable(f"{name or place} has too many values for its bytes")
        if name is not None:
            self._sizes[name] = size
        return size

    def _size(self, node: Any, kind: str, place: str, within: frozenset[str]) -> _Size:
        if kind in RECORDS:
            inner = within | {node["name"]}
            parts = [self._look(one["type"], f"{place}.{one['name']}", inner) for one in node["fields"]]
            values, least = 1 + sum(one.values for one in parts), sum(one.bytes for one in parts)
            return _Size(values, least, 1 + max((one.depth for one in parts), default=0))
        if kind in _PARTS:
            self.map = place if kind == "map" and self.map is None else self.map
            item = self._look(node[_PARTS[kind]], f"{place}[]", frozenset())
            self.has_empty_items = self.has_empty_items or (kind == "array" and item.bytes == 0)
            return _Size(1, 1, 1 + item.depth)
        if kind == "union":
            self._note_choices(node, place)
            return _Size(1, 1, 1 + max((self._look(one, place, frozenset()).depth for one in node), default=0))
        if kind != "fixed":
            return _Size(1, {"null": 0, "float": 4, "double": 8}.get(kind, 1), 1)
        if type(node["size"]) is not int or node["size"] < 0:
            raise unreadable(f"the size of {node['name']} is not a whole number")
        return _Size(1, node["size"], 1)

    def _note_choices(self, branches: list[Any], place: str) -> None:
        nodes = [self.meant(branch) for branch in branches]
        kinds = [kind_of(node) for node in nodes]
        if not branches or any(kind not in NAMED and kinds.count(kind) > 1 for kind in set(kinds)):
            raise unreadable(f"{place} is a union with {'two branches of one type' if branches else 'no branch'}")
        for several in (RECORDS, ("enum", "string"), ("fixed", "bytes")):
            alike = [node for node, kind in zip(nodes, kinds, strict=True) if kind in several]
            if len(alike) > 1:
                self.in_choices.update(node["name"] for node in alike if kind_of(node) in NAMED)

    def form(self, *, named: bool) -> Any:
        """Returns what schemas have in common by which data are the same values; ``named`` says whether the names of
        types count, and the order of the branches of unions."""

        def mark(node: Any) -> dict[str, Any]:
            words = ("logicalType", "precision", "scale")
            return {word: node[word] for word in words if isinstance(node, dict) and word in node}

        return self.copied(self.root, mark, of_data=True, named=named)

    def copied(
        self, given: Any, mark: Callable[[Any], dict[str, Any]], *, of_data: bool = False, named: bool = True
    ) -> Any:
        """Returns the JSON of a type of the schema, with all that it refers to in it, and without logical types: with
        what ``mark`` returns for each type in their place.

        :param of_data: whether only that is in it which decides on the values of data.
        :param named: whether types have their own names, and not numbers, and unions their order.
        """
        kept = ("name", "symbols", "size", *(() if of_data else ("namespace", "aliases", "default")))
        seen: dict[str, str] = {}

        def copy(inner: Any) -> Any:
            node = self.meant(inner)
            if isinstance(node, list):
                return [copy(branch) for branch in node] if named else sorted(map(copy, node), key=repr)
            kind = kind_of(node)
            found: dict[str, Any] = {"type": kind, **mark(node)}
            if kind in NAMED:
                name = node["name"]
                if name in seen:
                    return seen[name]
                seen[name] = name if named else f"#{len(seen)}"
                found |= {word: one for word, one in {"namespace": "", **node}.items() if word in kept}
                found["name"] = seen[name]
            if kind in RECORDS:
                fields = [{"name": field["name"]} if of_data else field for field in node["fields"]]
                types = [copy(field["type"]) for field in node["fields"]]
                found["fields"] = [{**field, "type": one} for field, one in zip(fields, types, strict=True)]
            elif kind in _PARTS:
                found[_PARTS[kind]] = copy(node[_PARTS[kind]])
            return found if len(found) > 1 else kind

        return copy(given)
