"""`streams try`: whole outputs of the command, for each form of records and each wrong step."""

from __future__ import annotations

import datetime
import io
import itertools
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from streams.cli.main import main

REPOSITORY = Path(__file__).resolve().parents[2]
DEADLINE_S = 120.0

WORDS = """
from streams import StreamsBuilder
builder = StreamsBuilder(key_serde="string", value_serde="string")
words = builder.stream("lines").flat_map_values(lambda line: line.lower().split())
words.group_by(lambda _, word: word).count(materialized="counts").to_stream().to("counts-by-word")
"""
SHOP = """
from datetime import timedelta
from pydantic import BaseModel, Field
from streams import Consumed, Produced, StreamsBuilder, TimeWindows, Suppressed, BufferConfig
class Order(BaseModel):
    customer: str
    cents: int = Field(gt=0)
builder = StreamsBuilder(key_serde="string", value_serde=Order)
orders = builder.stream("orders")
names = builder.table("customers", Consumed(value_serde="string"), materialized="names")
orders.select_key(lambda _, order: order.customer).join(names, lambda order, name: f"{name}: {order.cents}").to(
    "bills", Produced(value_serde="string")
)
each = orders.group_by(lambda _, order: order.customer)
closed = each.windowed_by(TimeWindows.of_size_with_no_grace(timedelta(minutes=5))).count(materialized="orders-by-time")
closed.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()).with_name("final")).to_stream().to(
    "counts", Produced(value_serde="long")
)
"""
START = ("--start", "2025-01-01T00:00:00Z")
COUNT_OF_ONE_WINDOW = (
    '{"topic": "counts", "key": {"key": "ann", "start": "2025-01-01T00:00:00.000Z",'
    ' "end": "2025-01-01T00:05:00.000Z"}, "value": %d, "timestamp": "%s"}\n'
)
HELD = (
    "final, suppress(final-store) at app.py:16, holds back 1 result of an open window until a record of"
    " 2025-01-01T00:%s:00Z or later reaches it\nOnly records advance stream time: give a record of that time, for"
    " example in a line after @+5m.\n"
)


class Found(NamedTuple):
    status: int
    out: str
    err: str


Try = Callable[..., Found]
_numbers = itertools.count()


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Try:
    """Runs `streams try` on an application, in a folder of its own, with something on standard input."""
    monkeypatch.chdir(tmp_path)

    def run(source: str, *words: str, given: str | bytes = b"") -> Found:
        name = f"app{next(_numbers)}"  # a module is imported once
        (tmp_path / f"{name}.py").write_text(source)
        data = given.encode() if isinstance(given, str) else given
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        monkeypatch.setattr(sys, "path", list(sys.path))
        try:
            status = main(["try", f"{name}.py", *words])
        except SystemExit as error:
            status = int(str(error.code))
        out, err = capfd.readouterr()
        return Found(status, out, err.replace(name, "app"))

    return run


# ---------------------------------------------------------------------- what comes out


def test_lines_of_a_pipe_give_lines_of_json(trial: Try) -> None:
    counts = [("to", 1), ("be", 1), ("or", 1), ("not", 1), ("to", 2), ("be", 2)]
    expected = "".join(
        f'{{"topic": "counts-by-word", "key": "{word}", "value": {count}, "timestamp": "2025-01-01T00:00:00.000Z"}}\n'
        for word, count in counts
    )
    assert trial(WORDS, *START, given="to be or not to be\n") == (0, expected, "")


def test_a_table_is_aligned_and_followed_by_the_stores(trial: Try) -> None:
    found = trial(WORDS, *START, "--format", "text", "--tables", given="to be to\n日本 questionable\n")
    assert found == (
        0,
        "time          topic           key       value\n"
        "00:00:00.000  counts-by-word  to        1\n"
        "00:00:00.000  counts-by-word  be        1\n"
        "00:00:00.000  counts-by-word  to        2\n"
        "00:00:00.000  counts-by-word  日本      1\n"
        "00:00:00.000  counts-by-word  questionable  1\n"
        "\n"
        "counts: 4 rows\n"
        "  be        1  timestamp 2025-01-01T00:00:00.000Z\n"
        "  questionable  1  timestamp 2025-01-01T00:00:00.000Z\n"
        "  to            2  timestamp 2025-01-01T00:00:00.000Z\n"
        "  日本          1  timestamp 2025-01-01T00:00:00.000Z\n",
        "",
    )


