"""The progress of a backfill in a notebook: one line in the output of the cell, which changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from streams.spark.notebook import in_notebook

pytest.importorskip("IPython")

SHELL = """
import json, sys
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

config = Config({"HistoryManager": {"enabled": False}})
shell = InteractiveShell.instance(display_pub_class=CapturingDisplayPublisher, config=config)
error = shell.run_cell(sys.stdin.read()).error_in_exec
print(json.dumps([type(error).__name__, shell.display_pub.outputs]))
"""
"""Runs a cell in a shell of IPython that is no terminal's, and prints its error and what it has displayed."""

CELL = """
import tempfile
import pyarrow as pa
from streams import StreamsBuilder
from streams.spark import Backfill, History

def counted():
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("orders").group_by_key().count(materialized="counts")
    return builder

rows = pa.table({"key": ["ann", "ben"], "value": ["tea"] * 2, "timestamp": pa.array([1, 2], pa.timestamp("s", "UTC"))})
history = History(rows, partition=None, offset=None, encoded=False, partitions=3)
with tempfile.TemporaryDirectory() as run_dir:
    Backfill(None, counted, {"orders": history}, application_id="shop", run_dir=run_dir, engine="local[1]").run()
"""


CHANGING = """
import io
from streams.spark.backfill.progress import shown_progress
from waiting import wait_until

done, outputs = 0, get_ipython().display_pub.outputs
with shown_progress("stage <1>", 2, lambda: done, io.StringIO()):
    wait_until("the line is there", lambda: len(outputs) >= 1)
    done = 1
    wait_until("it has changed", lambda: "1 of 2" in outputs[-1]["data"]["text/plain"])
    END
"""


def ipython(arguments: list[str], folder: Path, cell: str = "") -> str:
    """Runs Python with settings of IPython in a folder of the test, and returns what it prints."""
    path = os.pathsep.join(["tests/support", os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, *arguments], input=cell, capture_output=True, text=True, check=False,
        env={**os.environ, "IPYTHONDIR": str(folder), "PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def displayed(cell: str, folder: Path, error: str = "NoneType") -> list[dict[str, Any]]:
    """What a cell has displayed, one after the other."""
    raised, outputs = json.loads(ipython(["-c", SHELL], folder, cell))
    assert raised == error
    found: list[dict[str, Any]] = outputs
    return found


def test_a_backfill_shows_each_stage_in_a_line_of_its_cell(tmp_path: Path) -> None:
    line = displayed(CELL, tmp_path)[-1]["data"]
    assert line["text/plain"] == "stage 0: 3 of 3 tasks"
    assert line["text/html"] == 'stage 0 <progress value="3" max="3"></progress> 3 of 3 tasks'


def test_the_line_is_displayed_once_and_then_changes(tmp_path: Path) -> None:
    first, *later = displayed(CHANGING.replace("END", "pass"), tmp_path)
    assert not first["update"]
    assert all(one["update"] for one in later)
    assert len({one["transient"]["display_id"] for one in (first, *later)}) == 1
    assert later[-1]["data"]["text/html"].startswith("stage &lt;1&gt; <progress")
    assert later[-1]["data"]["text/plain"] == "stage <1>: 2 of 2 tasks"


def test_what_fails_leaves_the_line_as_it_was(tmp_path: Path) -> None:
    found = displayed(CHANGING.replace("END", "1 / 0"), tmp_path, "ZeroDivisionError")
    assert found[-1]["data"]["text/plain"] == "stage <1>: 1 of 2 tasks"


def test_ipython_on_a_terminal_is_no_notebook(tmp_path: Path) -> None:
    """Its output, if not a terminal, is a file: it would have a line for each change."""
    assert not in_notebook()
    say = "from streams.spark.notebook import in_notebook; print(in_notebook(), get_ipython() is not None)"
    options = ["-m", "IPython", "--no-banner", "--no-confirm-exit", "--HistoryManager.enabled=False"]
    assert ipython([*options, "-c", say], tmp_path) == "False True"


def test_ipython_is_not_loaded_where_nobody_has_it() -> None:
    script = """if True:
        import io, sys
        from streams.spark.backfill.progress import shown_progress
        with shown_progress("stage 0", 2, lambda: 1, io.StringIO()):
            pass
        print("IPython" in sys.modules)
    """
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
