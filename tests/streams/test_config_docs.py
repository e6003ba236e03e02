"""docs/configuration.md says what the configuration does."""

import re

from streams.config import StreamsConfig, clients
from tools.configuration_tables import PATH, TABLES, with_tables


def test_the_tables_are_those_of_the_data() -> None:
    """When this fails, run `python -m tools.configuration_tables`."""
    text = PATH.read_text(encoding="utf-8")
    assert with_tables(text) == text
    assert sorted(re.findall(r"<!-- table: (\w+) -->", text)) == sorted(TABLES)


def test_a_changed_note_is_noticed() -> None:
    text = PATH.read_text(encoding="utf-8")
    stale = text.replace("how long to wait for records", "how long to sleep")
    assert stale != text
    assert with_tables(stale) == text


def test_the_differences_from_java_that_are_told_are_there() -> None:
    made = StreamsConfig(application_id="a", bootstrap_servers="b", processing_guarantee="exactly_once_v2")
    found = clients.producer(made, "p") | clients.main_consumer(made, "c")
    told = dict(
        re.findall(r"^\| `(?:producer|consumer)\.([a-z.]+)`[^|]*\| `?([\w-]+)`? \|", PATH.read_text(), re.MULTILINE)
    )
    assert len(told) >= 4
    assert {name: str(found[name]) for name in told} == told