def test_the_output_of_one_application_is_the_input_of_another(trial: Try) -> None:
    again = """
from streams import StreamsBuilder
builder = StreamsBuilder(key_serde="string", value_serde="long")
builder.stream("counts-by-word").filter(lambda _, count: count > 1).to("often")
"""
    first = trial(WORDS, *START, given='{"value": "a b a", "timestamp": 1000, "headers": {"from": "web"}}\n')
    assert first.out.splitlines()[-1] == (
        '{"topic": "counts-by-word", "key": "a", "value": 2, "timestamp": "1970-01-01T00:00:01.000Z",'
        ' "headers": {"from": "web"}}'
    )
    assert trial(again, given=first.out) == (
        0,
        first.out.splitlines()[-1].replace("counts-by-word", "often") + "\n",
        "",
    )


def test_the_way_of_each_record_is_shown_node_by_node(trial: Try) -> None:
    source = """
from streams import StreamsBuilder
builder = StreamsBuilder(key_serde="string", value_serde="string")
builder.stream("visits").group_by_key().count(materialized="counts", name="count").to_stream().to("counts-by-page")
"""
    expected = """\
visits-0@0
  read     KSTREAM-SOURCE-0000000000   stream(visits)      'home': 'ann'
  process  count                       count(counts)       'home': 'ann'
  get      count                       > counts            'home': None
  put      count                       > counts            'home': 1
  drain    count                       > counts            'home': 1
  process  KTABLE-TOSTREAM-0000000002  to_stream()         'home': (1, None)
  send     KSTREAM-SINK-0000000003     > counts-by-page-0  'home': 1
visits-0@1
  read     KSTREAM-SOURCE-0000000000   stream(visits)      None: 'bob'
  process  count                       count(counts)       None: 'bob'
  drop     count                       count(counts)       null key or value
"""
    found = trial(source, *START, "--trace", given="home\tann\nbob\n")
    squeezed = re.compile(r" +")
    assert squeezed.sub(" ", found.err) == squeezed.sub(" ", expected) + ("1 record was dropped\n")
    without = trial(source, *START, given="home\tann\nbob\n")
    assert without.err == "1 record was dropped: null key or value at count(counts) (--trace shows which)\n"
    assert found.out == without.out
    assert found.out == (
        '{"topic": "counts-by-page", "key": "home", "value": 1, "timestamp": "2025-01-01T00:00:00.000Z"}\n'
    )
    text = trial(source, *START, "--trace", "--format", "text", given="home\tann\n")
    assert text.err == ""
    assert text.out.splitlines()[-2:] == [
        "time          topic           key       value",
        "00:00:00.000  counts-by-page  home      1",
    ]


def test_keys_of_windows_are_readable_in_the_way_of_a_record(trial: Try) -> None:
    """They stand in the store as bytes with a segment, a time and a sequence; the rows of an index are left out."""
    source = """
from datetime import timedelta
from streams import EmitStrategy, SessionWindows, StreamsBuilder, TimeWindows
minute = timedelta(minutes=1)
builder = StreamsBuilder(key_serde="string", value_serde="string")
visits = builder.stream("visits").group_by_key()
times, sessions = TimeWindows.of_size_with_no_grace(minute), SessionWindows.of_inactivity_gap_with_no_grace(minute)
visits.windowed_by(times).count(materialized="by-time", name="a")
visits.windowed_by(times).emit_strategy(EmitStrategy.on_window_close()).count(materialized="at-close", name="b")
visits.windowed_by(sessions).count(materialized="by-session", name="c")
"""
    found = trial(source, *START, "--trace", given="home\tann\n@+10s\nhome\tbob\n")
    puts = [re.sub(" +", " ", line).strip() for line in found.err.splitlines() if line.startswith("  put")]
    hour = "2025-01-01T00:00"
    assert puts == [
        f"put a > by-time 'home' @ {hour}:00Z: 1",
        f"put b > at-close 'home' @ {hour}:00Z: 1",
        f"put c > by-session 'home' @ {hour}:00Z/{hour}:00Z: 1",
        f"put a > by-time 'home' @ {hour}:00Z: 2 (was 1)",
        f"put b > at-close 'home' @ {hour}:00Z: 2 (was 1)",
        f"put c > by-session 'home' @ {hour}:00Z/{hour}:00Z: None (was 1)",
        f"put c > by-session 'home' @ {hour}:00Z/{hour}:10Z: 2",
    ]


