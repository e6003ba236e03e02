"""Sinks whose serdes take headers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from processor_api.record import Forward, HeaderList, Headers
from processor_api.serde import Serde, at_call


def with_own_headers(
    make: Callable[[Serde[Any], Serde[Any]], Forward], key_serde: Serde[Any], value_serde: Serde[Any]
) -> Forward:
    """Returns a sink whose records have headers of their own: a serde may add some, and other nodes do not see these.

    :param make: makes the sink from its serdes; it calls these before it looks at the headers.
    """
    current = Headers()

    def headers_now() -> Headers:
        return current

    write = make(at_call(key_serde, headers_now), at_call(value_serde, headers_now))

    def sink(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
        nonlocal current
        current = Headers(headers or ())
        write(key, value, timestamp, current)

    return sink
