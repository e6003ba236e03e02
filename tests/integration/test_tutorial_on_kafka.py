"""The last two pages of the tutorial are followed on a real Kafka: an update without a stop, and a handover."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path

import pytest

from docs_support.blocks import is_offline
from docs_support.copied import LANGUAGES, copy_block, copy_files, is_file, steps
from docs_support.followed import TUTORIAL
from docs_support.reader_on_kafka import DEADLINE_S, ReaderOnKafka
from waiting import wait_until

MAKES_FILES = {
    "$ python lake.py\n": "python lake.py",
    "$ python history.py\n": "python -c 'from history import backfill; backfill(None, \"run\")'",
}
"""Commands whose files later commands need, and what is run: the result is the same without Spark.

`tests/docs/test_tutorials_followed.py` runs both as they are, and compares what they show.
"""


@pytest.mark.slow
def test_a_reader_follows_the_last_pages_of_the_tutorial(kafka_of_module: str, tmp_path: Path) -> None:
    """Each balance that the pages show is read over HTTP: of the old and the new version, and after the handover."""
    (folder := tmp_path / "shop").mkdir()
    *before, production, history = TUTORIAL
    copy_files(folder, before)
    with ReaderOnKafka(folder, tmp_path, kafka_of_module, "shop", runs_on=True) as reader:
        assert follow(reader, production, stops_old=True) == 2
        assert follow(reader, history, stops_old=False) == 1


def follow(reader: ReaderOnKafka, page: Path, *, stops_old: bool) -> int:
    """Does what a page says, and returns how often an application showed what the page shows.

    :param stops_old: whether the first application is stopped when the second one runs.
    """
    compared = 0
    for paragraph, language, text in steps(page):
        if language in LANGUAGES.values() and is_file(paragraph):
            copy_block(reader.folder, paragraph, language, text)
        elif language == "sh":
            for command in text.splitlines():
                assert not is_offline(command)
                reader.give(command)
            if stops_old and len(reader.running) == 2:
                reader.end_first()
        elif text.startswith("$ curl "):
            command, _, expected = text.removeprefix("$ ").partition("\n")
            is_shown = partial(shows, reader, command, expected)
            wait_until(f"{command} shows what the page shows", is_shown, deadline_s=DEADLINE_S)
            compared += 1
        elif command := MAKES_FILES.get(text.partition("\n")[0] + "\n"):
            reader.run(shlex.split(command))
    return compared


def shows(reader: ReaderOnKafka, command: str, expected: str) -> bool:
    return reader.shown(command) == expected
