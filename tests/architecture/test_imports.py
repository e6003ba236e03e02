"""The import contracts of pyproject.toml: that they hold, and that each one notices what it is there for."""

import graphlib
import shutil
import subprocess
import sys
from collections.abc import Mapping, Set
from pathlib import Path

import grimp
import pytest

PACKAGES = ("processor_api", "state", "dsl", "streams")
ROOMS = (
    *("state/registry", "state/windowed", "state/versioned", "state/write_buffer", "dsl/plan", "dsl/compiler"),
    *("streams/runtime", "streams/runtime/threads", "streams/runtime/tasks", "streams/kafka", "streams/spark"),
)


def find_cycle(imports: Mapping[str, Set[str]]) -> list[str]:
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
    return subprocess.run([*command, "--no-cache", "--no-logo"], cwd=folder, capture_output=True, text=True)


def test_no_module_imports_itself_by_a_detour() -> None:
    """Counts every import, also one inside a function or under TYPE_CHECKING."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    assert find_cycle({name: graph.find_modules_directly_imported_by(name) for name in graph.modules}) == []


def test_a_cycle_is_found() -> None:
    assert find_cycle({"a": {"b"}, "b": {"c"}}) == []
    assert set(find_cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == {"a", "b", "c"}


def test_the_contracts_hold(root: Path) -> None:
    result = lint(root)
    assert result.returncode == 0, result.stdout


@pytest.fixture
def house(root: Path, tmp_path: Path) -> Path:
    """A small house under the same contracts, in which each import is allowed."""
    shutil.copy(root / "pyproject.toml", tmp_path)
    for package in (*PACKAGES, *ROOMS):
        (tmp_path / package).mkdir(parents=True)
        (tmp_path / package / "__init__.py").touch()
    (tmp_path / "streams" / "__init__.py").write_text("from dsl import plan\nfrom streams import runtime\n")
    (tmp_path / "streams" / "runtime" / "tasks" / "task.py").write_text("import streams.kafka\nimport state\n")
    (tmp_path / "streams" / "spark" / "replay.py").write_text("import dsl\n")
    windowed = tmp_path / "state" / "windowed"
    (windowed / "window.py").write_text("import processor_api\nimport state.windowed.key_layout\n")
    (windowed / "key_layout.py").write_text("import state.write_buffer\n")
    (tmp_path / "dsl" / "plan" / "nodes.py").write_text("import state.windowed.window\n")
    return tmp_path


def test_a_house_in_order_passes(house: Path) -> None:
    result = lint(house)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("path", "source", "contract"),
    [
        (
            "processor_api/record.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import state\n",
            "The house",
        ),
        ("state/windowed/session.py", "def f():\n    import dsl\n", "The house"),
        ("streams/kafka/ports.py", "import streams.runtime.tasks.task\n", "Rooms of streams"),
        ("streams/attic.py", "", "Rooms of streams"),
        ("state/windowed/session.py", "import state.versioned\n", "Rooms of state"),
        ("state/write_buffer/rows.py", "import state.windowed.window\n", "Rooms of state"),
        ("state/attic.py", "", "Rooms of state"),
        ("streams/runtime/tasks/loop.py", "import streams.runtime.threads\n", "Rooms of the runtime"),
        ("dsl/plan/calls.py", "import dsl.compiler\n", "Rooms of the DSL"),
        ("streams/runtime/threads/loop.py", "import dsl.plan.nodes\n", "Only the facade"),
        ("streams/runtime/threads/loop.py", "from streams import StreamsBuilder\n", "Nothing below imports the facade"),
        ("state/windowed/key_layout.py", "import state.windowed.window\n", "No cycles"),
    ],
)
def test_a_contract_notices(house: Path, path: str, source: str, contract: str) -> None:
    (house / path).write_text(source)
    result = lint(house)
    broken = [line for line in result.stdout.splitlines() if line.endswith(" BROKEN")]
    assert result.returncode == 1
    assert any(line.startswith(contract) for line in broken), result.stdout
