"""The kinds of window and session stores, by what their values have beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from processor_api.stores.factory import StoreBuilder
from state.engine.port import Engine
from state.windowed.base import TimedOperator
from state.windowed.rows import TimedRows
from state.windowed.segments import FACTS_KEY
from state.windowed.with_headers import HeadersOperator, HeadersRows
from state.write_buffer.headers_codec import (
    HEADERS,
    HEADERS_ALONE,
    row_from_timestamped,
    session_from_plain,
    session_from_timestamped,
)
from state.write_buffer.headers_codec import row_from_plain as headers_from_plain
from state.write_buffer.record_context import Cursor
from state.write_buffer.row_codec import PLAIN, TIMESTAMPED, RowCodec, row_from_plain
from state.write_buffer.store_kind import Opening, OpenStore, Restore, StoreKind
from state.write_buffer.value_forms import Aggregated, Headed, Plain, Shown, Timestamped

__all__ = ["SESSIONS", "WINDOWS", "Values", "timed_kinds"]


@dataclass(frozen=True, kw_only=True)
class Values:
    """What a row has, and how it is shown."""

    codec: RowCodec
    shown: Callable[[str, Cursor], Shown]
    older: Mapping[str, Callable[[bytes], bytes]] = field(default_factory=dict)
    """By the suffixes of older codecs, what makes a row of this one from one of theirs."""
    rows: Callable[..., TimedRows] = TimedRows
    operator: Callable[..., TimedOperator] = TimedOperator
    with_headers: bool = False


_ALONE = Values(codec=PLAIN, shown=Plain)
_WITH_TIMESTAMPS = Values(codec=TIMESTAMPED, shown=Timestamped, older={PLAIN.family_suffix: row_from_plain})
_WITH_HEADERS = Values(
    codec=HEADERS,
    shown=Headed,
    older={TIMESTAMPED.family_suffix: row_from_timestamped, PLAIN.family_suffix: headers_from_plain},
    rows=HeadersRows,
    operator=HeadersOperator,
    with_headers=True,
)

WINDOWS: Mapping[str, Values] = {"": _ALONE, "timestamped-": _WITH_TIMESTAMPS, "headers-": _WITH_HEADERS}
"""By what stands in front of ``window`` in the name of the kind."""
SESSIONS: Mapping[str, Values] = {
    **WINDOWS,
    "headers-": replace(
        _WITH_HEADERS,
        codec=HEADERS_ALONE,
        shown=Aggregated,
        older={TIMESTAMPED.family_suffix: session_from_timestamped, PLAIN.family_suffix: session_from_plain},
    ),
}


def timed_kinds(
    name: str,
    values: Mapping[str, Values],
    open_with: Callable[[Values, bool], Callable[[Opening], OpenStore]],
    restoring: Callable[[Values, bool], Callable[[StoreBuilder[Any, Any], Engine, RowCodec], Restore]],
) -> dict[str, StoreKind]:
    """Key first and ordered by time; the two functions are told which.

    :param name: ``window`` or ``session``.
    """
    found: dict[str, StoreKind] = {}
    for order, time_ordered in (("", False), ("time-ordered-", True)):
        for prefix, of in values.items():
            family = f"{order}{name}-"
            found[f"{order}{prefix}{name}"] = StoreKind(
                replace(of.codec, family_suffix=family + of.codec.family_suffix),
                open_with(of, time_ordered),
                restoring(of, time_ordered),
                older={family + suffix: convert for suffix, convert in of.older.items()},
                same=frozenset({FACTS_KEY}),
            )
    return found
