"""Reads the headers of consumed messages, also those whose names are not UTF-8.

The binding decodes names strictly. If one is not UTF-8, it raises `SystemError`, and leaves behind a list with holes
that ends the process when it is looked at. Java reads such a name with U+FFFD for what cannot be decoded and continues.
So headers are decoded here, before anybody sees a message, while Python's handler ``strict`` replaces instead.
"""

from __future__ import annotations

import codecs
import re
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Message as ClientMessage

_HALF = re.compile(b"\xed[\xa0-\xbf][\x80-\xbf]")
"""Half of a surrogate pair as three bytes, which Java replaces together."""
_lock = threading.Lock()
_owners: set[int] = set()
"""The thread that decodes headers; only its errors are replaced."""


def decode_headers(messages: Sequence[Any]) -> None:
    """Decodes the headers of messages, which keep what they decoded: the client's own `headers` returns it."""
    with replacing():
        deque(map(ClientMessage.headers, messages), 0)


@contextmanager
def replacing() -> Iterator[None]:
    """Has bytes that are not UTF-8 decoded as U+FFFD in this thread, where text is decoded without a choice.

    The handler of errors belongs to the whole process: so it is changed for a moment, and asks which thread it is. The
    lock keeps a second consumer from changing it back meanwhile.
    """
    with _lock:
        _owners.add(threading.get_ident())
        codecs.register_error("strict", _replace)
        try:
            yield
        finally:
            codecs.register_error("strict", codecs.strict_errors)
            _owners.clear()


def _replace(error: UnicodeError) -> tuple[str | bytes, int]:
    if threading.get_ident() not in _owners or not isinstance(error, UnicodeDecodeError):
        return codecs.strict_errors(error)
    half = error.object[error.start : error.start + 3]
    return "\ufffd", error.start + 3 if _HALF.fullmatch(half) else error.end
