"""What is expected here where an entry of ``tests/golden/differences.toml`` names a rule and not a result."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from struct import pack
from typing import Any

__all__ = ["CHANGELOG_KEPT_LONGER_MS", "RULES", "in_order_of_rocksdb"]

CHANGELOG_KEPT_LONGER_MS = 86_400_000
"""The changelog of a store of windows or sessions is kept longer than the store's rows by this."""

Rule = Callable[[Any, Mapping[str, Any]], Any]
"""Of what was recorded, and the step, call or run that it was recorded of: what is expected here. A run comes with the
fields of its case (``config``, ``java``, ``internal_topics``, ...)."""


def _without_the_deleted_key(text: str, step: Mapping[str, Any]) -> str:
    """The processor of these topologies puts a null for the record's key first, and then lists the keys it finds.
    Those that end with an open bound are read in reverse."""
    if step["in"]["value"] is not None:
        return text
    parts = text.split(" ")
    return " ".join(
        _without(part, step["in"]["key"]) if part.startswith(("reverse=", "all=")) else part for part in parts
    )


def _without(part: str, key: str) -> str:
    name, _, keys = part.partition("=")
    return f"{name}={''.join(f'{each},' for each in keys.split(',')[:-1] if each != key)}"


@dataclass(frozen=True)
class _SelfJoin:
    """A stream that is joined with itself: the bounds of its window, and how long its store keeps a record."""

    before_ms: int
    after_ms: int
    kept_ms: int

    def meets(self, record: tuple[int, str], other: tuple[int, str]) -> bool:
        return -self.before_ms <= other[0] - record[0] <= self.after_ms


def _self_matches_of_what_is_kept(steps: list[Any], run: Mapping[str, Any]) -> list[Any]:
    """A record of a stream joined with itself meets itself as long as the store shows it, as in a join with two stores.

    Of the two topologies of these recordings one maps its values to upper case, and its store keeps them for 11 ms; the
    other's for 30 ms. A record meets the others, and then the others and itself meet it, by their times; those with the
    same value give the same text, and are told from the record itself by counting them.
    """
    upper = any(record["value"].isupper() for step in steps for record in step["out"])
    join = _SelfJoin(2, 9, 11) if upper else _SelfJoin(10, 10, 30)
    stream_time, expected = -1, []
    known: dict[str, list[tuple[int, str]]] = {}
    for step, source in zip(steps, run["steps"], strict=True):
        expected.append(step)
        given = source.get("in")
        if given is None or given["key"] is None or given["value"] is None:
            continue
        stream_time = max(stream_time, given["timestamp"])
        record = given["timestamp"], given["value"].upper() if upper else given["value"]
        others = [one for one in known.setdefault(given["key"], []) if one[0] > stream_time - join.kept_ms]
        known[given["key"]].append(record)
        first = [one for one in others if join.meets(record, one)]
        then = [one for one in others if join.meets(one, record)]
        same = sum(one[1] == record[1] for one in [*first, *then])
        both, out = f"{record[1]}+{record[1]}", list(step["out"])
        place = len(first) + sum(one[0] <= record[0] for one in then)
        met_itself = sum(result["value"] == both for result in out) > same
        if record[0] > stream_time - join.kept_ms and not met_itself:
            about = {"topic": "output", "key": given["key"], "timestamp": given["timestamp"]}
            out.insert(place, {**about, "value": both, "headers": given.get("headers", [])})
        elif record[0] <= stream_time - join.kept_ms and met_itself:
            del out[place]
        expected[-1] = {**step, "out": out}
    return expected


def _without_a_buffer_after_a_failure(internal: list[Any], step: Mapping[str, Any]) -> list[Any]:
    """The buffers of suppressions and joins write to their changelogs when the task commits."""
    if "throws" not in step:
        return internal
    return [record for record in internal if not record["topic"].endswith("sup-store-changelog")]


def _without_headers(stores: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, Any]:
    def without(row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "headers": []} if "headers" in row else row

    return {
        name: {**store, "entries": [without(row) for row in store["entries"]]} if "entries" in store else store
        for name, store in stores.items()
    }


def _joined_rows_without_headers(stores: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, Any]:
    """The stores of joins are told by their names: generated ones, and those that drawn topologies give (``j7``). On
    RocksDB they keep no timestamps beside those of their keys either."""
    less: dict[str, Any] = {"headers": []}
    if "dsl.store.format" in run["config"]:
        less["timestamp"] = -1
    return {
        name: {**store, "entries": [{**row, **less} for row in store["entries"]]}
        if _OF_JOIN.search(name) and "start" in str(store.get("entries", [""])[:1])
        else store
        for name, store in stores.items()
    }


_OF_JOIN = re.compile(r"^KSTREAM-(JOIN|OUTER)(THIS|OTHER)-|^j[0-9]+-")


