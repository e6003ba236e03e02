"""The pages of the reference: every public name, with its signature and docstring, as Sphinx' autodoc writes it."""

from __future__ import annotations

import functools
import inspect
import re
import types
from collections.abc import Collection
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import streams
from tools.public_names import members
from tools.site.guides import guides_of

ERRORS = "processor_api.errors"
ABOUT_EXAMPLES = (
    "Short examples begin where a topology is being written: with a ``builder``, and with streams and tables named"
    " after what they hold. A comment says which records go in and which come out,"
    ' ``# ("ann", 1), ("bob", 2) -> ("ann", 1)``; a number behind ``@`` is a time in ms, and a windowed key is'
    " ``(key, (start, end))``."
)


SENTENCE = re.compile(r".*?[.:](?= |$)")
MANY = 6
"""A class with more members than this has a list of them at the top."""


@dataclass(frozen=True)
class Group:
    """A part of the reference: the names of one public module that come from some of our modules."""

    title: str
    module: str
    homes: tuple[str, ...]

    def has(self, name: str) -> bool:
        return any(home_of(self.module, name).startswith(home) for home in self.homes)


REFERENCE = {
    "application": Group("Applications and settings", "streams", ("streams.app", "streams.cli", "streams.config")),
    "streams-and-tables": Group(
        "Streams and tables",
        "streams",
        (
            *("dsl.builder", "dsl.streams", "dsl.branch", "dsl.global_ktable"),
            *("dsl.batch_processor", "dsl.value_transformer"),
        ),
    ),
    "windows-and-options": Group("Windows and options", "streams", ("dsl.",)),
    "processors": Group(
        "The processor API",
        "streams",
        tuple(
            f"processor_api.{name}"
            for name in (
                *("topology", "processor", "context", "record", "punctuation", "wrapper", "nodes", "metrics"),
                *("task_id", "timestamps", "offset_reset"),
            )
        ),
    ),
    "stores": Group("Stores", "streams", ("processor_api.stores", "state.")),
    "queries": Group("Queries and threads", "streams", ("streams.queries", "streams.runtime", "streams.restore")),
    "observing": Group("What a worker does", "streams", ("streams.observing",)),
    "remote": Group("Queries over HTTP", "streams.remote", ("",)),
    "serdes": Group("Serdes", "streams", ("streams.serdes", "processor_api.serde", "streams.registry")),
    "errors": Group("Errors and handlers", "streams", (ERRORS, "processor_api.handlers")),
    "serdes-module": Group("Serdes by name", "streams.serdes", ("",)),
    "dead-letters": Group("Dead letters", "streams.dead_letters", ("",)),
    "other": Group("Types of functions, and other names", "streams", ("",)),
    "testing": Group("Testing", "streams.testing", ("",)),
    "engines": Group("Storage engines", "streams.engines", ("",)),
    "spark": Group("Spark", "streams.spark", ("",)),
}


def shown() -> dict[str, set[str]]:
    """Every name of the reference, by the full name of its place: its own, or that of the class that has it."""
    found: dict[str, set[str]] = {}
    for group in REFERENCE.values():
        public = import_module(group.module)
        for name in names_of(group):
            value, full = getattr(public, name), f"{group.module}.{name}"
            home = f"streams.{name}" if is_elsewhere(group.module, name) else full
            found.setdefault(home, set()).add(full)
            if not inspect.isclass(value) or isinstance(value, types.GenericAlias):
                continue
            if home != full:
                for member in members(value):
                    found.setdefault(f"{home}.{member}", set()).add(f"{full}.{member}")
                continue
            own, inherited = own_members(group.module, value)
            for member in own:
                found.setdefault(f"{full}.{member}", set()).add(f"{full}.{member}")
            for base, names in inherited.items():
                for member in names:
                    found.setdefault(f"{base}.{member}", set()).add(f"{full}.{member}")
    return found


@functools.cache
def home_of(module: str, name: str) -> str:
    """The module that defines a name."""
    found = getattr(import_module(module), name)
    return getattr(found, "__module__", "") if inspect.isclass(found) or inspect.isfunction(found) else ""


def names_of(group: Group) -> list[str]:
    """The names that the page shows: each public name is on the first page that has it."""
    before = [other for other in REFERENCE.values() if other.module == group.module]
    before = before[: before.index(group)]
    every = sorted(import_module(group.module).__all__)
    return [name for name in every if group.has(name) and not any(other.has(name) for other in before)]


def write_reference(folder: Path) -> None:
    """Writes the pages of all groups, and a page for each of their classes."""
    folder.mkdir(parents=True, exist_ok=True)
    for page, group in REFERENCE.items():
        for name, text in pages_of(page, group).items():
            (folder / f"{name}.rst").write_text(text, encoding="utf-8")


