"""How the test driver shows window and session stores."""

from __future__ import annotations

from typing import Any

from processor_api.errors import TopologyError
from state.kinds import OpenStore

__all__ = ["session_view", "timestamped_window_view", "window_view"]


def window_view(store: OpenStore) -> Any:
    """A window store; one with timestamps without them.

    :raises TopologyError: if it is of another kind.
    """
    return _plain(store, "window")


def timestamped_window_view(store: OpenStore) -> Any:
    """A window store with timestamps.

    :raises TopologyError: if it is of another kind.
    """
    if not store.builder.kind.endswith("timestamped-window"):
        raise _wrong(store, "timestamped window")
    return store.facade


def session_view(store: OpenStore) -> Any:
    """A session store; one with timestamps without them.

    :raises TopologyError: if it is of another kind.
    """
    return _plain(store, "session")


def _plain(store: OpenStore, what: str) -> Any:
    kind = store.builder.kind
    if not kind.endswith(what):
        raise _wrong(store, what)
    return store.facade.without_timestamps() if "timestamped" in kind else store.facade


def _wrong(store: OpenStore, what: str) -> TopologyError:
    name = store.builder.name
    return TopologyError(
        f"store {name!r} is a {store.builder.kind} store and cannot be read as a {what} one", store=name
    )
