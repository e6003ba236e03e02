"""Texts that come from data or from peers, made fit for a line of a log or an error.

A record, a broker's answer or the error of a user's function may hold anything: megabytes, line breaks that forge a
line, and sequences that a terminal obeys.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

MOST_VALUE = 500
"""Characters of one value of data in the text of an error, such as its key."""
MOST_TEXT = 2_000
"""Characters of a text in a line of the log, and of the reason in an error."""
MOST_MESSAGE = 10_000
"""Characters of the message of an error, which may list several complaints."""

_MOST_INPUT = 80
_MOST_FIELDS = 5


def error_text(error: BaseException) -> str:
    """Returns the text of an error, cut; that of pydantic, which has several lines, as one: each field, what was wrong
    with it, and the value.

    Pydantic's errors are known by their shape, since this package needs the standard library only.
    """
    if type(error).__name__ != "ValidationError":
        return cut(plain_str(error), MOST_TEXT)
    try:
        shape: Any = error
        found = [_field_text(one) for one in shape.errors(include_url=False)]
        title = str(shape.title)
    except Exception:  # an error of this name that is not pydantic's
        return cut(plain_str(error), MOST_TEXT)
    more = len(found) - _MOST_FIELDS
    text = "; ".join(found[:_MOST_FIELDS]) + (f"; and {more} more" if more > 0 else "")
    return cut(f"no valid {title}: {text}", MOST_TEXT)


def kind_and_text(error: BaseException) -> str:
    """Returns the class of an error and its text."""
    text = error_text(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def plain_str(value: object) -> str:
    """Returns the text of any object, also of one whose ``__str__`` fails: an error must not get lost on its way, or
    reach the wrong handler, because its text cannot be made."""
    return _plain(str, value)


def repr_of(value: object, most: int = MOST_VALUE) -> str:
    """Returns the representation of anything that was given, for the text of an error or a log: on one line, cut after
    that many characters, and also for an object whose ``__repr__`` fails."""
    return shown(_plain(repr, value), most)


def _plain(text_of: Callable[[object], str], value: object) -> str:
    try:
        return str.__getitem__(text_of(value), slice(None))  # a subclass of str may have any methods
    except Exception as error:
        return f"<{type(value).__name__}, whose {text_of.__name__}() raises {type(error).__name__}>"


def _field_text(one: dict[str, Any]) -> str:
    place = ".".join(map(str, one["loc"]))
    text = one["msg"] if not place else f"{place}: {one['msg']}"
    return text if one["type"] == "missing" else f"{text}, got {repr_of(one['input'], _MOST_INPUT)}"


def shown(text: str, most: int = MOST_TEXT) -> str:
    """Returns a text on one line, cut after that many characters with a note of how many more there were."""
    return printable(cut(text, most))


def cut(text: str, most: int) -> str:
    """Returns a text cut after that many characters, with a note of how many more there were."""
    if len(text) <= most:
        return text
    return f"{text[:most]}... ({len(text) - most} more characters)"


def printable(text: str, keep: str = "") -> str:
    """Returns a text in which characters that cannot be printed are escaped as Python does.

    Such are controls, line breaks, changes of the direction of writing and halves of surrogates. It takes time linear
    in the length.

    :param keep: characters that stay as they are.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in keep else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


# An unescaped slash in a password makes its rest look like a path, so a colon before the first slash counts as one.
_LOGIN = re.compile(r"""(?<=://)(?:[^/\s,'"@]*|[^/\s,'"@:]+:[^\s,'"@]*)@""")
_BARE_LOGIN = re.compile(r"""^[^/\s,'"@:]+:[^\s,'"@]*@""")


def without_logins(text: str) -> str:
    """Returns a text without the logins in its URLs (``https://user:password@host``)."""
    return _BARE_LOGIN.sub("***@", _LOGIN.sub("***@", text)) if "@" in text else text
