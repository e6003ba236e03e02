"""The wheel with its own dependencies, in an environment that has nothing else."""

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from docs_support.blocks import QUICK_START, ROOT, blocks, commands, is_offline
from docs_support.folders import prepare
from last_lines import as_text

Run = Callable[..., subprocess.CompletedProcess[str]]

TRIAL = """
from app import builder
from streams import Serdes, TopologyTestDriver, json_serde

with TopologyTestDriver(builder) as driver:
    driver.create_input_topic("lines").pipe_input(None, "to be or not to be")
    assert driver.create_output_topic("counts-by-word").read_key_values_to_map()["be"] == 2
assert json_serde().deserialize(json_serde().serialize({"a": [1, None]})) == {"a": [1, None]}
"""


@pytest.fixture(name="fresh", scope="module")
def fresh_fixture(distributions: Any, root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands of an environment with the wheel, and only what that brings along."""
    folder = tmp_path_factory.mktemp("fresh")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
    install = [*pip, "install", "-q", "-c", str(root / "constraints.txt"), str(distributions.wheel)]
    subprocess.run(install, check=True)
    subprocess.run([*pip, "check"], check=True)
    return folder / "bin"


@pytest.mark.slow
def test_the_wheel_brings_what_it_needs(fresh: Path, run: Run, tmp_path: Path) -> None:
    modules = (
        "streams, dsl, processor_api, state, confluent_kafka, mmh3, pydantic, rocksdict, sortedcontainers, structlog"
    )
    result = run(fresh / "python", "-c", f"import {modules}", cwd=tmp_path)
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
def test_it_is_not_larger_than_the_page_says(fresh: Path) -> None:
    """Compiled files included."""
    packages = next(fresh.parent.glob("lib/python*/site-packages"))
    total = sum(path.stat().st_size for path in packages.rglob("*") if path.is_file())
    told = re.search(r"`streams-for-kafka` \| (\d+) MB, (\d+) packages", (ROOT / "docs" / "install.md").read_text())
    assert told is not None
    assert total < 1.2e6 * int(told[1])
    assert len(list(packages.glob("*.dist-info"))) == int(told[2])


@pytest.mark.slow
def test_the_quickstart_runs_without_any_extra(fresh: Path, run: Run, tmp_path: Path) -> None:
    """The script of the page, its commands that need no Kafka, and a doctor who says that there is none."""
    folder = prepare(QUICK_START, tmp_path)
    given = [command for block in blocks(QUICK_START, "sh") if not block.reason for command in commands(block)]
    offline = [command for command in given if is_offline(command)]
    assert len(offline) >= 2
    for command in (*offline, "streams --help", "streams demo", "streams completion bash"):
        words = shlex.split(command)
        result = run(fresh / words[0], *words[1:], cwd=folder)
        assert result.returncode == 0, command + result.stderr
    (folder / "trial.py").write_text(TRIAL)
    result = run(fresh / "python", "trial.py", cwd=folder)
    assert result.returncode == 0, result.stderr
    result = run(fresh / "streams", "doctor", "app.py", "-c", "bootstrap.servers=127.0.0.1:1", cwd=folder)
    assert result.returncode == 1, result.stderr
    assert "127.0.0.1:1 cannot be reached" in result.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "extra"),
    [
        ("state export counts --topology app.py --to-file counts.parquet", "parquet"),
        ("spark backfill app.py --history lines=/none --partitions lines=1 --run-dir run", "spark"),
        ("spark export app.py --run-dir run --table counts --to there", "spark"),
        ("spark bootstrap app.py --run-dir run", "spark"),
    ],
)
def test_a_missing_extra_is_named_with_its_command(
    fresh: Path, run: Run, tmp_path: Path, words: str, extra: str
) -> None:
    """One line, and no traceback."""
    folder = prepare(QUICK_START, tmp_path)
    (tmp_path / "state").mkdir()
    command = [*words.split(), "--application-id", "app", "-c", f"state.dir={tmp_path / 'state'}"]
    result = run(fresh / "streams", *command, cwd=folder)
    assert result.returncode == 2, result.stdout + result.stderr
    assert f"pip install 'streams-for-kafka[{extra}]'" in result.stderr
    assert as_text(result.stderr).startswith("error: ")
    assert result.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_demo_in_a_browser_names_its_extra(fresh: Path, run: Run, tmp_path: Path) -> None:
    result = run(fresh / "streams", "demo", "--http", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "error: http.listen needs aiohttp: pip install 'streams-for-kafka[http]'\n"
