"""Each block of code on the pages is run, read or checked, or says why not; each command that needs no Kafka runs here.

`tests/integration/test_docs_commands.py` runs the others.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from docs_support.blocks import PAGES, ROOT, SPARK, Block, blocks, commands, is_offline, redirected
from docs_support.folders import prepare

CHECKED = ("python", "sh", "toml", "json", "text", "console", "csv")
"""Languages whose blocks are handled, `console` and `csv` in `test_consoles.py`; a `text` is output, or a drawing."""
OTHERS = {"yaml": "deployment.md", "dockerfile": "deployment.md", "ini": "deployment.md", "java": "porting-tests.md"}
"""Languages whose blocks a test of their page handles."""
WORDS = re.compile(r"^ {4,}(streams|python|pip|make|pytest|export|docker|curl|sudo) ", re.MULTILINE)
SHELL = [block for page in PAGES for block in blocks(page, "sh")]
OFFLINE = [block for block in SHELL if not block.reason and any(map(is_offline, commands(block)))]


def test_each_block_is_of_a_language_that_is_checked() -> None:
    for block in (block for page in PAGES for block in blocks(page)):
        assert block.language in CHECKED or OTHERS.get(block.language) == block.page.name, block.name


def test_commands_are_in_blocks_that_say_so() -> None:
    """Not in lines that are only indented, which no test would find."""
    for page in PAGES:
        if page not in SPARK:
            text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
            assert WORDS.findall(text) == [], page


def test_few_commands_are_not_run_and_each_says_why() -> None:
    given = [(block, command) for block in SHELL for command in commands(block)]
    marked = {block.reason for block, _ in given if block.reason}
    assert all(len(reason.split()) > 3 for reason in marked)
    run = [command for block, command in given if not block.reason]
    assert len(run) >= 35
    assert len(given) - len(run) <= 65


@pytest.mark.parametrize("block", [block for page in PAGES for block in blocks(page, "json")], ids=lambda one: one.name)
def test_json_can_be_read(block: Block) -> None:
    for line in block.text.splitlines():
        json.loads(line)


@pytest.mark.parametrize("block", OFFLINE, ids=lambda block: block.name)
def test_commands_that_need_no_kafka_run(block: Block, tmp_path: Path) -> None:
    """As they are written, in the folder where a reader is, by the commands of this environment."""
    folder = prepare(block.page, tmp_path)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    environment["STREAMS_BOOTSTRAP_SERVERS"] = "localhost:9092"
    for command in commands(block):
        words = shlex.split(command)
        if words[0] == "export":
            name, _, value = words[1].partition("=")
            environment[name] = value
        elif is_offline(command):
            words, file = redirected(words)
            done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
            if file is not None:
                (folder / file).write_text(done.stdout)


def test_benchmarks_that_are_named_exist() -> None:
    page = (ROOT / "docs" / "performance.md").read_text()
    named = re.findall(r"\bpython -m benchmarks\s+(\w+)", page)
    assert len(named) > 5
    assert [name for name in named if not (ROOT / "benchmarks" / f"bench_{name}.py").exists()] == []


def test_each_benchmark_finds_what_it_imports() -> None:
    """One took a class from another one, which moved. They run for minutes, so nothing else here would tell."""
    names = sorted(path.stem for path in (ROOT / "benchmarks").glob("bench_*.py"))
    lines = "\n".join(f"import benchmarks.{name}" for name in names)
    done = subprocess.run([sys.executable, "-c", lines], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]


def test_a_command_goes_on_while_a_quotation_is_open() -> None:
    text = "streams state list  # all\n# nothing\npython -c 'print(1)\nprint(2)'\n"
    assert commands(Block(ROOT, 0, "sh", text, "")) == ["streams state list  # all", "python -c 'print(1)\nprint(2)'"]