def test_any_text_can_be_printed(trial: Try) -> None:
    """Halves of surrogates, and characters that a terminal obeys, in keys and headers."""
    line = '{"value": "a \\u009b31m", "headers": {"h\\u009b": "\\u202e"}, "partition": 1, "offset": 7}\n'
    assert trial(WORDS, *START, "--format", "text", given=line) == (
        0,
        "time          topic           key       value\n"
        "00:00:00.000  counts-by-word  a         1\n"
        '              headers: "h\\x9b"={"base64": "4oCu"}\n'
        '00:00:00.000  counts-by-word  "\\x9b31m"  1\n'
        '              headers: "h\\x9b"={"base64": "4oCu"}\n',
        "",
    )
    found = trial(WORDS, *START, given=line)
    assert [json.loads(each)["key"] for each in found.out.splitlines()] == ["a", "\x9b31m"]


def test_a_table_shows_the_first_line_of_a_header(trial: Try) -> None:
    """A stack trace would fill the screen; JSON has all of it."""
    line = '{"value": "a", "headers": {"trace": "Traceback:\\n  File", "long": "' + "x" * 501 + '"}}\n'
    found = trial(WORDS, *START, "--format", "text", given=line)
    assert found.out.endswith(f"headers: trace=Traceback: ..., long={'x' * 500}... (1 more characters)\n")
    found = trial(WORDS, *START, given=line)
    assert json.loads(found.out)["headers"]["trace"] == "Traceback:\n  File"


FOLLOWED = """
from dataclasses import dataclass
from streams import StreamsBuilder
@dataclass
class Order:
    cents: int
def to_order(text: str) -> Order:
    return Order(int(text))
builder = StreamsBuilder(key_serde="string", models="json")
orders = builder.stream("lines", value_serde="string").map_values(to_order)
orders.to("orders")
orders.to_table(materialized="latest")
"""


def test_serdes_that_follow_a_function_are_named_with_the_reason(trial: Try) -> None:
    tried = trial(FOLLOWED, "--topic", "lines", *START, given="1\t5\n")
    reason = "value serde pydantic Order, because to_order at app.py:7 returns Order"
    assert (tried.status, tried.err) == (0, f"orders, latest: {reason}\n")
    assert json.loads(tried.out)["value"] == {"cents": 5}


def test_settings_that_mean_nothing_here_change_nothing(trial: Try) -> None:
    words = ("-c", "state.dir=/proc/nowhere", "-c", "max.task.idle.ms=1000")
    assert trial(WORDS, *START, *words, given="a").out == trial(WORDS, *START, given="a").out != ""
    assert trial(WORDS, "-c", "max.task.idle.ms=x").status == 2


def test_a_closed_standard_input_is_an_empty_one(trial: Try, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Path("closed.py")
    source.write_text(WORDS)
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["try", "closed.py"]) == 0


def test_tables_show_what_can_be_given(trial: Try) -> None:
    """Bytes and durations of a model were shown as its object has them, which the model does not take."""
    source = """
from dataclasses import dataclass
from datetime import timedelta
from streams import StreamsBuilder
@dataclass(frozen=True)
class Key:
    lasts: timedelta
@dataclass
class Blob:
    data: bytes
    lasts: timedelta
builder = StreamsBuilder(key_serde=Key, value_serde=Blob)
builder.table("blobs", materialized="blobs").to_stream().to("copies")
"""
    record = {
        "key": {"lasts": "PT5S"},
        "value": {"data": "abc", "lasts": "P1DT5S"},
        "timestamp": "2025-01-01T00:00:00.000Z",
    }
    found = trial(source, *START, "--tables", given=json.dumps(record))
    assert (found.status, found.err) == (0, "")
    assert list(map(json.loads, found.out.splitlines())) == [
        {"topic": "copies", **record}, {"store": "blobs", **record},
    ]  # fmt: skip


