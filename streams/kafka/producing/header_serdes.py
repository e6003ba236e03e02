"""Sinks whose serdes take headers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from processor_api.record import Forward, HeaderList, Headers
from processor_api.serde import CurrentHeaders, Serde


def with_own_headers(
    make: Callable[[Serde[Any], Serde[Any]], Forward], key_serde: Serde[Any], value_serde: Serde[Any]
) -> Forward:
    """Returns a sink whose records have headers of their own: a serde may add some, and other nodes do not see these.

    :param make: makes the sink from its serdes; it calls these before it looks at the headers.
    """
    current = CurrentHeaders()
    write = make(current.handed_to(key_serde), current.handed_to(value_serde))

    def sink(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
        current.now = own = Headers(headers or ())
        write(key, value, timestamp, own)

    return sink
