"""The types of streams and tables, as a type checker sees them in a user's program.

The program is checked once. Behind a line, or below it, stands what the checker says of it: the type that is
revealed, or the mistake.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.editors.__main__ import PROGRAMS, diagnostics, problems_of, text_of

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from dsl import (
    BatchProcessor, BufferConfig, Consumed, EmitStrategy, Grouped, JoinWindows, KStream, KTable, Materialized,
    Produced, SessionWindows, SlidingWindows, StreamsBuilder, Suppressed, TableJoined, TimeWindows,
    ValueTransformerWithKey,
)
from processor_api.processor import FixedKeyProcessor, Processor
from processor_api.record import FixedKeyRecord, Record
from processor_api.serde import Serde, Serdes


@dataclass(frozen=True)
class Order:
    customer: str
    cents: int


@dataclass(frozen=True)
class Total:
    cents: int


class Shout(Processor[str, int, int, str]):
    def process(self, record: Record[str, int]) -> None:
        self.context.forward(record.with_key(1).with_value("!"))


class Length(FixedKeyProcessor[str, int, str]):
    def process(self, record: FixedKeyRecord[str, int]) -> None:
        self.context.forward(record.with_value("!"))


class Half(ValueTransformerWithKey[str, Total, float]):
    def transform(self, key: str, value: Total | None) -> float | None:
        return None if value is None else value.cents / 2


class Score(BatchProcessor[str, Order, int, float]):
    def process_batch(self, records: list[Record[str, Order]]) -> Sequence[Sequence[Record[int, float]] | Exception]:
        return [[record.with_key(record.value.cents).with_value(0.5)] for record in records]


def scores(orders: list[Order]) -> list[float | Exception]:
    return [order.cents / 2 if order.cents else ValueError("no amount") for order in orders]


def write_order(order: Order) -> bytes:
    return order.customer.encode()


def read_order(data: bytes) -> Order:
    return Order(data.decode(), 0)


def more(one: Order, other: Order) -> Order:
    return max(one, other, key=lambda order: order.cents)


builder = StreamsBuilder()

# record by record
stream = builder.stream("in", Consumed(key_serde=Serdes.STRING, value_serde=Serdes.LONG))
reveal_type(stream)  # KStream[str, int]
reveal_type(builder.stream("plain"))  # KStream[Any, Any]
reveal_type(stream.filter(lambda k, v: v > 0))  # KStream[str, int]
reveal_type(stream.map(lambda k, v: (v, k)))  # KStream[int, str]
reveal_type(stream.map_values(lambda v: None if v > 1 else str(v)))  # KStream[str, str]
reveal_type(stream.map_values_with_key(lambda k, v: k + str(v)))  # KStream[str, str]
reveal_type(stream.flat_map_values(lambda v: [str(v)]))  # KStream[str, str]
reveal_type(stream.flat_map(lambda k, v: [(v, k)]))  # KStream[int, str]
reveal_type(stream.select_key(lambda k, v: v))  # KStream[int, int]
reveal_type(stream.process(Shout))  # KStream[int, str]
reveal_type(stream.process_values(Length))  # KStream[str, str]
reveal_type(stream.split().branch(lambda k, v: v > 0).default_branch())  # dict[str, KStream[str, int]]
lines: KStream[str, str] = builder.stream("lines")
stream.to("out", Produced(value_serde=Serdes.LONG))
stream.map_values(lambda v: v.upper())  # "int" has no attribute "upper"
stream.filter(lambda v: True)  # Cannot infer type of lambda
stream.to("out", Produced(value_serde=Serdes.STRING))  # "value_serde" to "Produced" has incompatible type "Serde[str]"
stream.process(Length)  # "process" of "KStream" has incompatible type "type[Length]"

# batches, and equal records
orders = builder.stream("orders", Consumed(key_serde=Serdes.STRING, value_serde=Serde(write_order, read_order)))
reveal_type(orders)  # KStream[str, Order]
reveal_type(orders.map_values_batch(scores))  # KStream[str, float]
reveal_type(orders.map_values_batch(lambda values: [order.customer for order in values]))  # KStream[str, str]
reveal_type(orders.process_batch(Score, max_records=10, max_wait=timedelta(seconds=1)))  # KStream[int, float]
reveal_type(orders.deduplicate(within=timedelta(hours=1)))  # KStream[str, Order]
reveal_type(orders.deduplicate(within=5, id_selector=lambda k, order: (k, order.cents)))  # KStream[str, Order]
reveal_type(orders.to_table(ttl=timedelta(days=1)))  # KTable[str, Order]
orders.map_values_batch(lambda order: order.cents)  # "list[Order]" has no attribute "cents"
reveal_type(builder.stream("teas", Consumed(key_serde=Serdes.STRING, value_serde=Order)))  # KStream[str, Order]
reveal_type(builder.stream("teas", Consumed(key_serde="string", value_serde=Order)))  # KStream[Any, Order]
reveal_type(builder.table("teas", Consumed(value_serde=Order)))  # KTable[Any, Order]
orders.to("out", Produced(key_serde="string", value_serde=Order))
orders.to("out", Produced(value_serde=Total))  # "value_serde" to "Produced" has incompatible type "type[Total]"
stream.map_values_batch(scores)  # expected "Callable[[list[int]], Sequence[
stream.process_batch(Score)  # "process_batch" of "KStream" has incompatible type "type[Score]"
orders.deduplicate(within=5, id_selector=lambda k, order: order.number)  # "Order" has no attribute "number"
orders.deduplicate(within=5, id_selector=lambda k, order: order.cents / 2)
# ^ Incompatible return value type (got "float", expected "str | bytes | int
orders.deduplicate()  # Missing named argument "within"
orders.to_table(ttl="1 day")  # "ttl" to "to_table" of "KStream" has incompatible type "str"; expected "timedelta | int

# groups
reveal_type(stream.group_by_key().count())  # KTable[str, int]
reveal_type(stream.group_by(lambda k, v: v % 2).reduce(lambda a, b: a + b))  # KTable[int, int]
reveal_type(stream.group_by_key().aggregate(lambda: 0.5, lambda k, v, a: a + v, materialized="m"))  # KTable[str, float]
stream.group_by(lambda k, v: v, Grouped(key_serde=Serdes.LONG))
grouped = orders.group_by_key()
totals = grouped.aggregate(lambda: Total(0), lambda k, order, total: Total(total.cents + order.cents))
reveal_type(totals)  # KTable[str, Total]
stream.group_by_key().reduce(lambda a, b: a + "x")  # Unsupported operand types for + ("int" and "str")
wrong: KTable[str, Total] = grouped.aggregate(lambda: Total(0), lambda k, o, t: o.cents)
# ^ Incompatible return value type (got "int"
grouped.aggregate(lambda: Total(0), lambda k, order, total: Total(order.total))  # "Order" has no attribute "total"
grouped.aggregate(lambda: Total(0), lambda k, order, total: Total(total.total))  # "Total" has no attribute "total"
grouped.aggregate(Total(0), lambda k, order, total: total)  # expected "Callable[[], Never]"

# windows
minutes = grouped.windowed_by(TimeWindows.of_size_with_no_grace(timedelta(minutes=1)))
sliding = grouped.windowed_by(SlidingWindows.of_time_difference_with_no_grace(5))
sessions = grouped.windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(5))
reveal_type(minutes)  # TimeWindowedKStream[str, Order]
reveal_type(sessions)  # SessionWindowedKStream[str, Order]
reveal_type(minutes.count())  # KTable[Windowed[str], int]
reveal_type(sliding.reduce(more))  # KTable[Windowed[str], Order]
sums = minutes.aggregate(lambda: Total(0), lambda k, order, total: Total(total.cents + order.cents))
reveal_type(sums)  # KTable[Windowed[str], Total]
reveal_type(sums.suppress(Suppressed.until_window_closes(BufferConfig.unbounded())))  # KTable[Windowed[str], Total]
reveal_type(sums.to_stream(lambda windowed, total: windowed.window.end))  # KStream[int, Total]
reveal_type(sessions.emit_strategy(EmitStrategy.on_window_close()).count())  # KTable[Windowed[str], int]
reveal_type(sessions.aggregate(lambda: Total(0), lambda k, o, t: t, lambda k, a, b: Total(a.cents)))
# ^ KTable[Windowed[str], Total]
minutes.reduce(lambda one, other: one.cents)  # Incompatible return value type (got "int"
minutes.aggregate(lambda: Total(0), lambda k, order, total: Total(order.total))  # "Order" has no attribute "total"
sessions.aggregate(lambda: Total(0), lambda k, order, total: total)  # Missing positional argument "session_merger"
sums.to_stream(lambda key, total: key.upper())  # "Windowed[str]" has no attribute "upper"
sums.suppress(BufferConfig.unbounded())  # "suppress" of "KTable" has incompatible type
sessions.emit_strategy("close")  # "emit_strategy" of "WindowedKStream" has incompatible type "str"
grouped.windowed_by(timedelta(minutes=1))  # No overload variant of "windowed_by"

# several streams in one aggregate
together = grouped.cogroup(lambda k, order, total: Total(order.cents)).cogroup(
    stream.group_by_key(), lambda k, cents, total: Total(total.cents - cents)
)
reveal_type(together)  # CogroupedKStream[str, Total]
reveal_type(together.aggregate(lambda: Total(0)))  # KTable[str, Total]
week = TimeWindows.of_size_with_no_grace(timedelta(days=7))
reveal_type(together.windowed_by(week).aggregate(lambda: Total(0)))  # KTable[Windowed[str], Total]
together.aggregate(lambda: 0)  # Incompatible return value type (got "int"
together.cogroup(stream.group_by_key(), lambda k, cents, total: cents)  # Incompatible return value type (got "int"
together.cogroup(stream, lambda k, cents, total: total)
# ^ incompatible type "KStream[str, int]"; expected "KGroupedStream

# joins of streams
table = builder.table("t", Consumed(key_serde=Serdes.STRING, value_serde=Serdes.STRING), materialized="table")
over = JoinWindows.of_time_difference_with_no_grace(5)
everywhere = builder.global_table("g", Consumed(key_serde=Serdes.LONG, value_serde=Serdes.STRING))
reveal_type(stream.join(table, lambda n, text: text * n))  # KStream[str, str]
reveal_type(stream.left_join(table, lambda n, text: n + len(text or "")))  # KStream[str, int]
reveal_type(stream.join(stream.map_values(str), lambda n, text: (n, text), windows=over))
# ^ KStream[str, tuple[int, str]]
reveal_type(stream.outer_join(stream, lambda a, b: (a or 0) + (b or 0), windows=over))  # KStream[str, int]
reveal_type(stream.left_join_with_key(everywhere, lambda k, n, t: k + (t or ""), key_selector=lambda k, n: n))
# ^ KStream[str, str]
reveal_type(orders.join_with_key(totals, lambda k, order, total: total.cents))  # KStream[str, int]
stream.merge(table.to_stream())  # "merge" of "KStream" has incompatible type "KStream[str, str]"
stream.join(table, lambda n, text: text + n)  # Unsupported operand types for + ("str" and "int")
stream.left_join(table, lambda n, text: text.upper())  # Item "None" of "str | None" has no attribute "upper"
stream.join(stream, lambda a, b: a + b)  # No overload variant of "join"
stream.join(table.to_stream(), lambda n, text: n.upper(), windows=over)  # "int" has no attribute "upper"
stream.join(everywhere, lambda n, text: text, key_selector=lambda k, n: k)  # Incompatible return value type (got "str"
stream.outer_join(stream, lambda a, b: a + b, windows=over)  # Unsupported left operand type for + ("None")

# tables
reveal_type(table.filter(lambda k, v: v > k))  # KTable[str, str]
reveal_type(table.map_values(len))  # KTable[str, int]
reveal_type(table.map_values_with_key(lambda k, v: (k, v), materialized="pairs"))  # KTable[str, tuple[str, str]]
reveal_type(totals.transform_values(Half))  # KTable[str, float]
reveal_type(table.to_stream())  # KStream[str, str]
reveal_type(table.to_stream(lambda k, v: len(v)))  # KStream[int, str]
reveal_type(table.group_by(lambda k, v: (len(v), v)).count())  # KTable[int, int]
by_length = table.group_by(lambda k, v: (len(v), v))
reveal_type(by_length)  # KGroupedTable[int, str]
reveal_type(by_length.aggregate(lambda: Total(0), lambda k, v, t: Total(k), lambda k, v, t: t))  # KTable[int, Total]
reveal_type(totals.suppress(Suppressed.until_time_limit(5, BufferConfig.unbounded())))  # KTable[str, Total]
reveal_type(stream.to_table(materialized=Materialized(name="x", value_serde=Serdes.LONG)))  # KTable[str, int]
table.group_by(lambda k, v: v)  # Incompatible return value type (got "str"
table.transform_values(Half)  # "transform_values" of "KTable" has incompatible type "type[Half]"
table.map_values(len, materialized=Materialized(value_serde=Serdes.STRING))
# ^ incompatible type "Callable[[Sized], int]"; expected "Callable[[str], str
by_length.reduce(lambda one, other: one, lambda one: one)  # Cannot infer type of lambda
by_length.aggregate(lambda: Total(0), lambda k, v, t: t, lambda k, v, t: v.total)  # "str" has no attribute "total"

# joins of tables
names = builder.table("names", Consumed(key_serde=Serdes.STRING, value_serde=Serdes.STRING))
ages = builder.table("ages", Consumed(key_serde=Serdes.STRING, value_serde=Serdes.LONG))
by_number = builder.table("other", Consumed(key_serde=Serdes.LONG, value_serde=Serdes.LONG))
reveal_type(names.join(ages, lambda name, age: age + len(name)))  # KTable[str, int]
reveal_type(names.left_join(ages, lambda name, age: (name, age), materialized="store"))
# ^ KTable[str, tuple[str, int | None]]
reveal_type(names.outer_join(ages, lambda name, age: f'{name}{age}'))  # KTable[str, str]
reveal_type(names.foreign_key_join(by_number, len, lambda name, age: age, joined="j"))  # KTable[str, int]
reveal_type(names.foreign_key_left_join_with_key(ages, lambda k, v: k + v, lambda name, age: age))  # KTable[str, int]
names.join(ages, lambda name, age: name + age)  # Unsupported operand types for + ("str" and "int")
names.left_join(ages, lambda name, age: age + 1)  # Unsupported operand types for + ("None" and "int")
names.outer_join(ages, lambda name, age: name.upper())  # Item "None" of "str | None" has no attribute "upper"
names.join(by_number, lambda name, age: name)  # "join" of "KTable" has incompatible type "KTable[int, int]"
names.foreign_key_join(by_number, lambda name: name, lambda name, age: age)  # Incompatible return value type (got "str"
names.foreign_key_left_join(ages, str.upper, lambda name, age: age + 1)
# ^ Unsupported operand types for + ("None" and "int")
names.foreign_key_join(ages, lambda key, value: key, lambda name, age: age)  # Cannot infer type of lambda
"""