def test_tables_show_windows_and_versions_with_times(trial: Try) -> None:
    source = """
from streams import Consumed, Materialized, Stores, StreamsBuilder
builder = StreamsBuilder(key_serde="string", value_serde="long")
versions = Stores.persistent_versioned_key_value_store("prices", history_retention=60_000)
builder.table("prices", materialized=Materialized(supplier=versions))
"""
    found = trial(source, *START, "--tables", given="a\t5\n@+10s\na\t6\n")
    assert found == (
        0,
        '{"store": "prices", "key": "a", "value": 5, "timestamp": "2025-01-01T00:00:00.000Z",'
        ' "valid_to": "2025-01-01T00:00:10.000Z"}\n'
        '{"store": "prices", "key": "a", "value": 6, "timestamp": "2025-01-01T00:00:10.000Z", "valid_to": null}\n',
        "",
    )
    found = trial(SHOP, *START, "--tables", "--topic", "orders", given='{"customer": "ann", "cents": 5}')
    assert found.status == 0
    assert json.loads(found.out) == {
        "store": "orders-by-time",
        "key": {"key": "ann", "start": "2025-01-01T00:00:00.000Z", "end": "2025-01-01T00:05:00.000Z"},
        "value": 1,
        "timestamp": "2025-01-01T00:00:00.000Z",
    }


# ---------------------------------------------------------------------- time


def test_windows_close_when_a_later_record_comes_and_open_ones_are_named(trial: Try) -> None:
    lines = '{"customer": "ann", "cents": 5}\n{"customer": "ann", "cents": 6}\n@+5m\n{"customer": "ann", "cents": 7}\n'
    found = trial(SHOP, *START, "--topic", "orders", given=lines)
    assert found == (0, COUNT_OF_ONE_WINDOW % (2, "2025-01-01T00:00:00.000Z"), HELD % "10")
    found = trial(SHOP, *START, "--topic", "orders", "--advance", "1h", given='{"customer": "ann", "cents": 5}')
    assert found == (0, "", HELD % "05")


OPEN = """
from datetime import timedelta
from streams import EmitStrategy, JoinWindows, SessionWindows, SlidingWindows, StreamsBuilder, TimeWindows
minute = timedelta(minutes=1)
builder = StreamsBuilder(key_serde="string", value_serde="string")
lines = builder.stream("lines")
for windows in (
    TimeWindows.of_size_and_grace(minute, minute),
    SlidingWindows.of_time_difference_and_grace(minute, minute),
    SessionWindows.of_inactivity_gap_and_grace(minute, minute),
):
    windowed = lines.group_by_key().windowed_by(windows).emit_strategy(EmitStrategy.on_window_close())
    windowed.count(name=type(windows).__name__).to_stream().to(type(windows).__name__)
joined = JoinWindows.of_time_difference_and_grace(minute, minute)
lines.left_join(builder.stream("others"), lambda a, b: f"{a}{b}", windows=joined).to("joined")
"""


def test_each_kind_of_result_that_waits_is_due_when_it_is_said(trial: Try) -> None:
    """One millisecond before it nothing comes, and then all of it."""
    first = '{"topic": "lines", "key": "a", "value": "x", "timestamp": "2025-01-01T00:00:00Z"}\n'
    found = trial(OPEN, given=first)
    waits = dict(
        re.findall(
            r"^(\S+), .* at app.py:\d+, holds back 1 .* until a record of (\S+) or later", found.err, re.MULTILINE
        )
    )
    assert (found.status, found.out, len(waits)) == (0, "", 4)
    for node, due in waits.items():
        topic = node if "Windows" in node else "joined"
        at = datetime.datetime.fromisoformat(due)
        for ms, comes in ((-1, False), (0, True)):
            later = (at + datetime.timedelta(milliseconds=ms)).isoformat()
            second = first.replace("2025-01-01T00:00:00Z", later).replace('"a"', '"b"')
            topics = [json.loads(line)["topic"] for line in trial(OPEN, given=first + second).out.splitlines()]
            assert (topic in topics) is comes, (node, ms)


