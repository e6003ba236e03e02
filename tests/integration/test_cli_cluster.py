"""The commands that work on a cluster, and a real one: topics are made, records written and read, an application is
reset."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from integration_support.workers import Workers
from streams.cli.main import main
from waiting import wait_until

APP = """
from datetime import timedelta
from streams import Materialized, Produced, StreamsBuilder, TimeWindows

settings = {settings!r}
builder = StreamsBuilder(key_serde="string", value_serde="string")
words = builder.stream("{name}-lines").flat_map_values(str.split).group_by(lambda key, word: word)
words.count(materialized=Materialized(name="counts")).to_stream().to("{name}-out", Produced(value_serde="long"))
"""
LINES = ["to be or not to be", "be"]
COUNTS = {"to": 2, "be": 3, "or": 1, "not": 1}


class Commands:
    """Runs commands on an application of its own."""

    def __init__(self, folder: Path, kafka: str, name: str) -> None:
        self.app = folder / "count_words.py"
        settings = {"application.id": name, "bootstrap.servers": kafka, "state.dir": str(folder / "state")}
        self.app.write_text(APP.format(name=name, settings=settings))
        self.folder, self.name = folder, name

    def __call__(self, command: str, *words: str, status: int = 0) -> str:
        """Runs a command in this process, and returns what it printed."""
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            found = main([command, str(self.app), *words])
        assert (found, err.getvalue()) == (status, ""), f"{out.getvalue()}\n{err.getvalue()}"
        return out.getvalue()

    def consumed(self, topic: str) -> dict[str, int]:
        """The last value of each key on a topic."""
        lines = [json.loads(line) for line in self("consume", topic).splitlines()]
        return {line["key"]: line["value"] for line in lines}


@pytest.fixture
def run(tmp_path: Path, kafka: str, workers: Workers) -> Iterator[Commands]:
    path = list(sys.path)
    yield Commands(tmp_path, kafka, workers.application)
    sys.path[:] = path
    sys.modules.pop("count_words", None)


def test_an_application_from_its_topics_to_its_reset(run: Commands, workers: Workers) -> None:
    """Everything that is read was made by the commands themselves; after the reset the same is counted once more."""
    lines, out = f"{run.name}-lines", f"{run.name}-out"
    assert f"problem: input topic '{lines}' does not exist ({run.app}:7)" in run("topics", status=1)
    made = run("topics", "--create", "--partitions", "2").splitlines()
    assert made[:2] == [f"created topic {lines} with 2 partitions", f"created topic {out} with 2 partitions"]
    written = run("produce", lines, *(json.dumps({"key": "k", "value": line}) for line in LINES))
    assert written.startswith(f"2 records written to {lines}: partition ")

    worker = workers.start(str(run.app), settings={"commit.interval.ms": 100}).wait_running()
    wait_until("the words are counted", lambda: run.consumed(out) == COUNTS)
    assert run.consumed("counts") == COUNTS
    group = json.loads(run("groups", "--json"))
    assert (group["state"], group["total_lag"]) == ("stable", 0)
    assert [task for member in group["members"] for task in member["tasks"]] == ["0_0", "0_1", "1_0", "1_1"]
    assert {member["host"] for member in group["members"]} != {""}
    worker.stop()

    before = [json.loads(line) for line in run("consume", out).splitlines()]
    assert run("reset", "--dry-run").endswith("nothing was changed (--dry-run)\n")
    done = run("reset", "--yes")
    assert "set the offsets of 2 partitions" in done
    assert "deleted 4 internal topics" in done
    assert "deleted the state of " in done
    assert json.loads(run("groups", "--json"))["state"] == "empty"

    worker = workers.start(str(run.app), settings={"commit.interval.ms": 100}).wait_running()
    wait_until("the words are counted again", lambda: len(run("consume", out).splitlines()) >= 2 * len(COUNTS))
    wait_until("all of them are", lambda: run.consumed("counts") == COUNTS)
    assert run.consumed(out) == COUNTS
    assert max(json.loads(line)["value"] for line in run("consume", out).splitlines()) == max(COUNTS.values())
    assert len(before) >= len(COUNTS)
    worker.stop()
    assert worker.errors == []


def test_members_of_a_killed_worker_are_removed_by_force(
    run: Commands, workers: Workers, capsys: pytest.CaptureFixture[str]
) -> None:
    """They stay in the group until their session ends, which `reset` does not wait for."""
    worker = workers.start(str(run.app), "--create-topics").wait_running()
    worker.kill()
    assert main(["reset", str(run.app), "--yes"]) == 1
    assert f"nothing was changed: group '{run.name}' has 1 member (" in capsys.readouterr().err
    done = run("reset", "--yes", "--force")
    assert "removed 1 member from the group\n" in done
    assert "\ndone: the next start processes the input again." in done
