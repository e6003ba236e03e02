"""Traces of caches that are full, where it is a matter of memory when an entry leaves: what must be the same then."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

__all__ = ["ends"]


def ends(document: Mapping[str, Any]) -> dict[str, Any]:
    """A trace in which the changes that a cache forwarded, and the records that it logged, are told by key only: how
    they begin and end, and whether each old value is the new one of the change before. All else stays as it is."""
    told = copy.deepcopy(dict(document))
    changes = [change for op in told["ops"] for change in op.pop("forwarded")]
    told["forwarded"] = {key: _chain(found) for key, found in _by(changes, "key").items()}
    told["changelog"] = {key: _last(found) for key, found in _by(told["changelog"], "key_hex").items()}
    return told


def _by(items: Iterable[Mapping[str, Any]], field: str) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for item in items:
        found.setdefault(item[field], []).append(item)
    return dict(sorted(found.items()))


def _chain(changes: list[Mapping[str, Any]]) -> dict[str, Any]:
    links = pairwise(changes)
    first, last = changes[0], changes[-1]
    return {
        "first old": first["old"],
        "last": {"new": last["new"], "timestamp": last["timestamp"]},
        "each follows the one before": all(before["new"] == after["old"] for before, after in links),
    }


def _last(records: list[Mapping[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in records[-1].items() if name != "op"}
