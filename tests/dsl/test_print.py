"""Printing the records of a stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dsl import Printed, StreamsBuilder
from processor_api.errors import ConfigError, ProcessingError, TopologyError
from streams.testing.driver import TopologyTestDriver

SETTINGS = {"default.key.serde": "string", "default.value.serde": "string"}


def printed(how: Printed[Any, Any] | None, *pairs: tuple[str | None, str | None]) -> None:
    builder = StreamsBuilder()
    builder.stream("in").print(how)
    with TopologyTestDriver(builder.build(), SETTINGS) as driver:
        driver.create_input_topic("in").pipe_key_values(list(pairs))


def test_records_are_printed_under_the_name_of_the_stream(capsys: pytest.CaptureFixture[str]) -> None:
    printed(None, ("a", "1"), (None, None))
    assert capsys.readouterr().out == "[KSTREAM-SOURCE-0000000000]: a, 1\n[KSTREAM-SOURCE-0000000000]: None, None\n"


def test_a_label_and_a_mapper_say_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    printed(Printed(label="in", mapper=lambda key, value: f"{key}={value}"), ("a", "1"))
    assert capsys.readouterr().out == "[in]: a=1\n"


def test_lines_are_added_to_a_file(tmp_path: Path) -> None:
    """A second run goes on where the first ended."""
    path = tmp_path / "records"
    printed(Printed.to_file(path), ("a", "ä"))
    printed(Printed.to_file(str(path)), ("b", "2"))
    assert path.read_text("utf-8") == "[KSTREAM-SOURCE-0000000000]: a, ä\n[KSTREAM-SOURCE-0000000000]: b, 2\n"


def test_the_node_can_have_a_name() -> None:
    builder = StreamsBuilder()
    builder.stream("in").print(Printed(name="printer"))
    builder.stream("in").print(Printed.to_sys_out())
    described = builder.build().describe()
    assert "Processor: printer (stores: [])" in described
    assert "Processor: KSTREAM-PRINTER-0000000003 (stores: [])" in described


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "no-such-directory"
    with pytest.raises(TopologyError, match=r"cannot be printed to file .*no-such-directory"):
        Printed.to_file(folder / "file")
    folder.mkdir()
    given = Printed.to_file(folder / "file")
    folder.rmdir()
    with pytest.raises(ConfigError, match=r"cannot print to file .*no-such-directory"):
        printed(given, ("a", "1"))


def test_a_mapper_that_fails_fails_the_node() -> None:
    with pytest.raises(ProcessingError, match="TypeError in node 'KSTREAM-PRINTER-0000000001'"):
        printed(Printed(mapper=lambda key, value: key + 1), ("a", "1"))


def test_options_of_the_wrong_kind_are_refused() -> None:
    stream: Any = StreamsBuilder().stream("in")
    with pytest.raises(TopologyError, match=r"expected Printed\(...\), got 'a label'"):
        stream.print("a label")
    with pytest.raises(TopologyError, match="path"):
        Printed(path="")
    with pytest.raises(TopologyError, match="mapper"):
        stream.print(Printed(mapper="text"))  # type: ignore[arg-type]


def test_a_file_to_print_to_is_in_the_directory_of_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each task opens it later: the lines went to wherever the process was by then."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").mkdir()
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("in").print(Printed.to_file("lines"))
    monkeypatch.chdir(tmp_path / "other")
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("in").pipe_input("k", "v")
    assert (tmp_path / "lines").read_text() == "[KSTREAM-SOURCE-0000000000]: k, v\n"
    assert list((tmp_path / "other").iterdir()) == []
