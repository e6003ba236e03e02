"""Computes what has to come out of the application of `tools.chaos.shop`, from its input, in plain Python."""

from __future__ import annotations

import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

KEYS, BUCKETS, USERS, ORDERS = 40, 17, 12, 150
SIZE_MS, GAP_MS, JOIN_MS = 5_000, 1_500, 1_000
INPUTS = ("events", "clicks", "users", "orders", "profiles")
OUTPUTS = ("windows", "final", "sessions", "joined", "enriched", "once", "named", "sums")
END, END_MS = "end", 10 * 86_400_000
"""The records that close the last windows: their value, and how much later than the first record they are."""


class Row(NamedTuple):
    """A record of a topic."""

    key: str
    value: bytes | None
    timestamp: int

    @property
    def text(self) -> str:
        return (self.value or b"").decode()


Topics = Mapping[str, Sequence[Row]]


def bucket_of(key: str) -> str:
    """Returns the key by which events are counted in windows."""
    return f"b{int(key[1:]) % BUCKETS}"


def order_of(order: str) -> tuple[str, int]:
    """Returns the user and the amount of an order."""
    user, _, amount = order.partition("|")
    return user, int(amount)


def is_end(row: Row) -> bool:
    """Whether a record is one of those that only close windows."""
    return row.text == END


def _latest(rows: Iterable[Row]) -> dict[str, bytes]:
    """Returns a topic as a table."""
    found: dict[str, bytes] = {}
    for row in rows:
        if row.value is None:
            found.pop(row.key, None)
        else:
            found[row.key] = row.value
    return found


def _all_of(rows: Iterable[Row]) -> dict[str, list[str]]:
    found = defaultdict(list)
    for row in rows:
        found[row.key].append(row.text)
    return found


Problems = list[str]
Check = Callable[[Topics, Topics, bool], Problems]
"""``(inputs, outputs, exactly_once)`` to what is wrong, each in words."""


def _unequal(what: str, found: Mapping[str, object], due: Mapping[str, object]) -> Problems:
    keys = sorted(key for key in found.keys() | due.keys() if found.get(key) != due.get(key))
    return [f"{what} {key}: {found.get(key)}, and {due.get(key)} is due" for key in keys]


def _counted(what: str, found: Mapping[str, list[str]], due: Mapping[str, int], exactly_once: bool) -> Problems:
    """Checks counts that were seen each time they rose: each number once, or at least once no number left out."""
    wrong = []
    for key in sorted(found.keys() | due.keys()):
        seen, most = found.get(key, []), due.get(key, 0)
        is_right = seen == [str(n + 1) for n in range(most)] if exactly_once else max(map(int, seen), default=0) >= most
        if not is_right:
            wrong.append(f"{what} {key}: seen {seen[-5:]} of {len(seen)}, and {most} is due")
    return wrong


def _windows_due(events: Iterable[Row]) -> Counter[str]:
    due: Counter[str] = Counter()
    for row in events:
        if not is_end(row):
            start = row.timestamp // SIZE_MS * SIZE_MS
            due[f"{bucket_of(row.key)}@{start}-{start + SIZE_MS}"] += 1
    return due


def _without_end(found: Mapping[str, list[str]], events: Sequence[Row]) -> dict[str, list[str]]:
    ends = {f"@{row.timestamp // SIZE_MS * SIZE_MS}-" for row in events if is_end(row)}
    return {key: seen for key, seen in found.items() if not any(end in key for end in ends)}


def windows(inputs: Topics, outputs: Topics, exactly_once: bool) -> Problems:
    found = _without_end(_all_of(outputs["windows"]), inputs["events"])
    return _counted("window", found, _windows_due(inputs["events"]), exactly_once)


def final(inputs: Topics, outputs: Topics, exactly_once: bool) -> Problems:
    """Each window has one result, the last one. Those that are not closed yet have none."""
    found, due = _without_end(_all_of(outputs["final"]), inputs["events"]), _windows_due(inputs["events"])
    if not any(map(is_end, inputs["events"])):
        return [f"final {key} before its end" for key in found]
    if exactly_once:
        return _unequal("final", found, {key: [str(count)] for key, count in due.items()})
    return [f"final {key}: {found.get(key)}, and {n} is due" for key, n in due.items() if not _most(found, key) >= n]


