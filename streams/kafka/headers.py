"""The headers of records at the border to Kafka: what may be sent, the same for each client.

A header's name is text that goes out as UTF-8. The client in C would end the process for a name that has no UTF-8, and
cuts a name, or a value that is text, at a character NUL; so nothing reaches it unchecked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from processor_api.errors import SerializationError
from processor_api.record import HeaderList
from processor_api.texts import repr_of

_MOST_NAMES = 1_000
_good: set[str] = set()
"""Names that were checked. An application has few; where they are made of data they are forgotten from time to time."""


class UnsendableHeaders(SerializationError):
    """The headers of a record cannot be sent."""


def sendable(headers: Iterable[tuple[str, bytes | None]]) -> HeaderList:
    """Returns headers as every client takes them: a list of names and bytes.

    :raises UnsendableHeaders: if a name is not a string, is not valid UTF-8 or holds a NUL, or a value is neither bytes
        nor a string.
    """
    good = _good
    if isinstance(headers, list):
        try:
            for header in headers:
                name, value = header
                if (
                    type(header) is not tuple
                    or type(name) is not str
                    or name not in good
                    or not (value is None or type(value) is bytes)
                ):
                    break
            else:
                return headers
        except (TypeError, ValueError):  # no pairs: said below
            pass
    return _checked(headers)


def _checked(headers: Iterable[Any]) -> HeaderList:
    checked: HeaderList = []
    if not isinstance(headers, (list, tuple)):  # what can be read only once would be lost when it is sent again
        raise UnsendableHeaders(f"headers must be a list of pairs of a name and bytes, got {type(headers).__name__}")
    for one in headers:
        if not isinstance(one, (tuple, list)) or len(one) != 2:
            raise UnsendableHeaders(f"a header must be a pair of a name and bytes, got {type(one).__name__}")
        checked.append((_name(one[0]), _value(*one)))
    return checked


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise UnsendableHeaders(f"the name of a header must be a string, got {type(name).__name__}")
    if type(name) is not str:
        return _name(str.__str__(name))  # of an enumeration, its value
    try:
        name.encode()
    except UnicodeEncodeError:
        raise UnsendableHeaders(
            f"the name of header {repr_of(name)} cannot be written as UTF-8: it holds half of a surrogate pair"
        ) from None
    if "\0" in name:
        raise UnsendableHeaders(
            f"the name of header {repr_of(name)} must not hold a NUL: the client would cut it there"
        )
    if len(_good) >= _MOST_NAMES:
        _good.clear()
    _good.add(name)
    return name


def _value(name: Any, value: Any) -> bytes | None:
    if value is None or type(value) is bytes:
        return value
    try:
        return value.encode() if isinstance(value, str) else bytes(memoryview(value))
    except UnicodeEncodeError:
        raise UnsendableHeaders(
            f"the text of header {repr_of(name)} cannot be written as UTF-8: it holds half of a surrogate pair"
        ) from None
    except TypeError:
        raise UnsendableHeaders(
            f"the value of header {repr_of(name)} must be bytes, a string or None, got {type(value).__name__}"
        ) from None


def mended(headers: Iterable[tuple[str, bytes | None]]) -> HeaderList:
    """Returns headers that can be sent, with a question mark for each character that cannot, as Java's client writes.

    For dead letters, which show a record that could not be handled, so that they must not fail for the same reason.
    """
    try:
        return sendable(headers)
    except UnsendableHeaders:
        given = headers if isinstance(headers, (list, tuple)) else ()
        return [header for one in given for header in _mended(one)]


def _mended(one: Any) -> HeaderList:
    if not isinstance(one, (tuple, list)) or len(one) != 2:
        return []
    name = str(one[0]).encode("utf-8", "replace").replace(b"\0", b"?").decode()
    try:
        return [(name, _value(*one))]
    except UnsendableHeaders:
        text = one[1] if isinstance(one[1], str) else type(one[1]).__name__
        return [(name, text.encode("utf-8", "replace"))]
