"""Tables of each shape with followers of each kind, and the last rows of all of them computed from scratch.

A value is an integer or a list of integers. What a shape adds up is a list, so its functions can be of three styles:
those that make new objects, those that change their argument in place, and those that do both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from state.formats.windowed_serdes import SessionWindowedSerde, TimeWindowedSerde
from streams import (
    BufferConfig,
    EmitStrategy,
    Grouped,
    Materialized,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TableJoined,
    TimeWindows,
    UnlimitedWindows,
    ValueTransformerWithKey,
)
from streams.testing import TopologyTestDriver

__all__ = ["END", "FOLLOWERS", "SHAPES", "STYLES", "Record", "expected_rows", "followed_rows"]

S, LONG, JSON = Serdes.STRING, Serdes.LONG, Serdes.JSON
END = 5_000
"""The time of the last record, which closes all windows; it is of a key of its own."""
TIME, HOPS = TimeWindows.of_size_and_grace(10, 7), TimeWindows.of_size_and_grace(10, 7).advance_by(4)
SLIDING = SlidingWindows.of_time_difference_and_grace(6, 1000)
LATE = SlidingWindows.of_time_difference_and_grace(6, 7)
SESSIONS = SessionWindows.of_inactivity_gap_and_grace(5, 7)
WINDOWS: Mapping[str, Any] = {
    "tumbling": TIME,
    "hopping": HOPS,
    "unlimited": UnlimitedWindows.of(),
    "sliding": SLIDING,
    "sessions": SESSIONS,
}
Rows = dict[Any, Any]


class Record(NamedTuple):
    """A record of topic ``a`` or ``b``: of streams its number, and of tables their rows, where ``None`` deletes."""

    topic: str
    key: str
    number: int | None
    time: int


# ---------------------------------------------------------------------------- the functions


@dataclass(frozen=True)
class Style:
    """How a function makes its result of the list that it is given."""

    changes: bool
    copies: bool

    def of(self, held: list[int]) -> list[int]:
        """The list that a function works on."""
        return held if self.changes else list(held)

    def result(self, made: list[int]) -> list[int]:
        """What it returns."""
        made.sort()
        return list(made) if self.copies else made


STYLES: Mapping[str, Style] = {
    "new": Style(changes=False, copies=False),
    "in place": Style(changes=True, copies=False),
    "in place and new": Style(changes=True, copies=True),
}


def items(value: Any) -> list[int]:
    return list(value) if isinstance(value, list) else [value]


def total(value: Any) -> int:
    return sum(items(value))


def adding(style: Style) -> Callable[[Any, Any, Any], Any]:
    def add(key: Any, value: Any, held: list[int]) -> list[int]:
        made = style.of(held)
        made.extend(items(value))
        return style.result(made)

    return add


def taking(style: Style) -> Callable[[Any, Any, Any], Any]:
    def take(key: Any, value: Any, held: list[int]) -> list[int] | None:
        made = style.of(held)
        for number in items(value):
            made.remove(number)
        return style.result(made) or None

    return take


def reducing(style: Style) -> Callable[[Any, Any], Any]:
    add = adding(style)
    return lambda held, value: add(None, value, held)


def merging(style: Style) -> Callable[[Any, Any, Any], Any]:
    add = adding(style)
    return lambda key, one, other: add(key, other, one)


def both(one: Any, other: Any) -> list[int]:
    return sorted([*([] if one is None else items(one)), *([-1] if other is None else items(other))])


def passes(key: Any, value: Any) -> bool:
    return total(value) % 2 == 0


def more(value: Any) -> list[int]:
    return sorted([*items(value), 1])


class More(ValueTransformerWithKey[Any, Any, Any]):
    """Does what `more` does."""

    def transform(self, key: Any, value: Any) -> Any:
        return None if value is None else more(value)


# ---------------------------------------------------------------------------- the shapes


@dataclass(frozen=True)
class Shape:
    """A kind of table.

    :param make: adds it to a builder, with the store's options and the style of its functions.
    :param rows: its last rows, from scratch; ``None`` where they also depend on which windows were there when a record
        came, as those of late records in sliding windows do (semantics 46).
    :param windows: those of its keys.
    """

    make: Callable[[StreamsBuilder, Mapping[str, Any], Style], Any]
    rows: Callable[[Sequence[Record]], Rows] | None
    windows: Any = None
    of_tables: bool = False
    """Whether its topics are tables: their records come in order of time."""
    topics: str = "a"

    @property
    def key_serde(self) -> Any:
        if self.windows is None:
            return S
        if isinstance(self.windows, SessionWindows):
            return SessionWindowedSerde(S)
        size = self.windows.difference_ms if isinstance(self.windows, SlidingWindows) else self.windows.size_ms
        return TimeWindowedSerde(S, size)


def stored(options: Mapping[str, Any], name: str = "table", serde: Any = JSON) -> Any:
    return Materialized(name=name, key_serde=S, value_serde=serde, **options)


def stream(builder: StreamsBuilder, topic: str = "a") -> Any:
    return builder.stream(topic).map_values(lambda number: [number])


def table(builder: StreamsBuilder, options: Mapping[str, Any], topic: str = "a") -> Any:
    return builder.table(topic, materialized=stored(options, f"rows-{topic}"))


def versioned(builder: StreamsBuilder, options: Mapping[str, Any], style: Style) -> Any:
    supplier = Stores.persistent_versioned_key_value_store("rows-a", 10**9)
    return builder.table("a", materialized=Materialized(supplier=supplier, key_serde=S, value_serde=JSON))


def aggregated(
    windows: Any, how: str, *, final: bool = False, suppressed: bool = False
) -> Callable[[StreamsBuilder, Mapping[str, Any], Style], Any]:
    def make(builder: StreamsBuilder, options: Mapping[str, Any], style: Style) -> Any:
        groups = stream(builder).group_by_key()
        if windows is not None:
            groups = groups.windowed_by(windows)
        if final:
            groups = groups.emit_strategy(EmitStrategy.on_window_close())
        found = _aggregated(groups, how, windows, options, style)
        closed = Suppressed.until_window_closes(BufferConfig.unbounded()).with_name("closed")
        return found.suppress(closed) if suppressed else found

    return make


def _aggregated(groups: Any, how: str, windows: Any, options: Mapping[str, Any], style: Style) -> Any:
    if how == "count":
        return groups.count(materialized=stored(options, serde=LONG))
    if how == "reduce":
        return groups.reduce(reducing(style), materialized=stored(options))
    functions = (list, adding(style), merging(style)) if isinstance(windows, SessionWindows) else (list, adding(style))
    return groups.aggregate(*functions, materialized=stored(options))


def cogrouped(windows: Any) -> Callable[[StreamsBuilder, Mapping[str, Any], Style], Any]:
    def make(builder: StreamsBuilder, options: Mapping[str, Any], style: Style) -> Any:
        one, other = (stream(builder, topic).group_by_key() for topic in "ab")
        groups: Any = one.cogroup(adding(style)).cogroup(other, adding(style))
        if windows is None:
            return groups.aggregate(list, materialized=stored(options))
        functions = (list, merging(style)) if isinstance(windows, SessionWindows) else (list,)
        return groups.windowed_by(windows).aggregate(*functions, materialized=stored(options))

    return make


def joined(how: str) -> Callable[[StreamsBuilder, Mapping[str, Any], Style], Any]:
    def make(builder: StreamsBuilder, options: Mapping[str, Any], style: Style) -> Any:
        one, other = (table(builder, options, topic) for topic in "ab")
        if how.startswith("foreign"):
            named = TableJoined(name="foreign")
            return getattr(one, how)(other, refers, both, joined=named, materialized=stored(options))
        return getattr(one, how)(other, both, materialized=stored(options))

    return make


def grouped(how: str) -> Callable[[StreamsBuilder, Mapping[str, Any], Style], Any]:
    def make(builder: StreamsBuilder, options: Mapping[str, Any], style: Style) -> Any:
        groups = table(builder, options).group_by(group, Grouped(name="first", key_serde=S, value_serde=JSON))
        found = regrouped(groups, how, stored(options, serde=LONG if how == "count" else JSON), style)
        return found.filter(lambda key, count: count > 0) if how == "count" else found

    return make


def regrouped(groups: Any, how: str, kept: Any, style: Style) -> Any:
    if how == "count":
        return groups.count(materialized=kept)
    if how == "reduce":
        take = taking(style)
        return groups.reduce(reducing(style), lambda held, value: take(None, value, held), materialized=kept)
    return groups.aggregate(list, adding(style), taking(style), materialized=kept)


def refers(value: Any) -> str:
    return "xyz"[total(value) % 3]


def group(key: Any, value: Any) -> tuple[str, Any]:
    return f"g{total(value) % 3}", items(value)


# ---------------------------------------------------------------------------- the rows of shapes, from scratch


def source_rows(topic: str) -> Callable[[Sequence[Record]], Rows]:
    def rows(records: Sequence[Record]) -> Rows:
        last = {one.key: one.number for one in records if one.topic == topic}
        return {key: [number] for key, number in last.items() if number is not None}

    return rows


def window_rows(windows: Any, *, final: bool = False, topics: str = "a") -> Callable[[Sequence[Record]], Rows]:
    def rows(records: Sequence[Record]) -> Rows:
        if isinstance(windows, SessionWindows):
            return session_rows(windows, records, topics, final=final)
        found: dict[Any, list[int]] = {}
        for key, start, end, numbers in _contents(windows, records, topics):
            found[key, start, end] = sorted(numbers)
        if final:
            newest = max((one.time for one in records), default=0)
            found = {row: numbers for row, numbers in found.items() if row[2] < newest}
        return found

    return rows


def _clocked(records: Sequence[Record], topics: str) -> Iterator[tuple[Record, int]]:
    """The records of streams, each with the stream time of its topic."""
    observed: dict[str, int] = {}
    for one in records:
        if one.number is not None and one.topic in topics:
            observed[one.topic] = max(observed.get(one.topic, -1), one.time)
            yield one, observed[one.topic]


def _contents(windows: Any, records: Sequence[Record], topics: str) -> Iterator[tuple[str, int, int, list[int]]]:
    """The windows, with the numbers of the records that were in time for them."""
    found: dict[tuple[str, int, int], list[int]] = {}
    if windows is None:
        for one, _ in _clocked(records, topics):
            found.setdefault((one.key, -1, -1), []).append(one.number or 0)
    elif isinstance(windows, SlidingWindows):
        found = _sliding(windows, records, topics)
    else:
        for one, observed in _clocked(records, topics):
            for start, end in windows.windows_for(one.time):
                if end > observed - windows.grace_ms:
                    found.setdefault((one.key, start, end), []).append(one.number or 0)
    for (key, start, end), numbers in found.items():
        yield key, start, end, numbers


def _sliding(windows: SlidingWindows, records: Sequence[Record], topics: str) -> dict[tuple[str, int, int], list[int]]:
    """Each window that ends with a record, or starts after one and is not empty.

    A record is in those that were open when it came. A window is there if it was open when a record came that it ends
    with or starts after.
    """
    length = windows.difference_ms
    starts: set[tuple[str, int]] = set()
    taken: list[tuple[Record, int]] = []
    for one, observed in _clocked(records, topics):
        closed = observed - windows.grace_ms
        if one.time + length < closed:
            continue
        taken.append((one, closed))
        first = max(one.time - length, 0)
        if first + length >= closed:
            starts.add((one.key, first))
        starts.add((one.key, one.time + 1))
    found: dict[tuple[str, int, int], list[int]] = {}
    for key, start in sorted(starts):
        end = start + length
        inside = [
            one.number or 0 for one, closed in taken if one.key == key and start <= one.time <= end and end >= closed
        ]
        if inside:
            found[key, start, end] = inside
    return found


def session_rows(windows: SessionWindows, records: Sequence[Record], topics: str, *, final: bool = False) -> Rows:
    rows: dict[Any, list[int]] = {}
    sent: Rows = {}
    gap = windows.gap_ms
    for one, observed in _clocked(records, topics):
        closed = observed - gap - windows.grace_ms
        for row, numbers in rows.items():
            if row[2] < closed:
                sent.setdefault(row, numbers)
        near = [row for row in rows if row[0] == one.key and row[2] >= one.time - gap and row[1] <= one.time + gap]
        start, end = min([one.time, *(row[1] for row in near)]), max([one.time, *(row[2] for row in near)])
        if end >= closed:
            joined_numbers = [number for row in near for number in rows.pop(row)]
            rows[one.key, start, end] = sorted([*joined_numbers, one.number or 0])
    return sent if final else rows


def counted(rows: Callable[[Sequence[Record]], Rows]) -> Callable[[Sequence[Record]], Rows]:
    return lambda records: {key: len(numbers) for key, numbers in rows(records).items()}


def of_stream(windows: Any, topics: str = "a") -> Callable[[Sequence[Record]], Rows]:
    if windows is not None:
        return window_rows(windows, topics=topics)
    return lambda records: {key: sorted(numbers) for key, _, _, numbers in _contents(None, records, topics)}


def joined_rows(how: str) -> Callable[[Sequence[Record]], Rows]:
    def rows(records: Sequence[Record]) -> Rows:
        one, other = source_rows("a")(records), source_rows("b")(records)
        if how.startswith("foreign"):
            return {
                key: both(value, other.get(refers(value)))
                for key, value in one.items()
                if "left" in how or refers(value) in other
            }
        keys = {"join": one.keys() & other.keys(), "left_join": one.keys(), "outer_join": one.keys() | other.keys()}
        return {key: both(one.get(key), other.get(key)) for key in keys[how]}

    return rows


def grouped_rows(rows: Rows, how: str) -> Rows:
    """The groups of a table's rows that are not empty."""
    groups: dict[Any, Any] = {}
    for key, value in rows.items():
        groups.setdefault(group(key, value)[0], []).extend(items(value))
    if how == "count":
        return dict(Counter(group(key, value)[0] for key, value in rows.items()))
    return {name: sorted(numbers) for name, numbers in groups.items()}