PUNCTUATED = """
from datetime import timedelta
from streams import Processor, PunctuationType, Record, Topology
class Ticks(Processor):
    def init(self, context):
        super().init(context)
        context.schedule(timedelta(minutes=1), PunctuationType.WALL_CLOCK_TIME, self.tick)
    def process(self, record):
        pass
    def tick(self, now_ms):
        self.context.forward(Record("tick", str(now_ms), now_ms))
def topology():
    made = Topology()
    made.add_source("source", "lines", key_serde="string", value_serde="string")
    made.add_processor("ticks", Ticks, "source")
    made.add_sink("sink", "ticks", "ticks", key_serde="string", value_serde="string")
    return made
"""
TICK = '{"topic": "ticks", "key": "tick", "value": "%d", "timestamp": "1970-01-01T00:0%d:00.000Z"}\n'


def test_steps_of_the_wall_clock_run_punctuations(trial: Try) -> None:
    assert trial(PUNCTUATED, "--start", "0", given="x\n@+1m\n") == (0, TICK % (60_000, 1), "")
    assert trial(PUNCTUATED, "--start", "0", "--advance", "1m", given="x\n@1970-01-01T00:01\n") == (
        0,
        TICK % (60_000, 1) + TICK % (120_000, 2),
        "",
    )


# ---------------------------------------------------------------------- files


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "customers.jsonl").write_text('{"key": "ann", "value": "Ann", "timestamp": "2025-01-01T00:00:00Z"}\n')
    (tmp_path / "orders.csv").write_text("customer,cents,at\nann,5,2025-01-01T00:00:01Z\nann,6,1735689960000\n")
    return tmp_path


BILLS = "".join(
    f'{{"topic": "bills", "key": "ann", "value": "Ann: {cents}", "timestamp": "2025-01-01T00:{at}.000Z"}}\n'
    for cents, at in ((5, "00:01"), (6, "06:00"))
)
BY_FIELDS = ("--key-field", "customer", "--time-field", "at")


def test_files_are_merged_by_time(trial: Try, files: Path) -> None:
    """The customer comes first, though its file does not."""
    found = trial(SHOP, "--input", "orders=orders.csv", "--input", "customers=customers.jsonl", *BY_FIELDS)
    counted = COUNT_OF_ONE_WINDOW % (1, "2025-01-01T00:00:01.000Z")
    assert found.out == BILLS + counted
    assert (found.status, found.err) == (0, HELD % "10")


