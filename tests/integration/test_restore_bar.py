"""How a restore is shown: a bar on a terminal, lines in a log."""

from __future__ import annotations

import re
import shutil

import pytest

from integration_support.counting import PARTITIONS, WORDS, Counting
from integration_support.topics import Topics
from integration_support.workers import Workers
from waiting import wait_until

STYLE = re.compile(r"\x1b\[[0-9;]*m")
BAR = re.compile(r"restoring (\d+) changelogs ━+ +(\d+)% ([\d,]+) of ([\d,]+) records")


@pytest.mark.slow
def test_a_restore_is_a_bar_on_a_terminal_and_lines_elsewhere(topics: Topics, workers: Workers) -> None:
    """The bar ends with all that the changelogs hold; without a terminal nothing is drawn."""
    counting = Counting(topics, workers, "at_least_once")
    counting.send()
    with topics.reader(counting.output) as reader:
        worker = counting.start()
        counting.read_round(reader)
        worker.stop()

        shutil.rmtree(workers.state_dir)
        logged = counting.start().wait_running()
        logged.stop()
        assert sum(event["records"] for event in logged.events("restored")) == WORDS
        assert not BAR.search(logged.text)

        shutil.rmtree(workers.state_dir)
        shown = counting.start(terminal=True)
        wait_until("the bar is drawn to its end", lambda: BAR.search(STYLE.sub("", shown.text)))
        counting.send()
        counting.read_round(reader)
        shown.stop()
    number, percent, done, total = BAR.findall(STYLE.sub("", shown.text))[-1]
    assert (int(number), percent, done) == (PARTITIONS, "100", total)
    assert int(total.replace(",", "")) >= WORDS
