"""A timestamped store over a byte store that keeps only the values: reads give the timestamp -1 (KIP-258)."""

from __future__ import annotations

from typing import Any

from processor_api.record import NO_TIMESTAMP
from processor_api.stores.contracts import ValueAndTimestamp
from processor_api.stores.factory import PROXIED
from state.key_value.store import TIMESTAMPED_FORMS, KeyValueFacade, OperatorStore, TimestampedFacade
from state.row_format.codec import PLAIN
from state.row_format.row_format import Entry
from state.write_buffer.changelog_form import ChangelogForm
from state.write_buffer.fast_path import make_get, make_put
from state.write_buffer.row_reader import Get
from state.write_buffer.store_kind import Opening, OpenStore, StoreKind, open_rows


class ProxiedFacade(TimestampedFacade):
    """A timestamped store that shows no timestamps, not even of rows that are still in the buffer."""

    get = KeyValueFacade.get

    def _shown(self, value: Any, timestamp: int) -> Any:
        return ValueAndTimestamp(value, NO_TIMESTAMP)


def _without_timestamp(get: Get) -> Get:
    """Returns a store for operators that shows no timestamps, not even of rows that are still in the buffer."""

    def without_timestamp(key: Any) -> Entry | None:
        entry = get(key)
        return None if entry is None else (entry[0], NO_TIMESTAMP)

    return without_timestamp


def _open_proxied(opening: Opening) -> OpenStore:
    rows = open_rows(opening, log_each=opening.log_each)
    get, get_forwarded = (_without_timestamp(make_get(rows, forwarded=only)) for only in (False, rows.cached))
    return OpenStore(
        kind=opening.kind,
        builder=opening.builder,
        rows=rows,
        facade=ProxiedFacade(rows, make_put(rows)),
        operator=OperatorStore(rows, get, get_forwarded=get_forwarded),
    )


KINDS = {
    PROXIED: StoreKind(codec=PLAIN, changelog_form=ChangelogForm.KEYS, open=_open_proxied, forms=TIMESTAMPED_FORMS)
}