TEXT = PROGRAM.replace("\n# ^ ", "  # ")
SERDES = text_of(PROGRAMS[1])
"""The program that `make editors` checks, too."""
PYRIGHT = shutil.which("basedpyright", path=ROOT / ".venv-editors" / "bin") or shutil.which("pyright")

Found = dict[int, list[str]]

SAID = re.compile(r"(\w+)\.py:(\d+): (?:note: Revealed type is|error:) (.*)")
MODULES = re.compile(r"\b(?:\w+\.)+(?=\w)")
_INNER = r"(?:[^\[\]]|\[[^\[\]]*\])*"
NAMED_TUPLE = re.compile(rf"tuple\[{_INNER}, fallback=(\w+\[{_INNER}\])\]")


def as_typed(text: str) -> str:
    """Returns what mypy reports with names as a program has them: without modules, and named tuples by their names."""
    text = MODULES.sub("", text.replace("fallback=processor_api.stores.windowed.Window]", "Window]"))
    while (shorter := NAMED_TUPLE.sub(r"\1", text)) != text:
        text = shorter
    return text


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Found]:
    """What the checker says of the programs, by the number of the line. It runs once for both."""
    folder = tmp_path_factory.mktemp("typed")
    (folder / "program.py").write_text(TEXT)
    (folder / "serdes.py").write_text(SERDES)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context"]
    command += [str(folder / "program.py"), str(folder / "serdes.py")]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    said: dict[str, Found] = {"program": {}, "serdes": {}}
    for program, number, text in SAID.findall(output):
        said[program].setdefault(int(number), []).append(as_typed(text))
    return said