def pages_of(page: str, group: Group) -> dict[str, str]:
    """Returns the texts of a group's page, with its functions, and of the pages of its classes, by their names."""
    classes = [name for name in names_of(group) if has_page(group.module, name)]
    others = [name for name in names_of(group) if name not in classes]
    lines = [group.title, "=" * len(group.title), "", f"``from {group.module} import ...``", ""]
    lines += [ABOUT_EXAMPLES, ""] if others else []
    for name in classes:
        lines.append(f"* :doc:`{name} <{group.module}.{name}>`: {summary(getattr(import_module(group.module), name))}")
    lines.append("")
    for name in others:
        lines += [name, "-" * len(name), "", *guides_of(f"{group.module}.{name}"), *directive(group.module, name)]
    found = {page: "\n".join(lines) + "\n"}
    return found | {f"{group.module}.{name}": class_page(page, group, name) for name in classes}


def class_page(page: str, group: Group, name: str) -> str:
    """Returns the text of the page of a class; it is in no table of contents, since each page would show them all."""
    kind = getattr(import_module(group.module), name)
    own, _ = own_members(group.module, kind)
    where = f"``from {group.module} import {name}``; one of :doc:`{group.title} <{page}>`."
    lines = [":orphan:", "", name, "=" * len(name), "", where, "", *guides_of(f"{group.module}.{name}")]
    if any(" -> " in (inspect.getdoc(getattr(kind, member, None)) or "") for member in own):
        lines += [ABOUT_EXAMPLES, ""]
    if len(own) > MANY:
        links = [f":py:obj:`{member} <{group.module}.{name}.{member}>`" for member in own]
        lines += [f"Members: {', '.join(links)}.", ""]
    return "\n".join([*lines, *directive(group.module, name)]) + "\n"


def has_page(module: str, name: str) -> bool:
    """Whether a name is a class with a page of its own."""
    found = getattr(import_module(module), name)
    return inspect.isclass(found) and not isinstance(found, types.GenericAlias) and not is_elsewhere(module, name)


def summary(kind: type[Any]) -> str:
    """Returns the first sentence of a class's docstring."""
    first = " ".join((inspect.getdoc(kind) or "").partition("\n\n")[0].split())
    return (SENTENCE.match(first) or [first])[0].rstrip(".:") + "."


def directive(module: str, name: str) -> list[str]:
    found = getattr(import_module(module), name)
    full = f"{module}.{name}"
    if is_elsewhere(module, name):
        return [f"The same as :py:obj:`streams.{name}`, also by the name ``{full}``.", ""]
    if inspect.isclass(found) and not isinstance(found, types.GenericAlias):
        own, inherited = own_members(module, found)
        options = [f"   :members: {', '.join(own)}", "   :undoc-members:"] if own else []
        notes = [
            line
            for base, names in inherited.items()
            for line in ("", f"   Also has, from :class:`{base}`: {', '.join(f'``{one}``' for one in names)}.")
        ]
        return [f".. autoclass:: {full}", *options, *notes, ""]
    if inspect.isfunction(found):
        return [f".. autofunction:: {full}", ""]
    return [f".. autodata:: {full}", "   :no-value:", ""]


def is_elsewhere(module: str, name: str) -> bool:
    """Whether the pages of `streams` show the name already."""
    return (
        module != "streams"
        and name in streams.__all__
        and getattr(streams, name) is getattr(import_module(module), name)
    )


def own_members(module: str, kind: type[Any]) -> tuple[list[str], dict[str, list[str]]]:
    """The members that are shown at a class, and those that are shown at a public class that it derives from."""
    listed = classes_of(module)
    own, inherited = [], dict[str, list[str]]()
    for member in sorted(members(kind)):
        owner = shown_at(kind, member, listed.keys())
        if owner is kind:
            own.append(member)
        else:
            home = "streams" if is_elsewhere(module, listed[owner]) else module
            inherited.setdefault(f"{home}.{listed[owner]}", []).append(member)
    return own, inherited


@functools.cache
def classes_of(module: str) -> dict[type[Any], str]:
    public = import_module(module)
    return {found: name for name in public.__all__ if inspect.isclass(found := getattr(public, name))}


def shown_at(kind: type[Any], member: str, public: Collection[type[Any]]) -> type[Any]:
    """The public class that brings the member: the first that has it, also by a private class below it."""
    for base in kind.__mro__:
        if member in vars(base) or member in vars(base).get("__annotations__", ()):
            return next(each for each in reversed(kind.__mro__) if each in public and base in each.__mro__)
    raise AttributeError(f"{kind.__name__} has no {member}")
