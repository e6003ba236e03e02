"""The files of the tutorial about PySpark run one after the other, in the session of the other tests.

`tests/docs/test_tutorials_followed.py` follows the page as a reader does, in processes of their own.
"""

import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

FILE = re.compile(r"`(\w+\.py)`:\n\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_tutorial_runs(
    spark: Any, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (root / "docs" / "tutorial-pyspark.md").read_text()
    files = FILE.findall(page)
    assert [name for name, _ in files] == ["app.py", "make_lake.py", "history.py"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name, text in files:
        (tmp_path / name).write_text(
            text.replace('"lake"', repr(str(tmp_path / "lake")))
        )  # the JVM stays where it began
    try:
        for name in ("make_lake.py", "history.py"):
            runpy.run_path(name, run_name="__main__")
    finally:
        sys.modules.pop("app", None)
    shown = capsys.readouterr().out.strip()
    assert shown.startswith("90 orders")
    assert [line for line in shown.splitlines() if "customer-" in line and line not in page] == []
