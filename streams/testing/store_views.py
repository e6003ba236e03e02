"""Shows a store to a test in the form that it asks for; its kind has the forms (`StoreKind.forms`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from processor_api.errors import TopologyError
from state.write_buffer.store_kind import OpenStore


@dataclass(frozen=True)
class DriverStoreView:
    """A form in which a test asks for a store."""

    form: str

    def of(self, store: OpenStore) -> Any:
        """Returns a store in this form.

        :raises TopologyError: if stores of its kind cannot be shown so.
        """
        name, kind = store.builder.name, store.builder.kind
        form = store.kind.forms.get(self.form)
        if form is None:
            raise TopologyError(f"store {name!r} is a {kind} store and cannot be read as a {self.form} one", store=name)
        return form.facade(store.facade)


KEY_VALUE = DriverStoreView("key-value")
TIMESTAMPED_KEY_VALUE = DriverStoreView("timestamped-key-value")
HEADERS_KEY_VALUE = DriverStoreView("headers-key-value")
VERSIONED_KEY_VALUE = DriverStoreView("versioned-key-value")
WINDOW = DriverStoreView("window")
TIMESTAMPED_WINDOW = DriverStoreView("timestamped-window")
HEADERS_WINDOW = DriverStoreView("headers-window")
SESSION = DriverStoreView("session")
TIMESTAMPED_SESSION = DriverStoreView("timestamped-session")
HEADERS_SESSION = DriverStoreView("headers-session")
