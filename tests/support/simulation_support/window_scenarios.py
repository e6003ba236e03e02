"""Applications with windows, for the simulation's own seeds: counts, sessions, final results, suppressions, cogroup."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from processor_api.serde import Serdes
from processor_api.stores.windowed import Windowed
from simulation_support.stateful import (
    FAR,
    READ,
    WRITTEN,
    add_to,
    check_results,
    drawn,
    ends,
    in_parts,
    scenario,
    scenario_results,
    union,
)
from streams import (
    BufferConfig,
    EmitStrategy,
    Grouped,
    Materialized,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from streams.testing.simulation.scenario import InputRecord, Outcome, Scenario

__all__ = ["WINDOW_SCENARIOS"]

S = Serdes.STRING
LONG = 10 * FAR


def named(windowed: Windowed[str], value: Any = None) -> str:
    return f"{windowed.key} {windowed.window.start} {windowed.window.end}"


def tumbling(chance: Random) -> TimeWindows:
    return TimeWindows.of_size_and_grace(10_000, chance.choice((0, 3000, 20_000)))


def hopping(chance: Random) -> TimeWindows:
    return tumbling(chance).advance_by(4000)


def sliding(chance: Random) -> SlidingWindows:
    return SlidingWindows.of_time_difference_and_grace(4000, chance.choice((0, 3000, 20_000)))


def sessions(chance: Random) -> SessionWindows:
    return SessionWindows.of_inactivity_gap_and_grace(5000, chance.choice((0, 3000, 20_000)))


def kept(chance: Random) -> tuple[Materialized[str, str], bool]:
    """A store, and whether its rows do not expire."""
    long = chance.random() < 0.5
    made: Materialized[str, str] = Materialized(
        name="kept", key_serde=S, value_serde=S, retention=LONG if long else None
    )
    return made, long


def aggregated(
    builder: StreamsBuilder, windows: Any, store: Materialized[str, str], *, final: bool = False, topic: str = "in"
) -> Any:
    groups: Any = builder.stream(topic, READ).group_by_key(Grouped(key_serde=S, value_serde=S)).windowed_by(windows)
    groups = groups.emit_strategy(EmitStrategy.on_window_close()) if final else groups
    functions = (str, add_to, union) if isinstance(windows, SessionWindows) else (str, add_to)
    return groups.aggregate(*functions, materialized=store)


def in_windows(kind: Callable[[Random], Any]) -> Callable[[Random], Scenario]:
    """Each result of each window, with those dropped that are late."""

    def made(chance: Random) -> Scenario:
        windows = kind(chance)
        store, long = kept(chance)

        def build(builder: StreamsBuilder) -> None:
            aggregated(builder, windows, store).to_stream(named).to("out", WRITTEN)

        inputs = {"in": drawn(chance, "v", late_ms=20_000)}
        return scenario(chance, build, inputs, cached="some", by_words=kind is sliding, restores=long)

    return made


def final_windows(chance: Random) -> Scenario:
    """Each window once, when it is closed."""
    windows = chance.choice((tumbling, hopping, sliding, sessions))(chance)
    store, _ = kept(chance)

    def build(builder: StreamsBuilder) -> None:
        aggregated(builder, windows, store, final=True).to_stream(named).to("out", WRITTEN)

    inputs = {"in": [*drawn(chance, "v", late_ms=20_000), *ends("v")]}
    return scenario(chance, build, inputs, by_words=isinstance(windows, SlidingWindows), restores=False)


def suppressed_windows(chance: Random) -> Scenario:
    """Each window once, by a suppression below an aggregation whose cache may hold its results back."""
    windows = chance.choice((tumbling, hopping, sessions))(chance)
    store, _ = kept(chance)
    inputs = {"in": [*drawn(chance, "v", late_ms=20_000), *ends("v")]}

    def build(builder: StreamsBuilder) -> None:
        table = aggregated(builder, windows, store)
        final = Suppressed.until_window_closes(BufferConfig.unbounded()).with_name("closed")
        table.suppress(final).to_stream(named).to("out", WRITTEN)

    made = scenario(chance, build, inputs, restores=False)
    if isinstance(windows, SessionWindows) and made.settings["statestore.cache.max.bytes"]:
        return replace(made, checks=[check_of_sessions(windows, store, inputs)])
    return made


def check_of_sessions(
    windows: SessionWindows, store: Materialized[str, str], inputs: dict[str, list[InputRecord]]
) -> Callable[[Outcome], None]:
    """A check of the last result of each session that there is in the end. One that closed may become part of a later
    one (semantics 48); whether that happens before it is sent on depends on when the cache was flushed."""

    def build(builder: StreamsBuilder) -> None:
        aggregated(builder, windows, store).to_stream(named).to("out", WRITTEN)

    known = scenario_results(build, inputs)
    there = {key: values for key, values in known.items() if values[-1][0] is not None and values[-1][1] < 2 * FAR}

    def check(outcome: Outcome) -> None:
        check_results(outcome, there, "last", others=known.keys())

    return check


def suppressed_table(chance: Random) -> Scenario:
    """A table whose changes wait for a time, or until there are too many."""
    buffer = chance.choice((BufferConfig.unbounded(), BufferConfig.max_records(3)))

    def build(builder: StreamsBuilder) -> None:
        table: Any = builder.table("in", READ, materialized=Materialized(name="kept", key_serde=S, value_serde=S))
        late = Suppressed.until_time_limit(7000, buffer).with_name("late")
        table.suppress(late).to_stream().to("out", WRITTEN)

    inputs = {"in": [*drawn(chance, "v", deletes=0.15), *ends("v", times=1)]}
    # a change that comes again waits from its own time on: a later one may replace what went out alone without faults
    return scenario(chance, build, inputs, cached="last", again="last")


def cogrouped(chance: Random) -> Scenario:
    """Two streams in one table, without windows or in windows of any kind."""
    kind = chance.choice((None, hopping, sliding, sessions))
    windows = None if kind is None else kind(chance)
    store: Materialized[str, str] = Materialized(
        name="kept", key_serde=S, value_serde=S, retention=None if kind is None else LONG
    )

    def build(builder: StreamsBuilder) -> None:
        how: Grouped[str, str] = Grouped(key_serde=S, value_serde=S)
        one, other = (builder.stream(topic, READ).group_by_key(how) for topic in ("a", "b"))
        both: Any = one.cogroup(add_to).cogroup(other, add_to)
        if windows is None:
            both.aggregate(str, materialized=store).to_stream().to("out", WRITTEN)
            return
        functions = (str, union) if isinstance(windows, SessionWindows) else (str,)
        table = both.windowed_by(windows).aggregate(*functions, materialized=store)
        table.to_stream(named).to("out", WRITTEN)

    inputs = {topic: drawn(chance, topic, 50, number=n, late_ms=20_000) for n, topic in enumerate("ab")}
    return scenario(chance, build, inputs, cached="some", by_words=kind is sliding)


WINDOW_SCENARIOS: dict[str, Callable[[Random], Scenario]] = {
    "tumbling": in_windows(tumbling),
    "hopping": in_windows(hopping),
    "sliding": in_windows(sliding),
    "session-windows": in_windows(sessions),
    "final-windows": final_windows,
    "suppressed-windows": suppressed_windows,
    "suppressed-table": suppressed_table,
    "cogrouped": cogrouped,
    "final-windows-in-parts": in_parts(final_windows),
    "suppressed-windows-in-parts": in_parts(suppressed_windows),
    "suppressed-table-in-parts": in_parts(suppressed_table),
}
