"""Where this project differs from Java on purpose: ``tests/golden/differences.toml``, read and applied here.

An entry says which recordings it is about (globs), where in them (a path of field names and indexes, with ``*`` for any
and ``[name]`` for the value of the header of that name), what is expected here in place of what Java did (JSON in
``ours``, where a string ``text:...`` means the hex of that text; or ``absent = true``), and why (``reason``). With
``whole = "always"`` in place of a field, a run or a trace is expected to differ as a whole, where and how is not told;
with ``"sometimes"`` at least one of those that the entry is about. ``as_on = "memory"`` in place of ``ours`` expects of
an operation on a store what the recording of the same trace on that engine has there::

    [[topology]]
    case = "papi-*"                 # glob over names of cases
    run = "scenario:*"              # glob over runs; left out: the case's own fields (describe, internal_topics, ...)
    step = 3                        # left out: the run's own fields (stores, metrics); "*": any
    field = "out/0/timestamp"
    ours = '5'
    reason = "..."

    [[vector]]
    format = "task id parsed"       # name of the group
    input = '{"text": "-1_0"}'      # fields that the vector's input has
    ours = '{"error": true}'        # all fields expected of the vector
    reason = "..."

    [[store]]
    store = "kv.*"                  # glob over names of files
    trace = "iterating"             # glob over traces
    op = 3                          # left out: the trace's own fields (contents, changelog, ...); "*": any
    where = '{"op": "fetch"}'       # fields that the step or the op has; left out: any step or op chosen above
    field = "result"
    ours = 'null'
    reason = "..."

An entry is stale, and fails, when it changes nothing in the project's own recordings, or when what it says differs as a
whole does not.
"""

from __future__ import annotations

import copy
import json
import tomllib
from collections.abc import Callable, Iterator, Mapping, MutableMapping, MutableSequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

__all__ = ["Difference", "Differences"]

_SELECTORS = {"topology": ("case", "run"), "vector": ("format",), "store": ("store", "trace")}
_ELEMENT = {"topology": ("steps", "step"), "store": ("ops", "op")}
_ABSENT = object()


@dataclass(frozen=True)
class Difference:
    """One entry of the file."""

    kind: str
    select: Mapping[str, str]
    path: tuple[str, ...]
    ours: Any
    reason: str
    only_input: Mapping[str, Any]
    whole: str = ""
    where: Mapping[str, Any] = field(default_factory=dict)
    as_on: str = ""

    def matches(self, names: Mapping[str, str]) -> bool:
        return self.select.keys() == names.keys() and all(
            fnmatchcase(names[name], pattern) for name, pattern in self.select.items()
        )

    def __str__(self) -> str:
        where = ", ".join(f"{name} {pattern!r}" for name, pattern in self.select.items())
        what = f" field {'/'.join(self.path)!r}" if self.path else f" input {dict(self.only_input)}"
        what = " as a whole" if self.whole else what
        return f"{where},{what}: {self.reason}"


@dataclass
class Differences:
    """All entries, and which of them changed something."""

    entries: tuple[Difference, ...]
    used: set[int] = field(default_factory=set)

    @classmethod
    def load(cls, path: Path) -> Differences:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        unknown = tables.keys() - _SELECTORS.keys()
        if unknown:
            raise ValueError(f"{path.name}: unknown tables {sorted(unknown)}")
        return cls(tuple(_entry(kind, table) for kind, rows in tables.items() for table in rows))

    def apply(
        self,
        kind: str,
        names: Mapping[str, str],
        document: Any,
        recorded: Callable[[str, str], Any] = lambda store, trace: None,
    ) -> tuple[Any, list[Difference]]:
        """A copy of a recorded document with what is expected here in its place, and the entries that changed it.

        :param recorded: the document of another store and trace; ``None`` if there is none.
        """
        entries = [(i, entry) for i, entry in enumerate(self.entries) if entry.kind == kind and entry.matches(names)]
        if not entries:
            return document, []
        changed = copy.deepcopy(document)
        applied = []
        for i, entry in entries:
            if entry.only_input and not _holds(entry.only_input, changed.get("input")):
                continue
            if entry.as_on:
                differs = _take_over(changed, recorded(_on(names["store"], entry.as_on), names["trace"]), entry)
            else:
                differs = bool(entry.whole) or _change(changed, entry)
            if differs:
                self.used.add(i)
                applied.append(entry)
        return changed, applied

    def stale(self) -> list[Difference]:
        """Entries that changed nothing so far."""
        return [entry for i, entry in enumerate(self.entries) if i not in self.used]