def test_a_parquet_file_gives_the_same_as_csv(trial: Try, files: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    at = [datetime.datetime(2025, 1, 1, 0, 0, 1), datetime.datetime(2025, 1, 1, 0, 6)]  # noqa: DTZ001
    parquet.write_table(arrow.table({"customer": ["ann", "ann"], "cents": [5, 6], "at": at}), "orders.parquet")
    words = ("--input", "customers=customers.jsonl", *BY_FIELDS)
    found = trial(SHOP, "--input", "orders=orders.parquet", *words)
    assert found == trial(SHOP, "--input", "orders=orders.csv", *words)
    assert found.out.count("bills") == 2
    records = {"topic": ["customers"], "key": ["ann"], "value": ["Ann"], "timestamp": [at[0]]}
    parquet.write_table(arrow.table(records), "records.parquet")
    assert trial(SHOP, "--input", "records.parquet", "--tables", "--format", "text").out == (
        "names: 1 row\n  ann       Ann  timestamp 2025-01-01T00:00:01.000Z\n\norders-by-time: empty\n\n"
        "final-store: 0 wait\n"
    )


def test_a_number_of_parquet_that_json_does_not_have_is_no_text(trial: Try, tmp_path: Path) -> None:
    """The serde refuses it, as it does in an application; the topology got the text `nan`."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"amount": [1.5, float("nan"), float("inf")]}), "amounts.parquet")
    kinds = """from streams import StreamsBuilder
builder = StreamsBuilder(key_serde="string", value_serde="json")
builder.stream("in").map_values(lambda value: type(value["amount"]).__name__).to("out")
"""
    found = trial(kinds, "--input", "amounts.parquet")
    assert [json.loads(line)["value"] for line in found.out.splitlines()] == ["float"]
    assert "nan is not JSON" in found.err
    assert "inf is not JSON" in found.err


def test_a_csv_of_records_has_their_columns(trial: Try, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        'topic,key,value,timestamp,headers\nlines,,"to ""be""\n\nand",5,"{""a"": null, ""b"": ""c""}"\n,k,x,,\n'
    )
    found = trial(WORDS, *START, "--input", "a.csv")
    assert [json.loads(line)["key"] for line in found.out.splitlines()] == ["to", '"be"', "and", "x"]
    first, *_, last = found.out.splitlines()
    assert json.loads(first)["headers"] == {"a": None, "b": "c"}
    assert json.loads(first)["timestamp"] == "1970-01-01T00:00:00.005Z"
    assert json.loads(last)["timestamp"] == "2025-01-01T00:00:00.000Z"
    assert (found.status, found.err) == (0, "")


def test_objects_are_values_where_that_is_said(trial: Try) -> None:
    source = """
from streams import StreamsBuilder
builder = StreamsBuilder(key_serde="string", value_serde="json")
builder.stream("sensors").to("copies")
"""
    line = '{"value": 3.5, "timestamp": 7}'
    assert json.loads(trial(source, given=line).out) == {
        "topic": "copies", "key": None, "value": 3.5, "timestamp": "1970-01-01T00:00:00.007Z",
    }  # fmt: skip
    found = trial(source, *START, "--values", "--time-field", "timestamp", given=line)
    assert json.loads(found.out) == {
        "topic": "copies",
        "key": None,
        "value": {"value": 3.5, "timestamp": 7},
        "timestamp": "1970-01-01T00:00:00.007Z",
    }


# ---------------------------------------------------------------------- made up


def test_made_up_records_fit_and_are_the_same_for_one_seed(trial: Try) -> None:
    words = (SHOP, *START, "--generate", "30", "--tables")
    found = trial(*words)
    assert (found.status, found.out.count('"bills"') > 3, "error" in found.err) == (0, True, False)
    assert trial(*words).out == found.out
    assert trial(*words, "--seed", "1").out != found.out


def test_what_nothing_describes_is_not_made_up(trial: Try) -> None:
    source = """
from streams import StreamsBuilder
builder = StreamsBuilder(key_serde="string", value_serde="json")
builder.stream("in").to("out")
"""
    assert trial(source, "--generate", "1") == (
        2,
        "",
        "error: the values of topic 'in' cannot be generated: the serde 'json' has no description of its values. Give"
        " the topic a pydantic model or a dataclass, or give records by --input\n",
    )


# ---------------------------------------------------------------------- wrong steps


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("x", "line:1: skipped: it does not have a topic; the topology reads orders, customers"),
        (
            "order\tx",
            "line:1, topic order: skipped: the topology does not read topic 'order'; it reads orders, customers; did"
            " you mean 'orders'?",
        ),
        (
            "orders\tx",
            "line:1, topic orders: skipped: its value 'x' does not fit the serde 'pydantic Order': it is not JSON:"
            " Expecting value: line 1 column 1 (char 0)",
        ),
        (
            'orders\t{"cents": "five"}',
            "line:1, topic orders: skipped: its value '{\"cents\": \"five\"}' does not fit the serde 'pydantic Order':"
            " customer: Field required; cents: Input should be a valid integer, unable to parse string as an integer,"
            " got 'five'",
        ),
        (
            '{"topic": "customers", "value": 5}',
            "line:1, topic customers: skipped: its value 5 does not fit the serde 'string': a text is expected",
        ),
        (
            '{"topic": "customers", "value": "x", "timestamp": "noon"}',
            "line:1: skipped: 'noon' is not a time: write milliseconds since 1970, or ISO 8601 such as"
            " 2025-01-01T12:00:00Z",
        ),
        (
            '{"topic": "customers", "value": "x", "headers": 3}',
            'line:1: skipped: the headers must be an object such as {"source": "web"} or a list of pairs of a name'
            " and a value, got 3",
        ),
        ("@+5x", "line:1: skipped: '5x' is not a duration: write a number with ms, s, m, h or d, such as 5m or 1h30m"),
        ("@2024-01-01", "line:1: skipped: the wall clock cannot go back; start earlier by --start"),
        ("@+9999999d", "line:1: skipped: the wall clock cannot exceed the year 9999"),
        (b"\xff\xfe", "line:1: skipped: it is not UTF-8"),
        (
            "orders\t" + "[" * 100_000,
            f"line:1, topic orders: skipped: its value '{'[' * 80}...' does not fit the serde 'pydantic Order': it is"
            " not JSON: maximum recursion depth exceeded while decoding a JSON array from a unicode string",
        ),
    ],
)
def test_a_record_that_does_not_fit_is_one_line_and_the_others_are_processed(
    trial: Try, line: str | bytes, complaint: str
) -> None:
    data = line.encode() if isinstance(line, str) else line
    found = trial(SHOP, *START, "--tables", given=data + b"\ncustomers\tann\tAnn\n")
    row = '{"store": "names", "key": "ann", "value": "Ann", "timestamp": "2025-01-01T00:00:00.000Z"}\n'
    assert found == (1, row, f"error: {complaint}\n")


def test_lines_of_a_file_are_named_by_its_number(trial: Try, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('\n{"value": "x"}\n{"key": "a"}\n[]\n{"value": "x", "ky": 1}\nx\n')
    (tmp_path / "b.csv").write_text('key,value\na,b,c\na,x\n"a')
    found = trial(WORDS, "--input", "a.jsonl")
    assert (found.status, found.out.count("\n")) == (1, 1)
    assert found.err == (
        'error: a.jsonl:3, topic lines: skipped: a record needs a "value", which may be null. With --values each'
        " object or row is a whole value\n"
        'error: a.jsonl:4, topic lines: skipped: expected a JSON object such as {"key": "ann", "value": 3}\n'
        "error: a.jsonl:5, topic lines: skipped: a record does not have 'ky'; it has topic, key, value, timestamp,"
        " headers. With --values each object or row is a whole value\n"
        "error: a.jsonl:6, topic lines: skipped: it is not JSON: Expecting value: line 1 column 1 (char 0)\n"
    )
    found = trial(WORDS, "--input", "b.csv")
    assert (found.status, found.out.count("\n")) == (1, 1)
    assert found.err == (
        "error: b.csv:2, topic lines: skipped: it has 3 cells instead of 2; quote a cell that has a comma\nerror:"
        " b.csv:5, topic lines: skipped: the file cannot be read from here on: unexpected end of data\n"
    )


def test_after_ten_records_that_do_not_fit_the_rest_is_not_read(trial: Try) -> None:
    found = trial(SHOP, given="x\n" * 50)
    assert (found.status, found.out) == (1, "")
    assert found.err.splitlines()[9:] == [
        "error: line:10: skipped: it does not have a topic; the topology reads orders, customers",
        "error: 10 records were skipped, so the rest is not read",
    ]


def test_a_function_that_fails_ends_the_trial_and_is_named_with_its_line(trial: Try) -> None:
    source = """
from streams import StreamsBuilder
def shout(line):
    return line.shout() if line == "b" else line
builder = StreamsBuilder(key_serde="string", value_serde="string")
builder.stream("lines").map_values(shout, name="shout").to("loud")
"""
    found = trial(source, *START, given="a\nb\nc\n")
    assert found.out == '{"topic": "loud", "key": null, "value": "a", "timestamp": "2025-01-01T00:00:00.000Z"}\n'
    assert found.status == 1
    (line,) = found.err.splitlines()
    assert line.startswith("error: line:2: ")
    assert "'str' object has no attribute 'shout'" in line
    assert "app.py:6" in line
    assert "app.py, line 4" in line


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--topic", "order"], "--topic: the topology does not read topic 'order'; it reads orders, customers"),
        (["--input", "a.csv"], "file a.csv does not exist"),
        (
            ["--input", "order=a.csv"],
            "--input order=a.csv: the topology does not read topic 'order'; it reads orders, customers",
        ),
        (["--input", "orders=."], ". cannot be read: Is a directory"),
        (
            ["--generate", "1", "--input", "-"],
            "--generate does not work with --input: remove one of the two",
        ),
        (["--separator", ""], "--separator must not be empty"),
        (["-c", "colour=1"], "colour is not a setting"),
    ],
)
def test_what_cannot_be_run_is_one_line_and_status_2(trial: Try, words: list[str], complaint: str) -> None:
    found = trial(SHOP, *words)
    assert (found.status, found.out) == (2, "")
    assert found.err.startswith(f"error: {complaint}")
    assert found.err.count("\n") == 1


def test_a_missing_serde_is_named_before_anything_is_read(trial: Try) -> None:
    found = trial("from streams import StreamsBuilder\nbuilder = StreamsBuilder()\nbuilder.stream('in').to('out')\n")
    assert (found.status, found.out) == (2, "")
    assert found.err.startswith("error: serdes are missing, and the application has no default ones;")
    assert "app.py:3" in found.err


@pytest.mark.parametrize("words", [["--start", "noon"], ["--advance", "soon"], ["--generate", "0"]])
def test_wrong_options_are_status_2(trial: Try, words: list[str]) -> None:
    found = trial(WORDS, *words)
    assert (found.status, found.out) == (2, "")
    assert found.err.splitlines()[-1].startswith(f"streams try: error: argument {words[0]}: ")


# ---------------------------------------------------------------------- as a process


def test_a_person_types_at_a_terminal(tmp_path: Path) -> None:
    """The table grows with each record; Ctrl-D ends."""
    (tmp_path / "app.py").write_text(WORDS)
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.environ |= {"PYTHONPATH": str(REPOSITORY), "TERM": "xterm", "NO_COLOR": "1"}
        os.execv(sys.executable, [sys.executable, "-m", "streams", "try", "app.py"])
    read_until(terminal, "Ctrl-D ends.\r\n")
    os.write(terminal, b"to be\n")
    first = read_until(terminal, "be        1\r\n")
    os.write(terminal, b"to\n")
    second = read_until(terminal, "to        2\r\n")
    os.write(terminal, b"\x04")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(terminal)
    assert re.sub(r"\d\d:\d\d:\d\d\.\d{3}", "hh:mm:ss.mmm", first) == (
        "to be\r\n"
        "time          topic           key       value\r\n"
        "hh:mm:ss.mmm  counts-by-word  to        1\r\n"
        "hh:mm:ss.mmm  counts-by-word  be        1\r\n"
    )
    assert re.sub(r"\d\d:\d\d:\d\d\.\d{3}", "hh:mm:ss.mmm", second) == (
        "to\r\nhh:mm:ss.mmm  counts-by-word  to        2\r\n"
    )


def read_until(terminal: int, text: str) -> str:
    found, deadline = b"", time.monotonic() + DEADLINE_S
    while text.encode() not in found:
        assert time.monotonic() < deadline, found
        if select.select([terminal], [], [], 1)[0]:
            found += os.read(terminal, 65536)
    return found.decode()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_nothing_left_behind(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "app.py").write_text(WORDS)
    state = tmp_path / "tmp"
    state.mkdir()
    with subprocess.Popen(
        [sys.executable, "-m", "streams", "try", "app.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "TMPDIR": str(state)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"x\n")
        process.stdin.flush()
        assert process.stdout.readline()
        assert list(state.iterdir())
        process.send_signal(number)
        out, err = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, out, err) == (130, b"", b"")
    assert list(state.iterdir()) == []
