"""Functions of the user that operators call: marked where they are declared, checked where they are given; joiners in
one form.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from types import MappingProxyType
from typing import Any

from processor_api.texts import repr_of
from processor_api.user_code.checks import check_function
from processor_api.user_code.function_code import named_function
from processor_api.user_code.result_code import MUTABLE, made_by


class NoPairError(TypeError):
    """Raised for a result that is not a pair of key and value, before it is known which function returned it."""

    def __init__(self, given: Any) -> None:
        super().__init__("not a pair (key, value)")
        self.given = given


def no_pair(function: Any, given: Any) -> TypeError:
    """Returns the error of a function that returned no key with its value."""
    found = repr_of(given)
    return TypeError(f"{named_function(function)} must return a pair (key, value), but returned {found}")


def no_iterable(function: Any, given: Any, of: str, error: Exception) -> Exception:
    """Returns the error of a function that returned a text, whose characters are hardly meant, or another value that
    cannot be gone through, such as nothing at all.

    :param of: what the function returns an iterable of.
    :param error: what going through the result raised; returned if it is the result's own error.
    """
    if isinstance(error, NoPairError):
        return no_pair(function, error.given)
    text = isinstance(given, str)
    if hasattr(given, "__iter__") and not text:
        return error
    found = repr_of(given)
    hint = "; list(...) of a string returns its characters" if text else ""
    return TypeError(
        f"{named_function(function)} must return an iterable of {of}, such as a list, but returned {found}{hint}"
    )


def user_function(
    *arguments: str, key_if: str | None = None, generates: bool = False, returns: bool = True
) -> Mapping[str, Any]:
    """Marks a field of an operator that holds a function of the user, and says what it is called with.

    ``mapper: ... = field(metadata=user_function("value", key_if="with_key"))``

    :param key_if: the field of the operator that says whether the key comes first.
    :param generates: whether the function may be a generator function.
    :param returns: whether its result is used.
    """
    return MappingProxyType(
        {
            "user_function": True,
            "arguments": arguments,
            "key_if": key_if,
            "generates": generates,
            "returns": returns,
        },
    )


def check_user_functions(operator: Any, node: str) -> None:
    """Checks that the marked fields of an operator can be called as it calls them.

    :param operator: an operator, or a supplier of processors, which has no such fields.
    :param node: the name of its node, for the error.
    :raises TopologyError: if one of them cannot be called, takes other arguments, or is not a plain function.
    """
    if not is_dataclass(operator):
        return
    for one in fields(operator):
        if not one.metadata.get("user_function"):
            continue
        arguments, hint = one.metadata["arguments"], ""
        key_if = one.metadata["key_if"]
        if key_if is not None:
            arguments, hint = _with_key(arguments, getattr(operator, key_if))
        generates, returns = one.metadata["generates"], one.metadata["returns"]
        given = getattr(operator, one.name)
        check_function(given, one.name, node, arguments, generates=generates, returns=returns, hint=hint)


def _with_key(arguments: tuple[str, ...], takes_key: bool) -> tuple[tuple[str, ...], str]:
    if takes_key:
        return ("key", *arguments), "; the method without _with_key in its name does not pass the key"
    return arguments, "; the method with _with_key at the end of its name also passes the key"


def unshared(initializer: Callable[[], Any]) -> Callable[[], Any]:
    """Returns an initializer that raises if it gives one object to two keys after the object was changed for the first.

    One whose code makes an object at each call is returned as it is.
    """
    made = made_by(initializer)
    if made.kinds and made.receiver is None and not (made.is_known and type(made.known) in MUTABLE):
        return initializer
    first: Any = None
    before: Any = None

    def checked() -> Any:
        nonlocal first, before
        given = initializer()
        if type(given) not in MUTABLE:
            return given
        if given is not first:
            first, before = given, _copied(given)
        elif before is not None and before != given:
            raise TypeError(
                f"{named_function(initializer)} returned the same {type(given).__name__} for two keys, after it was"
                f" changed for the first: return a new one from each call, as lambda: {type(given).__name__}() does"
            )
        return given

    return checked


def _copied(given: Any) -> Any:
    try:
        return copy.deepcopy(given)
    except Exception:  # what is inside cannot be copied, so a change cannot be seen
        return None


def with_key(joiner: Callable[..., Any], takes_key: bool) -> Callable[[Any, Any, Any], Any]:
    """Returns a function ``(key, left, right)``, whether the user's joiner takes the key or not."""
    if takes_key:
        return joiner

    def join(key: Any, left: Any, right: Any) -> Any:
        return joiner(left, right)

    return join


def reversed_joiner(joiner: Callable[..., Any], takes_key: bool) -> Callable[[Any, Any, Any], Any]:
    """Returns a function ``(key, right, left)`` of the user's joiner."""

    def join_with_key(key: Any, right: Any, left: Any) -> Any:
        return joiner(key, left, right)

    def join(key: Any, right: Any, left: Any) -> Any:
        return joiner(left, right)

    return join_with_key if takes_key else join
