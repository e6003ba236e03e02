"""The queries of recorded store traces, and results as recordings write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from golden_support.store_calls import ERROR, REFUSALS, plain_key
from processor_api.stores.contracts import ValueAndTimestamp, VersionedRecord
from processor_api.stores.queries import (
    KeyQuery,
    MultiVersionedKeyQuery,
    Query,
    RangeQuery,
    ResultOrder,
    TimestampedKeyQuery,
    TimestampedRangeQuery,
    VersionedKeyQuery,
    WindowKeyQuery,
    WindowRangeQuery,
)
from streams.queries.queries import UnknownQueryType

__all__ = ["run_query"]

Args = Mapping[str, Any]
ORDERS = {None: ResultOrder.ANY, "asc": ResultOrder.ASCENDING, "desc": ResultOrder.DESCENDING}


def _order(args: Args) -> ResultOrder:
    return ORDERS[args.get("order")]


def _windows(args: Args) -> Query[Any]:
    if "key" in args:
        return WindowRangeQuery.with_key(args["key"])
    return WindowRangeQuery.with_window_start_range(args["from"], args["to"])


QUERIES: Mapping[str, Callable[[Args], Query[Any]]] = {
    "KeyQuery": lambda args: KeyQuery(args["key"]),
    "TimestampedKeyQuery": lambda args: TimestampedKeyQuery(args["key"]),
    "RangeQuery": lambda args: RangeQuery(args["from"], args["to"], _order(args)),
    "TimestampedRangeQuery": lambda args: TimestampedRangeQuery(args["from"], args["to"], _order(args)),
    "WindowKeyQuery": lambda args: WindowKeyQuery(args["key"], args["from"], args["to"]),
    "WindowRangeQuery": _windows,
    "VersionedKeyQuery": lambda args: VersionedKeyQuery(args["key"], args.get("as_of")),
    "MultiVersionedKeyQuery": lambda args: MultiVersionedKeyQuery(
        args["key"], args.get("from"), args.get("to"), _order(args)
    ),
}
"""By their recorded names."""


def run_query(ask: Callable[[Query[Any]], Any], args: Args) -> Any:
    """The result of a recorded query.

    :param ask: gives what a store finds, or raises.
    """
    try:
        found = ask(QUERIES[args["type"]](args))
        if not hasattr(found, "close"):
            return _value(found)
        with found:
            return [_row(row) for row in found]
    except UnknownQueryType:
        return {"failure": "UNKNOWN_QUERY_TYPE"}
    except REFUSALS:
        return ERROR


def _row(row: Any) -> Any:
    if isinstance(row, VersionedRecord):
        return _value(row)
    key, value = row
    plain = plain_key(key)
    return [*(plain if isinstance(plain, list) else [plain]), _value(value)]


def _value(value: Any) -> Any:
    """A value, or a tuple of a value and what is told with it."""
    if isinstance(value, VersionedRecord):
        return {"value": value.value, "timestamp": value.timestamp, "valid_to": value.valid_to}
    if isinstance(value, ValueAndTimestamp):
        return {"value": value.value, "timestamp": value.timestamp}
    return value