def _single(change: Callable[[Any], Any]) -> Callable[[StreamsBuilder, Mapping[str, Any], Style], Any]:
    return lambda builder, options, style: change(table(builder, options))


def _kept(change: Callable[[Any, Any], Any]) -> Callable[[StreamsBuilder, Mapping[str, Any], Style], Any]:
    return lambda builder, options, style: change(table(builder, options), stored(options))


def _again(builder: StreamsBuilder, options: Mapping[str, Any], style: Style) -> Any:
    return table(builder, options).to_stream().to_table(materialized=stored(options))


def _delayed(builder: StreamsBuilder, options: Mapping[str, Any], style: Style) -> Any:
    limit = Suppressed.until_time_limit(8, BufferConfig.max_records(2)).with_name("late")
    return table(builder, options).suppress(limit)


def _mapped(records: Sequence[Record]) -> Rows:
    return {key: more(value) for key, value in source_rows("a")(records).items()}


def _filtered(records: Sequence[Record]) -> Rows:
    return {key: value for key, value in source_rows("a")(records).items() if passes(key, value)}


SOURCES: Mapping[str, Shape] = {
    "table": Shape(lambda builder, options, style: table(builder, options), source_rows("a"), of_tables=True),
    "table without a store": Shape(lambda builder, *_: builder.table("a"), source_rows("a"), of_tables=True),
    "versioned table": Shape(versioned, source_rows("a"), of_tables=True),
    "read again": Shape(_again, source_rows("a"), of_tables=True),
    "suppressed": Shape(_delayed, lambda records: source_rows("a")(records[:-1]), of_tables=True),
    "filter": Shape(_single(lambda rows: rows.filter(passes)), _filtered, of_tables=True),
    "kept filter": Shape(_kept(lambda rows, kept: rows.filter(passes, materialized=kept)), _filtered, of_tables=True),
    "values": Shape(_single(lambda rows: rows.map_values(more)), _mapped, of_tables=True),
    "kept values": Shape(_kept(lambda rows, kept: rows.map_values(more, materialized=kept)), _mapped, of_tables=True),
    "transform": Shape(_single(lambda rows: rows.transform_values(More)), _mapped, of_tables=True),
}
JOINS = ("join", "left_join", "outer_join", "foreign_key_join", "foreign_key_left_join")
HOWS = ("count", "reduce", "aggregate")
SHAPES: Mapping[str, Shape] = {
    **SOURCES,
    **{how: Shape(joined(how), joined_rows(how), of_tables=True, topics="ab") for how in JOINS},
    **{
        f"grouped, {how}": Shape(
            grouped(how), lambda records, how=how: grouped_rows(source_rows("a")(records), how), of_tables=True
        )
        for how in HOWS
    },
    **{
        f"{name}, {how}": Shape(
            aggregated(windows, how),
            counted(of_stream(windows)) if how == "count" else of_stream(windows),
            windows,
        )
        for name, windows in {"plain": None, **WINDOWS}.items()
        for how in HOWS
    },
    **{
        f"{word} {name}": Shape(
            aggregated(WINDOWS[name], "aggregate", final=word == "final", suppressed=word == "suppressed"),
            window_rows(WINDOWS[name], final=True),
            WINDOWS[name],
        )
        for word in ("final", "suppressed")
        for name in ("tumbling", "hopping", "sliding", "sessions")
    },
    **{
        f"cogrouped {name}": Shape(cogrouped(windows), of_stream(windows, "ab"), windows, topics="ab")
        for name, windows in {"plain": None, **WINDOWS}.items()
    },
    "late sliding": Shape(aggregated(LATE, "aggregate"), None, LATE),
    "final late sliding": Shape(aggregated(LATE, "aggregate", final=True), None, LATE),
    "cogrouped late sliding": Shape(cogrouped(LATE), None, LATE, topics="ab"),
}  # fmt: skip


