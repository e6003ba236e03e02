"""The header of a changelog record that says when a key of a store with a time to live by access was last used.

It stands behind the headers of the user, and every restore takes it off, also when the store's time to live is now
counted in another way; so users never see it. A store that writes no such header leaves the user's headers as they are.
Only if the user's last header looks like ours, one of ours is written behind it, with "not known" as the time.
"""

from __future__ import annotations

from collections.abc import Callable

from processor_api.record import NO_TIMESTAMP, HeaderList
from state.row_format.codec import pack_access

ACCESS_HEADER = "streams.accessed"
"""The header's name. Its value is the stream time of the last access in ms, i64; -1 if it is not known."""
NOT_KNOWN = pack_access(NO_TIMESTAMP)
"""The value of the header if the time is not known."""


def with_access(headers: HeaderList | None, accessed: bytes) -> HeaderList:
    """Returns the headers of a logged record: those given, and the time of the access."""
    return [*(headers or ()), (ACCESS_HEADER, accessed)]


def split_access(headers: HeaderList | None) -> tuple[bytes, HeaderList | None]:
    """Returns the time of the access as it stands in a row, and the headers without it.

    The time is not known if the store had no time to live when it wrote the record.
    """
    if _ends_with_access(headers):
        assert headers is not None
        accessed = headers[-1][1]
        assert accessed is not None
        return accessed, headers[:-1]
    return NOT_KNOWN, headers


def guarded(log: Callable[..., None]) -> Callable[..., None]:
    """Returns the log of a store that has its users' headers and no time of access."""

    def logged(key: bytes, data: bytes | None, timestamp: int, headers: HeaderList | None = None) -> None:
        log(key, data, timestamp, headers if data is None else guarded_headers(headers))

    return logged


def guarded_headers(headers: HeaderList | None) -> HeaderList | None:
    """Returns the headers of a logged record of a store that has its users' headers and no time of access."""
    return with_access(headers, NOT_KNOWN) if _ends_with_access(headers) else headers


def _ends_with_access(headers: HeaderList | None) -> bool:
    if not headers:
        return False
    name, value = headers[-1]
    return name == ACCESS_HEADER and value is not None and len(value) == len(NOT_KNOWN)
