"""Models as JSON: where what is read differs from what was written, and the one form that equal models have."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import json
from collections.abc import Callable
from typing import Any

from processor_api.texts import kind_and_text, repr_of

# ---------------------------------------------------------------------- what comes back


def difference(found: Any, given: Any, place: str = "it") -> str | None:
    """Returns in words where what was read differs from what was written; ``None`` if it does not.

    NaN is NaN here, times are equal that are the same instant, and objects whose class does not compare them are equal.
    """
    parts = _parts_of(found, given)
    if parts is not None:
        return next((each for part in parts if (each := difference(part[1], part[2], place + part[0]))), None)
    return None if _is_same(found, given) else f"{place} would come back as {repr_of(found)}, not {repr_of(given)}"


def check_read_back(
    read: Callable[[bytes], Any],
    data: bytes,
    given: Any,
    refused: Callable[[str], Exception],
    *,
    is_equal: bool = True,
) -> None:
    """Checks that what was written is read as the value that it was.

    :param refused: makes the error to raise from a text that says what is wrong.
    :param is_equal: whether what is read must be equal; otherwise it must be readable.
    """
    try:
        found = read(data)
    except ValueError as error:
        raise refused(f"its written form could not be read: {kind_and_text(error)}") from error
    wrong = None if found == given or not is_equal else difference(found, given)
    if wrong is not None:
        raise refused(wrong)


def _parts_of(found: Any, given: Any) -> list[tuple[str, Any, Any]] | None:
    """Returns the parts of two objects of one shape, with their places; ``None`` if their shapes differ."""
    names = fields_of(given)
    if names is not None:
        others = fields_of(found) if type(found) is type(given) else None
        if others is None or names.keys() != others.keys():
            return None
        return [(f".{name}", others[name], value) for name, value in names.items()]
    if isinstance(given, dict) and isinstance(found, dict) and given.keys() == found.keys():
        return [(f"[{repr_of(name)}]", found[name], value) for name, value in given.items()]
    for kind in (list, tuple):
        if isinstance(given, kind) and isinstance(found, kind) and len(given) == len(found):
            return [(f"[{index}]", *pair) for index, pair in enumerate(zip(found, given, strict=True))]
    return None


def _is_same(found: Any, given: Any) -> bool:
    if fields_of(given) is not None:
        return False
    if isinstance(given, datetime.datetime) and isinstance(found, datetime.datetime):
        return _instant(found) == _instant(given)
    kind: Any = type(given)
    if kind.__eq__ is object.__eq__:
        return type(found) is kind
    return bool(found == given) or (found != found and given != given)


def _instant(time: datetime.datetime) -> datetime.datetime:
    """Returns a time in UTC: Python compares times of two zones as never equal where one of them is repeated."""
    return time if time.utcoffset() is None else time.astimezone(datetime.UTC)


def fields_of(value: Any) -> dict[str, Any] | None:
    """Returns the fields of a model of pydantic, extra ones too, or of a dataclass, by name; ``None`` for anything
    else."""
    kind = type(value)
    if hasattr(kind, "model_fields"):
        extra = getattr(value, "__pydantic_extra__", None) or {}
        return {**{name: vars(value)[name] for name in kind.model_fields if name in vars(value)}, **extra}
    if dataclasses.is_dataclass(kind):
        return {
            field.name: getattr(value, field.name)
            for field in dataclasses.fields(kind)
            if field.compare and hasattr(value, field.name)
        }
    return None


# ---------------------------------------------------------------------- one form


def one_form(value: Any, written: Any) -> Any:
    """Returns the form that equal values have in common, instead of one of several.

    Objects have the names of their dicts in order, and sets their items; times are in UTC, and decimals have no zeros
    at their end. What a serializer of the user wrote stays as it is.

    :param value: a model, or what is in it.
    :param written: what pydantic writes it as: dicts, lists, texts and numbers.
    """
    if isinstance(written, dict):
        return _one_object(value, written)
    if isinstance(written, list) and isinstance(value, (list, tuple, set, frozenset)) and len(value) == len(written):
        items = [one_form(*pair) for pair in zip(value, written, strict=True)]
        return items if isinstance(value, (list, tuple)) else sorted(items, key=json.dumps)
    if isinstance(written, str):
        return _one_text(value, written)
    return written


def _one_object(value: Any, written: dict[str, Any]) -> dict[str, Any]:
    if isinstance(value, dict) and len(value) == len(written):
        items = {name: one_form(one, each) for one, (name, each) in zip(value.values(), written.items(), strict=True)}
        return dict(sorted(items.items()))
    fields = fields_of(value)
    if fields is None:
        return {name: one_form(each, each) for name, each in sorted(written.items())}
    names = {name: name for name in fields}
    declared = getattr(type(value), "model_fields", None) or getattr(type(value), "__pydantic_fields__", {})
    for name, field in declared.items():
        names[getattr(field, "serialization_alias", None) or name] = name
    known = {name: one_form(fields.get(names[name], each), each) for name, each in written.items() if name in names}
    extra = getattr(value, "__pydantic_extra__", None) or {}
    later = {name: known.pop(name) for name in sorted(extra) if name in known}
    rest = {name: one_form(each, each) for name, each in written.items() if name not in names}
    return {**known, **later, **rest}


def _one_text(value: Any, written: str) -> str:
    if isinstance(value, datetime.datetime) and value.utcoffset() is not None:
        if written == _text_of_time(value):
            return _text_of_time(value.astimezone(datetime.UTC))
    elif isinstance(value, datetime.time) and value.utcoffset() is not None:
        raise TypeError("you cannot use a time of day with a zone in a key: equal times do not have the same text")
    elif isinstance(value, decimal.Decimal) and written == str(value):
        digits = max(len(value.as_tuple().digits), 1)
        # Any exponent is kept: by default the smallest ones become zero.
        widest = decimal.Context(prec=digits, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)
        return str(value.normalize(widest))
    return written


def _text_of_time(value: datetime.datetime) -> str:
    text = value.isoformat()
    return text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text
