"""A choice of this project: the removal of a session after the time of a store in memory, where none can be, is not
logged. Java logs a tombstone that moves no time, but moves that of a store that is restored from it: the one shows what
the other hides. Here a restore shows what the store showed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["without_idle_removals"]


def without_idle_removals(trace: Mapping[str, Any]) -> Mapping[str, Any]:
    """A recorded trace as it is expected here: without their tombstones, and restored to what it showed."""
    store = trace["store"]
    if store["kind"].removeprefix("headers-") != "session" or store["engine"] != "memory" or store["caching"]:
        return trace
    idle = {i for i, op in enumerate(trace["ops"]) if op["op"] == "remove" and op["args"]["end"] > op["stream_time"]}
    if not idle or "changelog" not in trace:
        return trace
    changelog = [record for record in trace["changelog"] if record["op"] not in idle]
    return {**trace, "changelog": changelog, "restored": trace["contents"]}