# ---------------------------------------------------------------------------- the followers


@dataclass(frozen=True)
class Follower:
    """What is made of a table.

    :param make: returns a table, or a stream, of rows whose keys are of the shape or strings.
    :param rows: its last rows, from those of the table and of table ``t``.
    """

    make: Callable[[Any, Any, Any, Style], Any]
    rows: Callable[[Rows, Rows], Rows]
    regroups: bool = False


def _group_again(how: str) -> Follower:
    def make(rows: Any, other: Any, serde: Any, style: Style) -> Any:
        groups = rows.group_by(group, Grouped(name=f"again-{how}", key_serde=S, value_serde=JSON))
        kept = Materialized(name=f"again-{how}-rows", key_serde=S, value_serde=LONG if how == "count" else JSON)
        return regrouped(groups, how, kept, style)

    return Follower(make, lambda rows, other: grouped_rows(rows, how), regroups=True)


def _refer(how: str) -> Follower:
    def make(rows: Any, other: Any, serde: Any, style: Style) -> Any:
        kept = Materialized(name=f"{how}-rows", key_serde=serde, value_serde=JSON)
        return getattr(rows, how)(other, refers, both, joined=TableJoined(name=how), materialized=kept)

    def found(rows: Rows, other: Rows) -> Rows:
        return {
            key: both(value, other.get(refers(value)))
            for key, value in rows.items()
            if "left" in how or refers(value) in other
        }

    return Follower(make, found)