def _most(found: Mapping[str, list[str]], key: str) -> int:
    return max(map(int, found.get(key, [])), default=0)


def sessions(inputs: Topics, outputs: Topics, exactly_once: bool) -> Problems:
    times = defaultdict(list)
    for row in inputs["events"]:
        if not is_end(row):
            times[row.key].append(row.timestamp)
    due: dict[str, int] = {}
    for key, each in times.items():
        begun: list[int] = []
        for time in [*sorted(each), 1 << 62]:
            if begun and time - begun[-1] > GAP_MS:
                due[f"{key}@{begun[0]}-{begun[-1]}"] = len(begun)
                begun = []
            begun.append(time)
    ends = {f"@{row.timestamp}-{row.timestamp}" for row in inputs["events"] if is_end(row)}
    latest = {key: int(text) for key, text in _latest(outputs["sessions"]).items()}
    found = {key: count for key, count in latest.items() if not any(key.endswith(end) for end in ends)}
    if exactly_once:
        return _unequal("session", found, due)
    return [f"session {key}: {found.get(key)}, and {n} is due" for key, n in due.items() if found.get(key, 0) < n]


def _each(what: str, found: Iterable[str], due: Iterable[str], exactly_once: bool) -> Problems:
    have, want = Counter(found), Counter(due)
    wrong = [f"{what} {one} is missing" for one in sorted((want - have).elements())]
    strange = have.keys() - want.keys()
    return wrong + [f"{what} {one} is too many" for one in sorted(have - want) if exactly_once or one in strange]


def joined(inputs: Topics, outputs: Topics, exactly_once: bool) -> Problems:
    clicks = defaultdict(list)
    for row in inputs["clicks"]:
        clicks[row.key].append(row)
    due = [
        f"{event.key} {event.text}+{click.text}"
        for event in inputs["events"]
        for click in clicks[event.key]
        if abs(event.timestamp - click.timestamp) <= JOIN_MS
    ]
    return _each("pair", (f"{row.key} {row.text}" for row in outputs["joined"]), due, exactly_once)


def enriched(inputs: Topics, outputs: Topics, exactly_once: bool) -> Problems:
    users = _latest(inputs["users"])
    due = [f"{row.key} {row.text}:{users[row.key].decode()}" for row in inputs["events"] if not is_end(row)]
    found = (f"{row.key} {row.text}" for row in outputs["enriched"] if not row.text.startswith("end:"))
    return _each("enriched", found, due, exactly_once)


def once(inputs: Topics, outputs: Topics, exactly_once: bool) -> Problems:
    due = {f"{row.key} {row.text}" for row in inputs["clicks"]}
    return _each("click", (f"{row.key} {row.text}" for row in outputs["once"]), due, exactly_once)


def named(inputs: Topics, outputs: Topics, exactly_once: bool) -> Problems:
    """A table has its last rows under either guarantee."""
    profiles, due = _latest(inputs["profiles"]), {}
    for key, order in _latest(inputs["orders"]).items():
        profile = profiles.get(order_of(order.decode())[0])
        if profile is not None:
            due[key] = order + b"@" + profile
    return _unequal("order", _latest(outputs["named"]), due)


def sums(inputs: Topics, outputs: Topics, exactly_once: bool) -> Problems:
    """Checks the last sums. At least once one may be of records that were counted twice, and nothing is promised."""
    if not exactly_once:
        return []
    due: Counter[str] = Counter()
    for order in _latest(inputs["orders"]).values():
        user, amount = order_of(order.decode())
        due[user] += amount
    latest = {key: struct.unpack(">q", total)[0] for key, total in _latest(outputs["sums"]).items()}
    return _unequal("sum", {key: total for key, total in latest.items() if total}, {k: n for k, n in due.items() if n})


CHECKS: Mapping[str, Check] = {
    "windows": windows,
    "final": final,
    "sessions": sessions,
    "joined": joined,
    "enriched": enriched,
    "once": once,
    "named": named,
    "sums": sums,
}
"""The check of each output topic."""


def wrong_results(inputs: Topics, outputs: Topics, *, exactly_once: bool) -> dict[str, Problems]:
    """Returns what is wrong, by output topic; empty if all is as it must be."""
    found = {name: check(inputs, outputs, exactly_once) for name, check in CHECKS.items()}
    return {name: problems for name, problems in found.items() if problems}
