"""Pictures of tables: a stream and a table of it, the operators of tables, and the aggregation of a table."""

from __future__ import annotations

from collections.abc import Callable

from streams import KTable, Produced, Serdes, StreamsBuilder
from tools.timelines.operators import results, steps
from tools.timelines.picture import Dot, DotKind, Lane, LaneKind, Picture, Span, SpanKind
from tools.timelines.play import SECOND, Play, seconds
from tools.timelines.strip import Cell, Chip, ChipKind, Panel, Strip

__all__ = ["operators", "regrouped", "stream_and_table"]

PRICES = "prices"
PEOPLE = "people"


def stream_and_table() -> Picture:
    """Draws records of one key as a stream, whose records stay, and as a table, whose row each of them replaces."""
    builder = StreamsBuilder()
    prices: KTable[str, str] = builder.table(PRICES)
    prices.to_stream().to("out")
    with Play(builder) as play:
        play.pipe(PRICES, [(10, "3.10"), (35, "3.50"), (60, "3.30")])
    times = [step.time for step in play.steps]
    records = tuple(Dot(step.time, number=step.number, text=step.value) for step in play.steps)
    rows = tuple(
        Span(step.time, end, SpanKind.VERSION, step.value)
        for step, end in zip(play.steps, [*times[1:], None], strict=True)
    )
    changes = tuple(
        Dot(step.time, DotKind.RESULT, text=str(result.value)) for step in play.steps for result in step.results
    )
    lanes = (
        Lane("stream", LaneKind.RECORDS, records),
        Lane("table", LaneKind.SPANS, spans=rows),
        Lane("changes", LaneKind.RESULTS, changes),
    )
    described = "; ".join(f"at {seconds(step.time)} the row becomes {step.value}" for step in play.steps)
    return Picture("Prices of one product, as a stream and as a table", f"{described}.", lanes, extra_ms=20 * SECOND)


def operators() -> Strip:
    """Draws the operators of tables: each change of a row is a change of the result, or deletes it."""
    moves = ((PEOPLE, "ann", "Oslo"), (PEOPLE, "ann", "Rome"), (PEOPLE, "bob", "Oslo"), (PEOPLE, "bob", None))
    return Strip(
        "Operators of tables: each change of a row changes the result",
        (
            _operator("filter", "rows in Oslo", lambda people: people.filter(lambda _, city: city == "Oslo"), moves),
            _operator("map_values", "in capitals", lambda people: people.map_values(str.upper), moves),
        ),
    )


def _operator(
    name: str,
    about: str,
    operator: Callable[[KTable[str, str]], KTable[str, str]],
    changes: tuple[tuple[str, str, str | None], ...],
) -> Panel:
    builder = StreamsBuilder()
    people: KTable[str, str] = builder.table(PEOPLE, materialized=PEOPLE)
    operator(people).to_stream().to("out")
    rows: dict[str, Cell] = {}
    drawn = []
    for step in steps(builder, changes):
        before = rows.get(step.key, "none")
        rows[step.key] = (Chip(step.key, step.value, ChipKind.ROW),)
        drawn.append(((Chip(step.key, step.value),), before, results(step, "no change")))
    return Panel(name, about, ("update", "row before", "result"), tuple(drawn))


def regrouped() -> Strip:
    """Draws the sums of a table by group: an old value is subtracted from its group, and the new one added to its."""
    builder = StreamsBuilder()
    called: list[tuple[str, str]] = []

    def add(team: str, salary: str, total: int) -> int:
        called.append((team, f"{total} + {salary}"))
        return total + int(salary)

    def subtract(team: str, salary: str, total: int) -> int:
        called.append((team, f"{total} - {salary}"))
        return total - int(salary)

    people: KTable[str, str] = builder.table(PEOPLE)
    teams = people.group_by(lambda _, row: (row.split()[0], row.split()[1]))
    totals = teams.aggregate(int, add, subtract, value_serde=Serdes.LONG)
    totals.to_stream().to("out", Produced(value_serde=Serdes.LONG))
    rows = []
    updates = ((PEOPLE, "ann", "shop 10"), (PEOPLE, "bob", "shop 20"), (PEOPLE, "ann", "web 12"), (PEOPLE, "bob", None))
    played = steps(builder, updates, Serdes.LONG)
    for step in played:
        calls = [called.pop(0) for _ in step.results]
        parts: list[Cell] = []
        for sign in "-+":
            chips = tuple(Chip(team, sum_, ChipKind.ROW) for team, sum_ in calls if sign in sum_)
            parts.append(chips or "nothing")
        rows.append(((Chip(step.key, step.value),), *parts, results(step)))
    columns = ("update of a person", "subtractor: old value", "adder: new value", "totals")
    return Strip(
        "Aggregation of a table: each row counts once, in its present group",
        (Panel("group_by, aggregate", "salaries by team", columns, tuple(rows)),),
    )
