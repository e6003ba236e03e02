"""The public API as plain text: each name with its signature and the first sentence of its docstring."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
import types
from collections.abc import Iterator
from importlib import import_module
from typing import Any, ForwardRef, get_overloads

from tools.site.reference import Group, is_elsewhere, names_of, own_members

SENTENCE = re.compile(r".*?\.(?= |$)")
ROLE = re.compile(r":\w+:`(?:[^`<]*<)?~?([^`>]+)>?`")
RULES = re.compile(r" \((?:semantics|formats) [^)]*\)")
PATH = re.compile(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z_])")
"""The modules before a name in an annotation."""
HIDDEN = re.compile(r"<(?:function|factory)[^=,)]*>|<lambda>")
"""Defaults that have no text of their own."""


def api(group: Group) -> Iterator[str]:
    """Returns the sections of a group of the reference: a heading, then a section for each name."""
    yield f"### {group.title}: `from {group.module} import ...`"
    for name in names_of(group):
        yield "\n".join(entry(group.module, name))


def entry(module: str, name: str) -> Iterator[str]:
    """The lines for a name, and for its members if it is a class."""
    found = getattr(import_module(module), name)
    if is_elsewhere(module, name):
        yield f"#### {name}\n\nThe same as `streams.{name}`."
    elif inspect.isclass(found) and not isinstance(found, types.GenericAlias):
        listed_below = issubclass(found, enum.Enum) or hasattr(found, "model_fields")
        yield f"#### class {name}{'' if listed_below else signature(found)}\n\n{sentence(found)}\n"
        yield from members_of(module, name)
    elif inspect.isroutine(found):
        yield f"#### {name}{signature(found)}\n\n{sentence(found)}"
    else:
        yield f"#### {name}\n\n`{annotation(found)}`"


def members_of(module: str, name: str) -> Iterator[str]:
    kind = getattr(import_module(module), name)
    own, inherited = own_members(module, kind)
    if fields := [member for member in own if is_field(kind, member)]:
        yield f"- {'one of' if issubclass(kind, enum.Enum) else 'fields'}: {listed(fields, kind)}"
    yield from (member_line(kind, name, member) for member in own if member not in fields)
    yield from (f"- also from `{base}`: {', '.join(f'`{one}`' for one in names)}" for base, names in inherited.items())


def is_field(kind: type[Any], member: str) -> bool:
    """Whether a member is data; properties and methods are lines of their own."""
    found = inspect.getattr_static(kind, member, None)
    return not (isinstance(found, property | staticmethod | classmethod) or inspect.isfunction(found))


def listed(fields: list[str], kind: type[Any]) -> str:
    return ", ".join(f"`{field}{field_type(kind, field)}`" for field in fields)


def field_type(kind: type[Any], field: str) -> str:
    """The type of a field that the signature of its class does not show; the default of a setting."""
    if setting := getattr(kind, "model_fields", {}).get(field):
        return "" if setting.is_required() or setting.default_factory else f" = {setting.default!r}"
    if issubclass(kind, enum.Enum) or field in (parameters(kind) or ()):
        return ""
    types_of = (vars(base).get("__annotations__", {}) for base in kind.__mro__)
    return next((f": {annotation(each[field])}" for each in types_of if field in each), "")


def parameters(kind: type[Any]) -> set[str]:
    try:
        return set(inspect.signature(kind).parameters)
    except ValueError:
        return set()


def member_line(kind: type[Any], name: str, member: str) -> str:
    """The line for a method or property of the class that is public by this name."""
    found = inspect.getattr_static(kind, member)
    if isinstance(found, property):
        shown = f": {annotation(inspect.get_annotations(found.fget).get('return', Any))}" if found.fget else ""
    else:
        shown = signature(getattr(kind, member))
    owner = f"{name}." if isinstance(found, staticmethod | classmethod) else ""
    return f"- `{owner}{member}{shown}`" + (f": {about}" if (about := sentence(found)) else "")


def sentence(found: Any) -> str:
    """Returns the first sentence of a docstring, without references to pages of the site."""
    if dataclasses.is_dataclass(found) and not inspect.isclass(found):
        return ""
    first = " ".join((inspect.getdoc(found) or "").partition("\n\n")[0].split()).replace("``", "`")
    return RULES.sub("", ROLE.sub(r"`\1`", (SENTENCE.match(first) or [first])[0]))


class _Plain(str):
    """An annotation that a signature shows without quotation marks."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def annotation(found: Any) -> _Plain:
    """Returns the text of a type, without the modules of its parts."""
    if isinstance(found, ForwardRef):
        found = found.__forward_arg__
    if not isinstance(found, str):
        found = repr(found) if isinstance(found, int) else inspect.formatannotation(found)
    return _Plain(PATH.sub("", found).replace("~", ""))


def signature(found: Any) -> str:
    """Returns the signature of a function, method or class; those of its overloads, if it has several."""
    forms = get_overloads(found) if inspect.isroutine(found) else []
    return " | ".join(dict.fromkeys(one_signature(form) for form in forms or [found]))


def one_signature(found: Any) -> str:
    try:
        shown = inspect.signature(found)
    except ValueError:
        return ""
    empty = inspect.Parameter.empty
    kept = [
        each if each.annotation is empty else each.replace(annotation=annotation(each.annotation))
        for each in shown.parameters.values()
        if each.name != "self"
    ]
    if [each.name for each in kept] == ["args", "kwargs"]:
        return ""  # A protocol, which no one calls.
    returns = shown.return_annotation
    hidden = inspect.isclass(found) or returns is empty or returns in ("None", None)
    text = str(shown.replace(parameters=kept, return_annotation=empty if hidden else annotation(returns)))
    return HIDDEN.sub("...", text)
