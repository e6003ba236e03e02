"""Where this project differs from Java: ``tests/golden/differences.toml``, read and applied here.

An entry says which recordings it is about (globs), where in them (a path of field names and indexes, with ``*`` for any
and ``[name]`` for the value of the header of that name), what is expected here in place of what Java did, whose doing
it is (``cause``), and why (``reason``)::

    [[topology]]
    case = "papi-*"                 # glob over names of cases
    run = "scenario:*"              # glob over runs; left out: the case's own fields (describe, internal_topics, ...)
    step = 3                        # left out: the run's own fields (stores, metrics); "*": any
    field = "out/0/timestamp"
    ours = '5'
    cause = "defect"                # Java contradicts itself or what it promises; or "choice": ours
    reason = "..."

    [[vector]]
    format = "task id parsed"       # name of the group
    input = '{"text": "-1_0"}'      # fields that the vector's input has
    ours = '{"error": true}'        # all fields expected of the vector
    cause = "choice"
    reason = "..."

    [[store]]
    store = "kv.*"                  # glob over names of files
    trace = "iterating"             # glob over traces
    op = 3                          # left out: the trace's own fields (contents, changelog, ...); "*": any
    where = '{"op": "fetch"}'       # fields that the step or the op has; left out: any step or op chosen above
    field = "result"
    ours = 'null'
    cause = "choice"
    reason = "..."

What is expected is a result only where a recording is of a scenario, which is the same in every recording. Recordings
of random calls are drawn anew, and an entry about them is a rule. One of these stands in every entry:

* ``ours``: JSON, where a string ``text:...`` means the hex of that text; or ``absent = true``;
* ``rule``: the name of a function in ``golden_support.difference_rules`` that makes it of what was recorded; of a whole
  run with ``field = "steps"``;
* ``as_on = "memory"``: what the recording of the same trace on that engine has there; with ``order = "rocksdb"`` in the
  order of rows of that engine;
* ``ends = true``, of a trace: of what a cache forwarded and logged only how it ends is compared (``cache_ends``);
* ``versions = "forgetful"``, of a run: it is as recorded, or it is once its versioned stores forget deletions as Java's
  do (``state_support.forgetful_versions``).
* ``more = true``, of a run: what was recorded comes in the same steps, and beside it what Java loses, which
  ``golden_support.more_records`` computes from the recording;
* ``counts_below = true``, of a run: Java loses removals of sessions, and the counts of its rows below follow from the
  sessions that are left, as ``golden_support.counts_below`` computes them.

Versioned stores alone are held against a model (``versions_harness``), and have no entries for what it knows.

An entry is stale, and fails, when it changes nothing in the project's own recordings.
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

from golden_support.compare import UNTOLD
from golden_support.difference_rules import RULES, in_order_of_rocksdb

__all__ = ["Difference", "Differences"]

_SELECTORS = {"topology": ("case", "run"), "vector": ("format",), "store": ("store", "trace")}
_ELEMENT = {"topology": ("steps", "step"), "store": ("ops", "op")}
_CAUSES = ("choice", "defect")
_WHOLE = {"topology": {"versions": "forgetful", "more": True, "counts_below": True}, "store": {"ends": True}}
"""By kinds, what may stand in place of a field and of what is expected there."""
_ABSENT = object()
Place = tuple[str | int, ...]


@dataclass(frozen=True)
class Difference:
    """One entry of the file."""

    kind: str
    select: Mapping[str, str]
    path: tuple[str, ...]
    ours: Any
    cause: str
    reason: str
    only_input: Mapping[str, Any] = field(default_factory=dict)
    where: Mapping[str, Any] = field(default_factory=dict)
    as_on: str = ""
    order: str = ""
    rule: str = ""
    whole: str = ""
    """``ends``, ``versions``, ``more``, ``counts_below`` or empty: how the trace or run is looked at as a whole."""

    def matches(self, names: Mapping[str, str]) -> bool:
        return self.select.keys() == names.keys() and all(
            fnmatchcase(names[name], pattern) for name, pattern in self.select.items()
        )

    def __str__(self) -> str:
        where = ", ".join(f"{name} {pattern!r}" for name, pattern in self.select.items())
        what = f" field {'/'.join(self.path)!r}" if self.path else f" input {dict(self.only_input)}"
        what = f" by its {self.whole}" if self.whole else what
        return f"{where},{what}: {self.reason} ({self.cause})"


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
        *,
        source: Any = None,
        recorded: Callable[[str, str], Any] = lambda store, trace: None,
    ) -> tuple[Any, list[Difference]]:
        """A copy of a recorded document with what is expected here in its place, and the entries that changed it.

        :param source: the recording that the document was made of.
        :param recorded: the document of another store and trace; ``None`` if there is none. What is expected of it is
            `UNTOLD` then.
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
                differs = _take_over(changed, recorded(_on(names["store"], entry.as_on), names["trace"]), entry, source)
            elif entry.rule:
                differs = _by_rule(changed, entry, source)
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
        about = {"kind": kind, "select": select, "cause": rest.pop("cause"), "reason": rest.pop("reason")}
        whole = [name for name in _WHOLE.get(kind, {}) if name in rest]
        if whole:
            wanted = _WHOLE[kind][whole[0]]
            if rest.pop(whole[0]) != wanted:
                raise ValueError(f"an entry of the differences has another {whole[0]} than {wanted!r}: {table}")
            return _checked(Difference(**about, path=(), ours=None, whole=whole[0]), rest, table)
        path = tuple(str(rest.pop("field")).split("/")) if kind != "vector" else ()
        if kind in _ELEMENT and _ELEMENT[kind][1] in rest:
            listed, index = _ELEMENT[kind]
            path = (listed, str(rest.pop(index)), *path)
        how = {name: rest.pop(name, "") for name in ("as_on", "order", "rule")}
        by_rule = how["as_on"] or how["rule"] or rest.pop("absent", False)
        ours = _ABSENT if by_rule else _text_to_hex(json.loads(rest.pop("ours")))
        only_input, where = json.loads(rest.pop("input", "{}")), json.loads(rest.pop("where", "{}"))
        entry = Difference(**about, path=path, ours=ours, only_input=only_input, where=where, **how)
    except (KeyError, json.JSONDecodeError) as error:
        raise ValueError(f"the entry {table} of the differences cannot be read: {error!r}") from error
    return _checked(entry, rest, table)


