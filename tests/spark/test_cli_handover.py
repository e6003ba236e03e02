"""`streams spark bootstrap` and `check`: what they refuse before they ask a broker, each with one line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
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
    monkeypatch.delitem(sys.modules, "handed_over_app", raising=False)
    monkeypatch.chdir(tmp_path)
    return "handed_over_app:topology"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--run-dir", "none"], "holds no backfill: give the run_dir of one"),
        (["--run-dir", "open"], "has not ended, stage 0 is missing: run it again"),
        (["--run-dir", "open", "--cut", "none.json"], "--cut none.json cannot be read"),
        (["--run-dir", "open", "--cut", "damaged.json"], "is not the text of a cut"),
    ],
    ids=["no backfill", "not ended", "no cut", "damaged cut"],
)
def test_a_bootstrap_that_cannot_begin_says_why(
    options: list[str], why: str, app: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "run.json").write_text(json.dumps({"version": 2, "application_id": "app", "stages": 1}))
    (tmp_path / "damaged.json").write_text(json.dumps({"stages": 1}))
    settings = ["--application-id", "app", "--bootstrap-servers", "127.0.0.1:1"]
    assert main(["spark", "bootstrap", app, *options, *settings]) != 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert why in shown.err
    assert "Traceback" not in shown.err


BOOTSTRAP = ["spark", "bootstrap", "handed_over_app.py", "--run-dir", "run", "--bootstrap-servers", "127.0.0.1:1"]


@pytest.fixture(name="run_of")
def run_of_fixture(app: str, tmp_path: Path) -> Callable[[str], None]:
    """Makes the directory of a backfill that has not ended, for an application."""

    def make(application_id: str) -> None:
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "run.json").write_text(
            json.dumps({"version": 2, "application_id": application_id, "stages": 1})
        )

    return make


def test_the_name_of_the_file_is_the_id_as_it_is_for_a_worker(
    run_of: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    run_of("handed_over_app")
    assert main(BOOTSTRAP) != 0
    assert "has not ended, stage 0 is missing" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["bootstrap"], ["diff", "--table", "counts"], ["publish", "--table", "counts"]])
def test_a_backfill_for_another_application_needs_the_id(
    command: list[str], run_of: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """The state would go to topics of an application that nobody named."""
    run_of("shop")
    words = ["spark", *command, "handed_over_app.py", "--run-dir", "run", "--bootstrap-servers", "127.0.0.1:1"]
    assert main(words) != 0
    found = capsys.readouterr().err
    assert "ran for application 'shop', but no application id is given, so it would be 'handed_over_app'" in found
    assert "--application-id" in found


@pytest.mark.parametrize("where", ["option", "settings", "file", "variable"])
def test_an_id_that_is_given_may_be_another_one_than_that_of_the_backfill(
    where: str,
    run_of: Callable[[str], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_of("shop")
    if where == "settings":
        (tmp_path / "handed_over_app.py").write_text(APP + '\nsettings = {"application.id": "shop-v2"}\n')
    elif where == "file":
        (tmp_path / "streams.toml").write_text('application_id = "shop-v2"\n')
    elif where == "variable":
        monkeypatch.setenv("STREAMS_APPLICATION_ID", "shop-v2")
    options = ["--application-id", "shop-v2"] if where == "option" else []
    assert main([*BOOTSTRAP, *options]) != 0
    assert "has not ended, stage 0 is missing" in capsys.readouterr().err