def _joined_without_a_key(steps: list[Any], run: Mapping[str, Any]) -> list[Any]:
    """The left record at which Java fails, joined with no row."""
    expected = []
    for step, source in zip(steps, run["steps"], strict=True):
        record = source.get("in", {})
        if step["throws"] and record.get("key", "") is None:
            about = {"key": None, "timestamp": record["timestamp"], "headers": record.get("headers", [])}
            joined = {"topic": "output", "value": f"{record['value']}+null", **about}
            step = {**step, "out": [joined], "throws": False}
        expected.append(step)
    return expected


def _without_drops_of_caches(recorded: Any, run: Mapping[str, Any]) -> Any:
    """Steps or metrics without the drops that Java's store in memory counts for what was sent and logged: by its cache,
    or by an aggregation of sessions.

    It refuses a row whose time is the retention behind the largest put, or more. A deletion does not get there: the
    cache does not flush it where the store shows nothing.
    """
    if run["config"].get("default.dsl.store") != "in_memory":
        return recorded
    if "withCachingDisabled" in run["java"] and "SessionWindows" not in run["java"]:
        return recorded
    drops = list(_refused(run))
    if isinstance(recorded, Mapping):
        return {name: count - sum(drops) for name, count in recorded.items()}
    return [{**step, "dropped": step["dropped"] - refused} for step, refused in zip(recorded, drops, strict=True)]


def _refused(run: Mapping[str, Any]) -> Iterator[int]:
    """How many records of each step's changelogs of windows or sessions such a store refuses."""
    kept_ms = {
        topic: int(about["configs"]["retention.ms"]) - CHANGELOG_KEPT_LONGER_MS
        for topic, about in run["internal_topics"].items()
        if about["role"] == "changelog" and "retention.ms" in about["configs"]
    }
    first, last = (-16, -8) if "SessionWindows" in run["java"] else (-12, -4)
    latest = dict.fromkeys(kept_ms, -1)
    for step in run["steps"]:
        refused = 0
        for record in step.get("internal", ()):
            topic = record["topic"]
            if topic in kept_ms and record["value_hex"] is not None:
                time = int.from_bytes(bytes.fromhex(record["key_hex"])[first:last], "big")
                latest[topic] = max(latest[topic], time)
                refused += time <= latest[topic] - kept_ms[topic]
        yield refused


def _with_origins(steps: list[Any], run: Mapping[str, Any]) -> list[Any]:
    """Records of repartition topics name the record that they were made from, and so do their dead letters."""
    read: Counter[str] = Counter()
    expected = []
    for step, source in zip(steps, run["steps"], strict=True):
        topic = source["in"]["topic"]
        origin = ["__streams.origin", f"{topic}:0:{read[topic]}".encode().hex()]
        read[topic] += 1
        more = {name: [_with_origin(one, origin) for one in step[name]] for name in ("out", "internal") if name in step}
        expected.append({**step, **more})
    return expected


def _with_origin(record: Mapping[str, Any], origin: list[str]) -> Mapping[str, Any]:
    headers = list(record.get("headers", ()))
    read = bytes.fromhex(dict(headers).get("__streams.errors.topic", "")).decode()
    if not (record["topic"].endswith("-repartition") or read.endswith("-repartition")):
        return record
    before = [one for one in headers if not one[0].startswith("__streams.errors.")]
    return {**record, "headers": [*before, origin, *headers[len(before) :]]}


RULES: Mapping[str, Rule] = {
    "repartition records name their origin": _with_origins,
    "nothing is dropped that is kept": _without_drops_of_caches,
    "a record that is kept meets itself": _self_matches_of_what_is_kept,
    "a record without a key is joined at once": _joined_without_a_key,
    "rows without headers": _without_headers,
    "joined rows without headers": _joined_rows_without_headers,
    "without the deleted key": _without_the_deleted_key,
    "without a buffer after a failure": _without_a_buffer_after_a_failure,
}
"""By their names."""


def in_order_of_rocksdb(rows: Any, call: str, store: Mapping[str, Any]) -> Any:
    """Rows of windows or sessions in the order in which a store on RocksDB has them: segment by segment, in each of
    them by the bytes of their keys, which end with the times.

    :param call: the recorded name of the read; those of a backward one come the other way round.
    :param store: what a recording tells of its store.
    """
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == 4 for row in rows):
        return rows
    interval = store["segment_interval_ms"]
    order = _of_sessions if store["kind"].endswith("session") else _of_windows
    return sorted(rows, key=lambda row: order(row, interval), reverse=call.startswith("backward_"))


def _of_windows(row: list[Any], interval: int) -> tuple[int, bytes]:
    key, start, _, _ = row
    return start // interval, key.encode() + pack(">q", start)


def _of_sessions(row: list[Any], interval: int) -> tuple[int, bytes]:
    key, start, end, _ = row
    return end // interval, key.encode() + pack(">qq", end, start)
