"""The types of streams and tables, as a type checker sees them in a user's program."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
from dsl import Consumed, Grouped, JoinWindows, KStream, KTable, Materialized, Produced, StreamsBuilder
from processor_api.processor import FixedKeyProcessor, Processor
from processor_api.record import FixedKeyRecord, Record
from processor_api.serde import Serdes


class Shout(Processor[str, int, int, str]):
    def process(self, record: Record[str, int]) -> None:
        self.context.forward(record.with_key(1).with_value("!"))


class Length(FixedKeyProcessor[str, int, str]):
    def process(self, record: FixedKeyRecord[str, int]) -> None:
        self.context.forward(record.with_value("!"))


builder = StreamsBuilder()
stream = builder.stream("in", Consumed(key_serde=Serdes.STRING, value_serde=Serdes.LONG))
reveal_type(stream)
reveal_type(stream.filter(lambda k, v: v > 0))
reveal_type(stream.map(lambda k, v: (v, k)))
reveal_type(stream.map_values(lambda v: None if v > 1 else str(v)))
reveal_type(stream.map_values_with_key(lambda k, v: k + str(v)))
reveal_type(stream.flat_map_values(lambda v: [str(v)]))
reveal_type(stream.flat_map(lambda k, v: [(v, k)]))
reveal_type(stream.select_key(lambda k, v: v))
reveal_type(stream.process(Shout))
reveal_type(stream.process_values(Length))
reveal_type(stream.split().branch(lambda k, v: v > 0).default_branch())
reveal_type(stream.group_by_key().count())
reveal_type(stream.group_by(lambda k, v: v % 2).reduce(lambda a, b: a + b))
reveal_type(stream.group_by_key().aggregate(lambda: 0.5, lambda k, v, a: a + v, materialized="halves"))
table = builder.table("t", Consumed(key_serde=Serdes.STRING, value_serde=Serdes.STRING), materialized="table")
reveal_type(table.filter(lambda k, v: v > k))
reveal_type(table.map_values(len))
reveal_type(table.to_stream())
reveal_type(table.to_stream(lambda k, v: len(v)))
reveal_type(table.group_by(lambda k, v: (len(v), v)).count())
reveal_type(stream.to_table(materialized=Materialized(name="x", value_serde=Serdes.LONG)))
reveal_type(builder.stream("plain"))
over = JoinWindows.of_time_difference_with_no_grace(5)
everywhere = builder.global_table("g", Consumed(key_serde=Serdes.LONG, value_serde=Serdes.STRING))
reveal_type(stream.join(table, lambda n, text: text * n))
reveal_type(stream.left_join(table, lambda n, text: n + len(text or "")))
reveal_type(stream.join(stream.map_values(str), lambda n, text: (n, text), windows=over))
reveal_type(stream.outer_join(stream, lambda a, b: (a or 0) + (b or 0), windows=over))
reveal_type(stream.left_join_with_key(everywhere, lambda k, n, t: k + (t or ""), key_selector=lambda k, n: n))
lines: KStream[str, str] = builder.stream("lines")
stream.to("out", Produced(value_serde=Serdes.LONG))
stream.group_by(lambda k, v: v, Grouped(key_serde=Serdes.LONG))

stream.map_values(lambda v: v.upper())
stream.filter(lambda v: True)
stream.group_by_key().reduce(lambda a, b: a + "x")
stream.to("out", Produced(value_serde=Serdes.STRING))
stream.merge(table.to_stream())
table.group_by(lambda k, v: v)
stream.process(Length)
stream.join(table, lambda n, text: text + n)
stream.left_join(table, lambda n, text: text.upper())
stream.join(stream, lambda a, b: a + b)
stream.join(table.to_stream(), lambda n, text: n.upper(), windows=over)
stream.join(everywhere, lambda n, text: text, key_selector=lambda k, n: k)
"""

REVEALED = [
    "dsl.streams.KStream[str, int]",
    "dsl.streams.KStream[str, int]",
    "dsl.streams.KStream[int, str]",
    "dsl.streams.KStream[str, str]",
    "dsl.streams.KStream[str, str]",
    "dsl.streams.KStream[str, str]",
    "dsl.streams.KStream[int, str]",
    "dsl.streams.KStream[int, int]",
    "dsl.streams.KStream[int, str]",
    "dsl.streams.KStream[str, str]",
    "dict[str, dsl.streams.KStream[str, int]]",
    "dsl.streams.KTable[str, int]",
    "dsl.streams.KTable[int, int]",
    "dsl.streams.KTable[str, float]",
    "dsl.streams.KTable[str, str]",
    "dsl.streams.KTable[str, int]",
    "dsl.streams.KStream[str, str]",
    "dsl.streams.KStream[int, str]",
    "dsl.streams.KTable[int, int]",
    "dsl.streams.KTable[str, int]",
    "dsl.streams.KStream[Any, Any]",
    "dsl.streams.KStream[str, str]",
    "dsl.streams.KStream[str, int]",
    "dsl.streams.KStream[str, tuple[int, str]]",
    "dsl.streams.KStream[str, int]",
    "dsl.streams.KStream[str, str]",
]
MISTAKES = 12


def test_a_user_s_functions_are_checked(tmp_path: Path) -> None:
    """Each operator's type follows from the one before; every line after the blank one is a mistake and is found."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context", str(program)]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    found = re.findall(r'note: Revealed type is "(.+)"', output)
    assert [kind.replace("builtins.", "") for kind in found] == REVEALED, output
    first_mistake = PROGRAM[: PROGRAM.index("stream.map_values(lambda v: v.upper())")].count("\n") + 1
    wrong = sorted({int(line) for line in re.findall(r"program.py:(\d+): error", output)})
    assert wrong == list(range(first_mistake, first_mistake + MISTAKES)), output
