"""Applications whose serdes take headers, for the simulation's own seeds.

What such a serde writes can be read with the header alone that it adds: a text is shifted by a number that only the
header has. So a header that is lost, or that comes from another record, is an error.
Sources and sinks at the borders of the application write plain texts, as the checks read them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any
from zlib import crc32

from processor_api.record import Headers
from simulation_support.join_scenarios import check_of_pairs
from simulation_support.stateful import (
    FAR,
    READ,
    WRITTEN,
    add_to,
    check_results,
    drawn,
    ends,
    rows,
    scenario,
    told,
    union,
)
from simulation_support.table_scenarios import last_rows, refers, rows_joined, rows_referring
from simulation_support.window_scenarios import named
from streams import (
    BufferConfig,
    Consumed,
    Grouped,
    JoinWindows,
    Materialized,
    Repartitioned,
    SessionWindows,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    serde_of,
)
from streams.testing.simulation.scenario import InputRecord, Scenario

__all__ = ["header_serdes"]


def shifted(data: bytes, by: int) -> bytes:
    return bytes((each + by) % 256 for each in data)


def write_value(value: str, headers: Headers) -> bytes:
    data = value.encode()
    shift = crc32(data) % 255 + 1
    headers.remove_all("shift").add("shift", bytes([shift]))
    return shifted(data, shift)


def read_value(data: bytes, headers: Headers) -> str:
    shift = headers.last("shift")
    if shift is None:
        raise LookupError("no header says by what the value is shifted")
    headers.remove_all("shift")
    value = shifted(data, -shift[0])
    if crc32(value) % 255 + 1 != shift[0]:
        raise ValueError(f"the header is that of another value: {value!r}")
    return value.decode()


def write_either(value: str, headers: Headers) -> bytes:
    data = value.encode()
    headers.remove_all("sum").add("sum", bytes([crc32(data) % 256]))
    return data


def read_either(data: bytes, headers: Headers) -> str:
    """Reads a value without a header too, as suppressions and joins of streams need it, which keep none of a serde."""
    written = headers.last("sum")
    headers.remove_all("sum")
    if written not in (None, bytes([crc32(data) % 256])):
        raise ValueError(f"the header is that of another value: {data!r}")
    return data.decode()


def write_key(key: str, headers: Headers) -> bytes:
    headers.remove_all("key").add("key", key.encode())
    return key.encode()


def read_key(data: bytes, headers: Headers) -> str:
    """Reads a key without headers too, since look-ups have none."""
    written = headers.last("key")
    headers.remove_all("key")
    if written not in (None, data):
        raise ValueError(f"the header is that of another key: {data!r}, {written!r}")
    return data.decode()


KEY = serde_of(write_key, read_key, name="key", with_headers=True)
VALUE = serde_of(write_value, read_value, name="shifted", with_headers=True)
EITHER = serde_of(write_either, read_either, name="summed", with_headers=True)
GROUPED: Grouped[str, str] = Grouped(key_serde=KEY, value_serde=VALUE)
FORMAT = {"dsl.store.format": "HEADERS"}


def kept(name: str, value_serde: Any = VALUE) -> Materialized[Any, Any]:
    return Materialized(name=name, key_serde=KEY, value_serde=value_serde)


def moved(builder: StreamsBuilder, topic: str) -> Any:
    """The records of a topic behind a repartition topic of their key."""
    return builder.stream(topic, READ).repartition(
        Repartitioned(name=f"{topic}-moved", key_serde=KEY, value_serde=VALUE)
    )


def groups(builder: StreamsBuilder, topic: str = "a") -> Any:
    return moved(builder, topic).group_by_key(GROUPED)


def encoded(records: list[InputRecord]) -> list[InputRecord]:
    """The same records as the serdes write them, with their headers."""
    found = []
    for one in records:
        headers = Headers()
        key = KEY.with_headers(headers).serialize(str(one.key))
        value = None if one.value is None else VALUE.with_headers(headers).serialize(str(one.value))
        found.append(one._replace(key=key, value=value, headers=list(headers)))
    return found


def of_headers(
    chance: Random, build: Callable[[StreamsBuilder], Any], inputs: dict[str, list[InputRecord]], **options: Any
) -> Scenario:
    settings = {"dsl.store.format": "HEADERS", "processing.guarantee": "exactly_once_v2", **options.pop("settings", {})}
    return scenario(chance, build, inputs, feeding="bit by bit", settings=settings, **options)


# ---------------------------------------------------------------------------- behind a repartition topic


def aggregated(chance: Random) -> Scenario:
    """Groups in one table, which may hold its changes back for a time."""
    buffer = chance.choice((None, BufferConfig.unbounded(), BufferConfig.max_records(3)))

    def build(builder: StreamsBuilder) -> None:
        table = groups(builder).aggregate(str, add_to, materialized=kept("sums", VALUE if buffer is None else EITHER))
        if buffer is not None:
            table = table.suppress(Suppressed.until_time_limit(7000, buffer).with_name("late"))
        table.to_stream().to("out", WRITTEN)

    inputs = {"a": [*drawn(chance, "v"), *ends("v", times=1)]}
    return of_headers(chance, build, inputs, cached="some" if buffer is None else "last")


def in_windows(chance: Random) -> Scenario:
    """Each window once, when it is closed, or each result of each session."""
    grace = chance.choice((0, 3000, 20_000))
    is_final = chance.random() < 0.6
    windows: Any = SessionWindows.of_inactivity_gap_and_grace(5000, grace)
    functions: tuple[Any, ...] = (str, add_to, union)
    if is_final:
        windows, functions = TimeWindows.of_size_and_grace(10_000, grace).advance_by(5000), (str, add_to)

    def build(builder: StreamsBuilder) -> None:
        store = kept("windows", EITHER if is_final else VALUE)
        table = groups(builder).windowed_by(windows).aggregate(*functions, materialized=store)
        if is_final:
            table = table.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()).with_name("closed"))
        table.to_stream(named).to("out", WRITTEN)

    inputs = {"a": [*drawn(chance, "v", late_ms=20_000), *ends("v")]}
    return of_headers(chance, build, inputs, cached="each" if is_final else "some", restores=False)


def streams_joined(chance: Random) -> Scenario:
    """Each pair of two streams, each behind a repartition topic."""
    kind = chance.choice(("join", "left_join", "outer_join"))
    near = chance.choice((2000, 6000))
    windows = JoinWindows.of_time_difference_and_grace(near, 10 * FAR)
    how: StreamJoined[str, str, str] = StreamJoined(
        key_serde=KEY, value_serde=EITHER, other_value_serde=EITHER, name="j"
    )

    def build(builder: StreamsBuilder) -> None:
        joined = getattr(moved(builder, "a"), kind)(moved(builder, "b"), told, windows=windows, joined=how)
        joined.to("out", WRITTEN)

    inputs = {topic: drawn(chance, topic, 50, number=n) for n, topic in enumerate("ab")}
    return of_headers(chance, build, inputs, check=check_of_pairs(inputs, near))


# ---------------------------------------------------------------------------- tables


def tables(chance: Random) -> Scenario:
    """Two tables, of topics with headers or behind repartition topics, in a join of each kind, by keys or by foreign
    keys."""
    kind = chance.choice(("join", "left_join", "outer_join", "foreign_key_join", "foreign_key_left_join"))
    is_foreign = kind.startswith("foreign")
    direct = chance.random() < 0.5
    result = chance.choice((None, kept("result")))

    def table(builder: StreamsBuilder, topic: str) -> Any:
        if direct:
            return builder.table(topic, Consumed(key_serde=KEY, value_serde=VALUE), materialized=kept(topic))
        return moved(builder, topic).to_table(materialized=kept(topic))

    def build(builder: StreamsBuilder) -> None:
        left, right = table(builder, "a"), table(builder, "b")
        more = (refers, told) if is_foreign else (told,)
        getattr(left, kind)(right, *more, materialized=result).to_stream().to("out", WRITTEN)

    inputs = {topic: drawn(chance, topic, 50, number=n, deletes=0.2) for n, topic in enumerate("ab")}
    if is_foreign:
        names = ("k0", "k1", "k2", "k3", "-")
        inputs["a"] = [
            one if one.value is None else one._replace(value=f"{chance.choice(names)}.{chance.randrange(4)}")
            for one in inputs["a"]
        ]
        wanted = rows_referring(rows(inputs["a"]), rows(inputs["b"]), outer=kind == "foreign_key_left_join")
    else:
        wanted = rows_joined(kind, inputs)
    check = last_rows(wanted, {str(one.key) for records in inputs.values() for one in records})
    given = {topic: encoded(records) for topic, records in inputs.items()} if direct else inputs
    optimization = chance.choice(("none", "all"))
    reuses = optimization == "all" and direct
    made = of_headers(
        chance,
        build,
        given,
        check=check,
        settings={"topology.optimization": optimization},
        restores=not reuses,  # rows from a source topic have all headers of its records
    )
    # Such a topic is the changelog of its table: what was committed must not be deleted there.
    return replace(made, topic_configs={topic: {"cleanup.policy": "compact"} for topic in given if reuses})


def global_joined(chance: Random) -> Scenario:
    """A stream whose topic has headers, and a global table of a topic with headers."""
    kind = chance.choice(("join", "left_join"))
    inputs = {"a": drawn(chance, "a", 60), "b": drawn(chance, "b", 40, number=1, deletes=0.2)}
    table = rows(inputs["b"])

    def build(builder: StreamsBuilder) -> None:
        how = Consumed(key_serde=KEY, value_serde=VALUE)
        known: Any = builder.global_table("b", how, materialized=kept("b"))
        stream: Any = builder.stream("a", how)
        joined = getattr(stream, kind)(known, told, key_selector=lambda key, value: f"k{value[-1]}")
        joined.to("out", WRITTEN)

    wanted: dict[str, list[tuple[str | None, int]]] = defaultdict(list)
    for one in inputs["a"]:
        row = table.get(f"k{str(one.value)[-1]}")
        if row is not None or kind == "left_join":
            wanted[str(one.key)].append((told(str(one.value), row), one.timestamp))
    given = {topic: encoded(records) for topic, records in inputs.items()}
    made = of_headers(
        chance, build, given, check=lambda outcome: check_results(outcome, wanted, "each"), unread=frozenset({"b"})
    )
    return replace(made, feeding="before")


def header_serdes(chance: Random) -> Scenario:
    """One of the applications above."""
    return chance.choice((aggregated, in_windows, streams_joined, tables, tables, tables, global_joined))(chance)