def _with_itself(how: str) -> Follower:
    def make(rows: Any, other: Any, serde: Any, style: Style) -> Any:
        return getattr(rows, how)(rows.filter(passes), both)

    def found(rows: Rows, other: Rows) -> Rows:
        return {
            key: both(value, value if passes(key, value) else None)
            for key, value in rows.items()
            if how != "join" or passes(key, value)
        }

    return Follower(make, found)


FOLLOWERS: Mapping[str, Follower] = {
    "stream": Follower(lambda rows, *_: rows, lambda rows, other: rows),
    "filter": Follower(
        lambda rows, *_: rows.filter(passes),
        lambda rows, other: {key: value for key, value in rows.items() if passes(key, value)},
    ),
    **{f"group {how}": _group_again(how) for how in HOWS},
    **{how: _refer(how) for how in ("foreign_key_join", "foreign_key_left_join")},
    **{f"itself {how}": _with_itself(how) for how in ("join", "left_join")},
}


def named(key: Any) -> Any:
    """The key of a row as the models have it."""
    return key if isinstance(key, str) else (key.key, key.window.start, key.window.end)


def text(key: Any) -> str:
    return key if isinstance(key, str) else f"{key.key}@{key.window.start}-{key.window.end}"


def followed_rows(
    shape: Shape,
    followers: Sequence[str],
    style: Style,
    records: Sequence[Record],
    settings: Mapping[str, Any],
    options: Mapping[str, Any],
) -> dict[str, Rows]:
    """The last rows that each follower has sent, without groups that were counted and are empty."""
    config = {
        "application.id": "laws",
        "default.key.serde": S,
        "default.value.serde": JSON,
        "__emit.interval.ms.kstreams.windowed.aggregation__": 0,
        **settings,
    }
    builder = StreamsBuilder(config)
    found = shape.make(builder, options, style)
    other = builder.table("t", materialized=Materialized(name="t", key_serde=S, value_serde=JSON))
    for name in followers:
        follower = FOLLOWERS[name]
        made = follower.make(found, other, shape.key_serde, style)
        made.to_stream(lambda key, value: text(key)).to(f"out {name}".replace(" ", "-"), value_serde=JSON)
    with TopologyTestDriver(builder.build(config), config) as driver:
        inputs = {topic: driver.create_input_topic(topic, S, JSON) for topic in ("t", *shape.topics)}
        for one in records:
            value = one.number if one.number is None or not (shape.of_tables or one.topic == "t") else [one.number]
            inputs[one.topic].pipe_input(one.key, value, timestamp=one.time)
        outs = {name: driver.create_output_topic(f"out {name}".replace(" ", "-"), S, JSON) for name in followers}
        return {
            name: {key: value for key, value in out.read_key_values_to_map().items() if value not in (None, 0)}
            for name, out in outs.items()
        }


def expected_rows(shape: Shape, followers: Sequence[str], records: Sequence[Record]) -> dict[str, Rows] | None:
    """The same from scratch; ``None`` if that is not possible."""
    if shape.rows is None:
        return None
    rows, other = shape.rows(records), source_rows("t")(records)
    return {
        name: {
            key if isinstance(key, str) else f"{key[0]}@{key[1]}-{key[2]}": value
            for key, value in FOLLOWERS[name].rows(rows, other).items()
        }
        for name in followers
    }
