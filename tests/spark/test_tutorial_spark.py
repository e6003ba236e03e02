"""The backfill of the tutorial's last page runs in the session of the other tests.

`tests/docs/test_tutorials_followed.py` follows the page as a reader does, in processes of their own.
"""

import importlib
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from docs_support.copied import copy_files
from docs_support.followed import TUTORIAL


def test_the_backfill_of_the_tutorial_runs(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy_files(tmp_path, TUTORIAL)
    script = tmp_path / "history.py"
    files = '"{topic}.parquet"'
    assert files in script.read_text()
    script.write_text(script.read_text().replace(files, f'"{tmp_path}/{{topic}}.parquet"'))  # not where the JVM began
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    runpy.run_path("lake.py", run_name="__main__")
    try:
        history = importlib.import_module("history")
        balances = history.backfill(spark, f"{tmp_path}/run").table("balances").collect()
    finally:
        for name in ("history", "lake", "shop"):
            sys.modules.pop(name, None)
    assert {row["key"]: row["value"] for row in balances} == {"ann": -450, "bob": -440, "cid": 0}
    shown = TUTORIAL[-1].read_text()
    assert all(f"|{row['key']}|{row['value']:5}|" in shown for row in balances)
