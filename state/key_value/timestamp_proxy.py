"""A timestamped store over a byte store that keeps the values alone: reads give the timestamp -1 (KIP-258)."""

from __future__ import annotations

from typing import Any

from processor_api.record import NO_TIMESTAMP
from processor_api.stores.contracts import ValueAndTimestamp
from processor_api.stores.factory import PROXIED
from state.key_value.store import KeyValueFacade, OperatorStore, TimestampedFacade
from state.write_buffer.buffer import Entry, Rows
from state.write_buffer.row_codec import PLAIN
from state.write_buffer.store_kind import Opening, OpenStore, StoreKind, open_rows

__all__ = ["KINDS", "ProxiedFacade"]


class ProxiedFacade(TimestampedFacade):
    """As a timestamped store; no timestamp is shown, not even of what is still in the buffer."""

    get = KeyValueFacade.get

    def _shown(self, value: Any, timestamp: int) -> Any:
        return ValueAndTimestamp(value, NO_TIMESTAMP)


class _ProxiedOperator(OperatorStore):
    """What operators get: never a timestamp, also of what is still in the buffer."""

    __slots__ = ()

    def __init__(self, rows: Rows) -> None:
        super().__init__(rows)
        get = self.get

        def without_timestamp(key: Any) -> Entry | None:
            entry = get(key)
            return None if entry is None else (entry[0], NO_TIMESTAMP)

        self.get = without_timestamp


def _open_proxied(opening: Opening) -> OpenStore:
    rows = open_rows(opening, log_each=opening.log_each)
    return OpenStore(builder=opening.builder, rows=rows, facade=ProxiedFacade(rows), operator=_ProxiedOperator(rows))


KINDS = {PROXIED: StoreKind(PLAIN, _open_proxied)}