def _checked(entry: Difference, rest: dict[str, Any], table: dict[str, Any]) -> Difference:
    if rest or not entry.reason.strip():
        raise ValueError(f"the entry {table} of the differences has unknown fields {sorted(rest)} or no reason")
    if entry.cause not in _CAUSES:
        raise ValueError(f"the cause of the entry {table} of the differences is not one of {_CAUSES}")
    if (entry.rule and entry.rule not in RULES) or entry.order not in ("", "rocksdb"):
        raise ValueError(f"the rule or order of the entry {table} of the differences is unknown")
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
    """Whether a mapping has these fields, and mappings in it theirs."""
    if not isinstance(found, Mapping):
        return False
    return all(
        name in found and (_holds(value, found[name]) if isinstance(value, Mapping) else found[name] == value)
        for name, value in wanted.items()
    )


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
    for place in list(_chosen(document, entry)):
        container, key = _container(document, place)
        present = not isinstance(container, MutableMapping) or key in container
        if entry.ours is _ABSENT:
            if present:
                del container[key]
                changed = True
        elif not present or container[key] != entry.ours:
            container[key] = copy.deepcopy(entry.ours)
            changed = True
    return changed


def _by_rule(document: Any, entry: Difference, source: Any) -> bool:
    if source is None:  # a rule is about a recorded run; other documents of the same names have none
        return False
    changed = False
    for place in list(_chosen(document, entry)):
        container, key = _container(document, place)
        expected = RULES[entry.rule](container[key], source[place[0]][place[1]] if place[1:] else source)
        changed = changed or expected != container[key]
        container[key] = expected
    return changed


def _on(store: str, engine: str) -> str:
    """The recording of the same store on another engine."""
    variant, _, group = store.split(".", 2)
    return f"{variant}.{engine}.{group}"


def _take_over(document: Any, other: Any, entry: Difference, source: Any) -> bool:
    """Puts what another document has in the places that an entry is about."""
    changed = False
    for place in list(_chosen(document, entry)):
        container, key = _container(document, place)
        expected = UNTOLD
        if other is not None:
            from_, at = _container(other, place)
            expected = copy.deepcopy(from_[at])
            if entry.order:
                expected = in_order_of_rocksdb(expected, document[place[0]][place[1]]["op"], source["store"])
        changed = changed or expected != container[key]
        container[key] = expected
    return changed


def _container(document: Any, place: Place) -> tuple[Any, Any]:
    for step in place[:-1]:
        document = document[step]
    return document, place[-1]


def _chosen(document: Any, entry: Difference) -> Iterator[Place]:
    if not entry.where:
        yield from _places(document, entry.path)
        return
    for place in _places(document, entry.path[:2]):
        container, key = _container(document, place)
        if _holds(entry.where, container[key]):
            yield from ((*place, *rest) for rest in _places(container[key], entry.path[2:]))


def _places(document: Any, path: tuple[str, ...]) -> Iterator[Place]:
    """Where a path leads to. A field that is not there yet is a place too, at the path's end."""
    first, *rest = path
    for place in _children(document, first, last=not rest):
        if rest:
            container, key = _container(document, place)
            yield from ((*place, *more) for more in _places(container[key], tuple(rest)))
        else:
            yield place


def _children(document: Any, step: str, *, last: bool) -> Iterator[Place]:
    if isinstance(document, MutableMapping):
        if step == "*":
            yield from ((key,) for key in list(document))
        elif step in document or last:
            yield (step,)
    elif isinstance(document, MutableSequence):
        if step == "*":
            yield from ((i,) for i in range(len(document)))
        elif step.startswith("["):
            yield from ((i, 1) for i, pair in enumerate(document) if pair[0] == step[1:-1])
        elif step.isdigit() and int(step) < len(document):
            yield (int(step),)
