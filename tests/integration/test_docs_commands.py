"""The commands of the pages that need Kafka run as they are written, in the folder where a reader is.

`test_tutorial_on_kafka.py` gives those of the tutorial, page after page.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from docs_support.blocks import PAGES, QUICK_START, ROOT, blocks, commands, is_offline
from docs_support.folders import prepare
from docs_support.followed import TUTORIAL
from docs_support.reader_on_kafka import ReaderOnKafka
from integration_support.topics import Topics

PARTITIONS = 2
TOPIC = re.compile(r"Source: .*\(topics: \[(.*)\]\)|Sink: .*\(topic: (.*)\)")
WITH_KAFKA = [
    page
    for page in PAGES
    if page not in TUTORIAL
    and any(not block.reason and not all(map(is_offline, commands(block))) for block in blocks(page, "sh"))
]


def topics_of(reader: ReaderOnKafka) -> set[str]:
    """The topics that the scripts in the reader's folder read and write; not those that the application makes."""
    found: set[str] = set()
    for script in sorted(reader.folder.glob("*.py")):
        if "builder" in script.read_text() or "def topology" in script.read_text():
            words = [sys.executable, "-m", "streams", "describe", script.name]
            done = subprocess.run(words, cwd=reader.folder, env=reader.environment, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            for sources, sink in TOPIC.findall(done.stdout):
                found |= set(re.split(r", ", sources or sink))
    return {name for name in found if not name.endswith("-repartition") and "extractor" not in name}


WITH_KAFKA.sort(key=lambda page: page != ROOT / "examples" / "README.md")  # it makes topics itself
SLOW = [pytest.param(page, marks=() if page == QUICK_START else pytest.mark.slow) for page in WITH_KAFKA]


@pytest.mark.parametrize("page", SLOW, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_run(page: Path, kafka_of_module: str, tmp_path: Path, unique_name: Callable[[str], str]) -> None:
    topics = Topics(kafka_of_module, unique_name)
    folder, name = prepare(page, tmp_path), unique_name("docs")
    with ReaderOnKafka(folder, tmp_path, kafka_of_module, name, runs_on=page == QUICK_START) as reader:
        for name in sorted(topics_of(reader) - topics.names()):
            topics.create_named(name, PARTITIONS)
        for block in blocks(page, "sh"):
            for command in commands(block) if not block.reason else ():
                if not is_offline(command) or command.startswith("export "):
                    reader.give(command)
