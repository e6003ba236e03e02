"""Functions and objects that a client calls: its reports, which do not keep the object they belong to, and its log.

A client holds a key of the process for thread-local data, of which there are 1,024. So it has to be freed when nothing
uses it any more, not when the garbage collector finds a cycle, which in a large process may be much later.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any
from weakref import WeakMethod

log = logging.getLogger("streams.kafka.client")


class ClientLog:
    """Receives the lines that librdkafka logs, in place of a logger; without one, it writes them to standard error.

    They are logged at level debug: what follows from them is reported as an error or an event as well.
    """

    def log(self, level: int, template: str, *fields: str) -> None:
        log.log(logging.ERROR if level >= logging.CRITICAL else logging.DEBUG, template, *fields)


def weakly(method: Callable[..., None]) -> Callable[..., None]:
    """Returns a function that calls a method while its object exists, and does nothing afterwards."""
    reference = WeakMethod(method)

    def call(*arguments: Any) -> None:
        found = reference()
        if found is not None:
            found(*arguments)

    return call