def _entry(kind: str, table: dict[str, Any]) -> Difference:
    rest = dict(table)
    try:
        select = {name: rest.pop(name) for name in _SELECTORS[kind] if name in rest}
        if whole := rest.pop("whole", ""):
            if whole not in ("always", "sometimes"):
                raise ValueError(f"an entry of the differences says whole = {whole!r}, not 'always' or 'sometimes'")
            return _checked(Difference(kind, select, (), None, rest.pop("reason"), {}, whole), rest, table)
        path = tuple(str(rest.pop("field")).split("/")) if kind != "vector" else ()
        if kind in _ELEMENT and _ELEMENT[kind][1] in rest:
            listed, index = _ELEMENT[kind]
            path = (listed, str(rest.pop(index)), *path)
        as_on = rest.pop("as_on", "")
        ours = _ABSENT if as_on or rest.pop("absent", False) else _text_to_hex(json.loads(rest.pop("ours")))
        only_input, where = json.loads(rest.pop("input", "{}")), json.loads(rest.pop("where", "{}"))
        entry = Difference(kind, select, path, ours, rest.pop("reason"), only_input, where=where, as_on=as_on)
    except (KeyError, json.JSONDecodeError) as error:
        raise ValueError(f"the entry {table} of the differences cannot be read: {error!r}") from error
    return _checked(entry, rest, table)


def _checked(entry: Difference, rest: dict[str, Any], table: dict[str, Any]) -> Difference:
    if rest or not entry.reason.strip():
        raise ValueError(f"the entry {table} of the differences has unknown fields {sorted(rest)} or no reason")
    return entry


def _text_to_hex(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("text:"):
        return value.removeprefix("text:").encode().hex()
    if isinstance(value, list):
        return [_text_to_hex(item) for item in value]
    if isinstance(value, dict):
        return {name: _text_to_hex(item) for name, item in value.items()}
    return value


def _holds(wanted: Mapping[str, Any], found: Any) -> bool:
    return isinstance(found, Mapping) and all(name in found and found[name] == value for name, value in wanted.items())


def _change(document: Any, entry: Difference) -> bool:
    if entry.kind == "vector":
        before = {name: value for name, value in document.items() if name != "input"}
        if before == entry.ours:
            return False
        for name in before:
            del document[name]
        document.update(entry.ours)
        return True
    changed = False
    for container, key in list(_chosen(document, entry)):
        present = not isinstance(container, MutableMapping) or key in container
        if entry.ours is _ABSENT:
            if present:
                del container[key]
                changed = True
        elif not present or container[key] != entry.ours:
            container[key] = copy.deepcopy(entry.ours)
            changed = True
    return changed


def _on(store: str, engine: str) -> str:
    """The recording of the same store on another engine."""
    variant, _, group = store.split(".", 2)
    return f"{variant}.{engine}.{group}"


def _take_over(document: Any, other: Any, entry: Difference) -> bool:
    """Puts what another document has in the places that an entry is about."""
    changed = False
    for (container, key), (from_, at) in zip(_chosen(document, entry), _chosen(other or {}, entry), strict=False):
        if container[key] != from_[at]:
            container[key] = copy.deepcopy(from_[at])
            changed = True
    return changed


def _chosen(document: Any, entry: Difference) -> Iterator[tuple[Any, Any]]:
    if not entry.where:
        yield from _places(document, entry.path)
        return
    for container, key in _places(document, entry.path[:2]):
        if _holds(entry.where, container[key]):
            yield from _places(container[key], entry.path[2:])


def _places(document: Any, path: tuple[str, ...]) -> Iterator[tuple[Any, Any]]:
    """Containers and keys that a path leads to. A field that is not there yet is a place too, at the path's end."""
    first, *rest = path
    for container, key in _children(document, first, last=not rest):
        if rest:
            yield from _places(container[key], tuple(rest))
        else:
            yield container, key


def _children(document: Any, step: str, *, last: bool) -> Iterator[tuple[Any, Any]]:
    if isinstance(document, MutableMapping):
        if step == "*":
            yield from ((document, key) for key in list(document))
        elif step in document or last:
            yield document, step
    elif isinstance(document, MutableSequence):
        if step == "*":
            yield from ((document, i) for i in range(len(document)))
        elif step.startswith("["):
            yield from ((pair, 1) for pair in document if pair[0] == step[1:-1])
        elif step.isdigit() and int(step) < len(document):
            yield document, int(step)
