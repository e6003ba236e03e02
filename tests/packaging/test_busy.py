"""The command for busy machines."""

from __future__ import annotations

import sys

import pytest

from tools import busy


def test_each_run_is_told_of_and_failures_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """A run that fails does not end the others."""
    assert busy.main(["2", sys.executable, "-c", "raise SystemExit(3)"]) == 2
    assert busy.main(["1", sys.executable, "-c", ""]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "run 1 of 2, all cores busy: ended with 3",
        "run 2 of 2, all cores busy: ended with 3",
        "run 1 of 1, all cores busy: ended with 0",
    ]
