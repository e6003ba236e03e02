"""The first wrong record is one line: what is wrong, the user's line, what to do, topic, partition, offset and node."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from first_hour_support import DERIVED, Said, environment, left_behind, python
from terminal_output import run_on_terminal

SCRIPT = """{imports}
from streams import StreamsBuilder, run
from streams.testing import EmbeddedKafka
{code}
if __name__ == "__main__":
    with EmbeddedKafka() as kafka:
        kafka.create_topics("in", "out")
        kafka.create_input_topic("in", key_serde="string", value_serde="bytes").pipe_input("ann", {value!r})
        run(builder, {{"bootstrap.servers": "embedded:9092"{settings}}}, clients=kafka.clients)
"""
STRINGS = 'builder = StreamsBuilder(key_serde="string", value_serde="string")\n'
AT_ERROR = re.compile(r'\[error *\]|"level": "error"')
PLACE = "[topic='in', partition=0, offset=0, task='0_0', node='{node}'{key}], made at app.py:{line} by {by}\n"
SOURCE, MAPPER = "KSTREAM-SOURCE-0000000000", "KSTREAM-{kind}-0000000001"
READ_HINT = (
    "; check the serde of source 'KSTREAM-SOURCE-0000000000', stream(in, value_serde=...), or set"
    " deserialization.exception.handler to LogAndContinueExceptionHandler to drop such records "
)
PROCESS_HINT = "; correct it, or set processing.exception.handler to LogAndContinueProcessingExceptionHandler"
PROCESS_HINT += " to drop such records "


def end(node: str, line: int, by: str, key: str = "") -> str:
    return PLACE.format(node=node, line=line, by=by, key=key)


CASES = {
    "no JSON": (
        "",
        'builder = StreamsBuilder(key_serde="string", value_serde="json")\nbuilder.stream("in").to("out")\n',
        b"{x",
        "error: the value cannot be read: DecodeError: {json}" + READ_HINT + end(SOURCE, 5, "stream(in)"),
    ),
    "no such model": (
        "from pydantic import BaseModel",
        "class Order(BaseModel):\n    cents: int\n    name: str\n"
        'builder = StreamsBuilder(key_serde="string", value_serde=Order)\nbuilder.stream("in").to("out")\n',
        b'{"cents": "many"}',
        "error: the value cannot be read: ValidationError: no valid Order: cents: Input should be a valid integer,"
        " unable"
        " to parse string as an integer, got 'many'; name: Field required" + READ_HINT + end(SOURCE, 8, "stream(in)"),
    ),
    "function that raises": (
        "",
        "def fourth(line):\n    return line.split()[3]\n\ndef loud(line):\n    return fourth(line).upper()\n\n"
        + STRINGS
        + 'builder.stream("in").map_values(loud).to("out")\n',
        b"a b",
        "error: IndexError in node 'KSTREAM-MAPVALUES-0000000001': list index out of range, raised at app.py:5 in"
        " fourth,"
        " called by loud at app.py:7"
        + PROCESS_HINT
        + end("KSTREAM-MAPVALUES-0000000001", 11, "map_values(loud)", ", key='ann'")
        + '  File "{app}", line 8, in loud\n'
        "    return fourth(line).upper()\n"
        "           ^^^^^^^^^^^^\n"
        '  File "{app}", line 5, in fourth\n'
        "    return line.split()[3]\n"
        "           ~~~~~~~~~~~~^^^\n",
    ),
    "lambda that returns nothing": (
        "",
        STRINGS + 'builder.stream("in").flat_map_values(lambda line: print(end="")).to("out")\n',
        b"a b",
        "error: TypeError in node 'KSTREAM-FLATMAPVALUES-0000000001': the lambda at app.py:5 must"
        " return an iterable of values, such as a list, but returned None"
        + PROCESS_HINT
        + end("KSTREAM-FLATMAPVALUES-0000000001", 5, "flat_map_values(lambda)", ", key='ann'"),
    ),
    "value that is not of the serde": (
        "",
        STRINGS + 'builder.stream("in").map_values(len).to("out")\n',
        b"a b",
        "error: the value cannot be written to topic 'out': TypeError: string: expected a str, got int; for such a"
        " value give to(out, value_serde=...), or set production.exception.handler to your handler that returns"
        " Response.resume() to drop such records "
        + end("KSTREAM-SINK-0000000002", 5, "to(out)", ", key='ann'"),
    ),
}  # fmt: skip


def ran(folder: Path, name: str, settings: str = "") -> tuple[Said, str]:
    imports, code, value, wanted = CASES[name]
    script = folder / "app.py"
    script.write_text(SCRIPT.format(imports=imports, code=code, value=value, settings=settings))
    return python(folder, "app.py"), wanted


def reason_of_json() -> str:
    """The words of the JSON library that is installed."""
    from streams import Serdes

    with pytest.raises(ValueError) as caught:  # noqa: PT011
        Serdes.JSON.deserialize(b"{x")
    return str(caught.value)


WARNED = {
    "lambda that returns nothing": [
        "warning streams.topology: the mapper, the lambda at app.py:5, returns the result of print(), which is always"
        " None, so each value becomes null: return the new value, made at app.py:5 [warning=returns-none,"
        " node=KSTREAM-FLATMAPVALUES-0000000001, made_at=app.py:5]"
    ]
}
"""What is said when the topology is built."""


@pytest.mark.parametrize("name", CASES)
def test_the_first_wrong_record_is_one_line(tmp_path: Path, name: str) -> None:
    found, wanted = ran(tmp_path, name)
    wanted = wanted.replace("{json}", reason_of_json()).replace("{app}", str(tmp_path / "app.py"))
    assert found.err == wanted
    assert (found.status, found.out) == (1, "")
    text, _, lines = wanted.removeprefix("error: ").partition("\n")
    raised = re.search(r"line (\d+), in \w+\n[^\n]*\n[^\n]*\n$", lines)
    at = f", raised_at=app.py, line {raised[1]}" if raised else ""
    assert found.events == [
        DERIVED,
        *WARNED.get(name, ()),
        "info streams.client: state [state=REBALANCING, before=CREATED]",
        "info streams.tasks: assignment [owned=0_0, new=0_0, lost=False]",
        "info streams.client: state [state=RUNNING, before=REBALANCING]",
        "info streams.client: running: 1 task on 1 thread; results show at once, commits are every 1 s"
        " (commit.interval.ms)",
        f"error streams.thread: thread dies [error={text}{at}]",
        "info streams.client: state [state=PENDING_ERROR, before=RUNNING]",
        "info streams.client: state [state=ERROR, before=PENDING_ERROR]",
    ]


def test_on_a_terminal_it_is_said_once(tmp_path: Path) -> None:
    """The log has the line of the thread, and leaves the error to the last line; it had all of it as well."""
    name = "function that raises"
    imports, code, value, wanted = CASES[name]
    (tmp_path / "app.py").write_text(SCRIPT.format(imports=imports, code=code, value=value, settings=""))
    status, found = run_on_terminal([sys.executable, "app.py"], tmp_path, environment(tmp_path, NO_COLOR="1"))
    assert status == 1
    assert found.endswith(wanted.replace("{app}", str(tmp_path / "app.py")))
    assert found.count("list index out of range") == 1
    (line,) = [line for line in found.splitlines() if AT_ERROR.search(line)]
    assert re.fullmatch(
        r"\S+ \[error    \] thread dies \[streams\.thread\] application=app"
        r" error='ProcessingError, printed in full at the end' task=0_0 thread=StreamThread-1",
        line,
    ), line


def test_such_records_are_dropped_by_the_setting_that_the_error_names(tmp_path: Path) -> None:
    for name, handler in (
        ("no JSON", "deserialization.exception.handler=LogAndContinueExceptionHandler"),
        ("function that raises", "processing.exception.handler=LogAndContinueProcessingExceptionHandler"),
    ):
        setting, _, value = handler.partition("=")
        imports, code, record, _ = CASES[name]
        stop = "import os, signal, logging\nclass Stop(logging.Handler):\n    def emit(self, record):\n"
        stop += "        if 'record dropped' in record.getMessage(): os.kill(os.getpid(), signal.SIGINT)\n"
        stop += "logging.getLogger('streams.errors').addHandler(Stop())\n"
        script = SCRIPT.format(imports=imports, code=stop + code, value=record, settings=f", {setting!r}: {value!r}")
        (tmp_path / "app.py").write_text(script)
        found = python(tmp_path, "app.py")
        assert (found.status, found.err) == (0, ""), found
        assert any("record dropped" in line for line in found.log)


def test_debug_shows_the_frames_of_this_library_too(tmp_path: Path) -> None:
    _, code, value, _ = CASES["function that raises"]
    script = SCRIPT.format(imports="", code=code, value=value, settings="").replace(
        "clients=kafka.clients", 'clients=kafka.clients, log_level="debug"'
    )
    (tmp_path / "app.py").write_text(script)
    found = python(tmp_path, "app.py")
    assert found.status == 1
    [trace] = [one["exception"] for line in found.log if (one := json.loads(line))["event"] == "ended by an error"]
    assert "Traceback (most recent call last):\n" in trace
    assert "dsl/processors/stateless.py" in trace
    assert "The above exception was the direct cause of the following exception:" in trace


def test_nothing_is_left_behind_but_the_state_of_its_tasks(tmp_path: Path) -> None:
    ran(tmp_path, "no JSON")
    assert left_behind(tmp_path) == ["state/app"]
