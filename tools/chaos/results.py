"""Computes what has to come out of the application of `tools.chaos.shop`, from its input, in plain Python."""

from __future__ import annotations

import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, TypeVar

T = TypeVar("T")

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


class Kind(StrEnum):
    """The kinds of problems."""

    LOST = "lost"
    DOUBLED = "doubled"
    WRONG = "wrong"


class Problem(NamedTuple):
    """A result that is not what it must be."""

    kind: Kind
    count: int
    """How many records or results it is about."""
    text: str

    def __str__(self) -> str:
        return f"{self.kind} {self.count}: {self.text}"


Problems = list[Problem]
Check = Callable[[Topics, Topics, bool], Problems]
"""A function of ``(inputs, outputs, exactly_once)`` that returns what is not as it must be.

Results that appear twice are among the problems under either guarantee."""


def _unequal(what: str, found: Mapping[str, T], due: Mapping[str, T]) -> Problems:
    wrong = []
    for key in sorted(key for key in found.keys() | due.keys() if found.get(key) != due.get(key)):
        kind = Kind.LOST if key not in found else Kind.WRONG
        wrong.append(Problem(kind, 1, f"{what} {key} is {found.get(key)}, must be {due.get(key)}"))
    return wrong


def _off(text: str, found: int, due: int) -> Problems:
    """Returns the problem of a count that is too low or too high."""
    if found == due:
        return []
    return [Problem(Kind.LOST if found < due else Kind.DOUBLED, abs(found - due), f"{text}, must be {due}")]


def _unequal_counts(what: str, found: Mapping[str, int], due: Mapping[str, int]) -> Problems:
    keys = sorted(found.keys() | due.keys())
    return [
        one for key in keys for one in _off(f"{what} {key} is {found.get(key)}", found.get(key, 0), due.get(key, 0))
    ]


def _counted(what: str, found: Mapping[str, list[str]], due: Mapping[str, int], exactly_once: bool) -> Problems:
    """Checks counts that were seen each time they rose.

    Exactly once each number must be there once, in order; at least once the highest must not be too low."""
    wrong: Problems = []
    for key in sorted(found.keys() | due.keys()):
        seen, most = [int(text) for text in found.get(key, [])], due.get(key, 0)
        text, numbers = f"{what} {key} has shown {seen[-5:]}, {len(seen)} in all", range(1, most + 1)
        if not exactly_once:
            wrong += _off(text, max(seen, default=0), most)
            continue
        missing, extra = Counter(numbers) - Counter(seen), Counter(seen) - Counter(numbers)
        if missing:
            wrong.append(Problem(Kind.LOST, missing.total(), f"{text}, must show 1 to {most}"))
        if extra:
            wrong.append(Problem(Kind.DOUBLED, extra.total(), f"{text}, must show 1 to {most}"))
        if not missing and not extra and seen != list(numbers):
            wrong.append(Problem(Kind.WRONG, 1, f"{text}, must be in order"))
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
        return [Problem(Kind.WRONG, len(seen), f"final {key} before its end") for key, seen in found.items()]
    wrong = _unequal_counts("final", {key: max(map(int, seen)) for key, seen in found.items()}, due)
    again = {key: seen for key, seen in found.items() if len(seen) > 1}
    return wrong + [Problem(Kind.DOUBLED, len(seen) - 1, f"final {key} is {seen}") for key, seen in again.items()]


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
    return _unequal_counts("session", found, due)


def _each(what: str, found: Iterable[str], due: Iterable[str]) -> Problems:
    have, want = Counter(found), Counter(due)
    wrong = [Problem(Kind.LOST, n, f"{what} {one} is missing") for one, n in sorted((want - have).items())]
    for one, n in sorted((have - want).items()):
        kind, word = (Kind.DOUBLED, "too often") if one in want else (Kind.WRONG, "unexpected")
        wrong.append(Problem(kind, n, f"{what} {one} is {word}"))
    return wrong


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
    return _each("pair", (f"{row.key} {row.text}" for row in outputs["joined"]), due)


def enriched(inputs: Topics, outputs: Topics, exactly_once: bool) -> Problems:
    users = _latest(inputs["users"])
    due = [f"{row.key} {row.text}:{users[row.key].decode()}" for row in inputs["events"] if not is_end(row)]
    found = (f"{row.key} {row.text}" for row in outputs["enriched"] if not row.text.startswith("end:"))
    return _each("enriched", found, due)


def once(inputs: Topics, outputs: Topics, exactly_once: bool) -> Problems:
    due = {f"{row.key} {row.text}" for row in inputs["clicks"]}
    return _each("click", (f"{row.key} {row.text}" for row in outputs["once"]), due)


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
    """Returns what is wrong, by output topic; empty if all is as it must be. At least once a result may be doubled."""
    every = problems(inputs, outputs, exactly_once=exactly_once).items()
    found = {name: [one for one in some if exactly_once or one.kind is not Kind.DOUBLED] for name, some in every}
    return {name: some for name, some in found.items() if some}


def problems(inputs: Topics, outputs: Topics, *, exactly_once: bool) -> dict[str, Problems]:
    """Returns the problems by output topic, also those that at least once allows."""
    return {name: check(inputs, outputs, exactly_once) for name, check in CHECKS.items()}


def count_by_kind(found: Mapping[str, Problems]) -> dict[Kind, int]:
    """Returns how many records are lost, doubled and wrong."""
    return {kind: sum(one.count for some in found.values() for one in some if one.kind is kind) for kind in Kind}
