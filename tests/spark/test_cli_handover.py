"""`streams spark bootstrap` and `check`: what they refuse before they ask a broker, each with one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streams.cli.main import main

APP = """
from streams import StreamsBuilder


def topology():
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    return builder
"""


@pytest.fixture(name="app")
def app_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "handed_over_app.py").write_text(APP)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    return "handed_over_app:topology"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--run-dir", "none"], "holds no backfill: give the run_dir of one"),
        (["--run-dir", "open"], "has not ended, stage 0 is missing: run it again"),
        (["--run-dir", "open", "--cut", "none.json"], "--cut none.json cannot be read"),
        (["--run-dir", "open", "--cut", "open/run.json"], "is not the text of a cut"),
    ],
    ids=["no backfill", "not ended", "no cut", "damaged cut"],
)
def test_a_bootstrap_that_cannot_begin_says_why(
    options: list[str], why: str, app: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "run.json").write_text(json.dumps({"application_id": "app", "stages": 1}))
    settings = ["--application-id", "app", "--bootstrap-servers", "127.0.0.1:1"]
    assert main(["spark", "bootstrap", app, *options, *settings]) != 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert why in shown.err
    assert "Traceback" not in shown.err


@pytest.mark.parametrize("command", [["check"], ["bootstrap", "--run-dir", "none"]])
def test_the_application_has_to_be_named(command: list[str], app: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spark", *command, app, "--bootstrap-servers", "127.0.0.1:1"]) != 0
    assert "application.id" in capsys.readouterr().err