@pytest.fixture(scope="module")
def found(checked: dict[str, Found]) -> Found:
    return checked["program"]


EXPECTED = [
    (number, *line.split("  # ", 1)) for number, line in enumerate(TEXT.splitlines(), start=1) if "  # " in line
]


@pytest.mark.parametrize(("number", "line", "expected"), [one for one in EXPECTED if one[1].startswith("reveal_type")])
def test_a_type_follows_from_the_one_before(found: Found, number: int, line: str, expected: str) -> None:
    assert found.get(number) == [f'"{expected}"'], line


@pytest.mark.parametrize(
    ("number", "line", "expected"), [one for one in EXPECTED if not one[1].startswith("reveal_type")]
)
def test_a_mistake_is_found(found: Found, number: int, line: str, expected: str) -> None:
    """The message of an editor that checks with mypy."""
    assert any(expected in text for text in found.get(number, [])), (line, found.get(number))


def test_nothing_else_is_found(found: Found) -> None:
    assert {number: text for number, text in found.items() if number not in {one[0] for one in EXPECTED}} == {}


def test_serdes_options_windows_and_reads_are_typed(checked: dict[str, Found]) -> None:
    """Types follow serdes, and each planted mistake is found."""
    assert list(problems_of(SERDES, checked["serdes"])) == []


@pytest.mark.skipif(PYRIGHT is None, reason="pyright is in no folder of PATH: `make editors` brings and runs it")
def test_editors_with_pyright_agree(tmp_path: Path) -> None:
    found = diagnostics(Path(str(PYRIGHT)), tmp_path)
    problems = {one.name: list(problems_of(text_of(one), found[one.name])) for one in PROGRAMS}
    assert problems == {"program.py": [], "serdes.py": []}
