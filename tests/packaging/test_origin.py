"""A user's own module with the name of one of ours is found and named, not imported."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

TELLTALE = "print('the module of the user ran')\n"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def last_line(result: subprocess.CompletedProcess[str]) -> str:
    return result.stderr.strip().splitlines()[-1]


def sentence(name: str, path: Path) -> str:
    return (
        f"ImportError: streams needs its own package {name!r}, but {path} comes first on the import path: rename it,"
        " because this library uses the names processor_api, state, dsl and streams"
    )


@pytest.mark.parametrize(
    ("file", "name", "shadow"),
    [
        ("state.py", "state", "state.py"),
        ("dsl.py", "dsl", "dsl.py"),
        ("state/__init__.py", "state", "state"),
        ("processor_api/__init__.py", "processor_api", "processor_api"),
    ],
)
def test_a_shadow_is_named_and_not_run(
    python: Path, run: Run, tmp_path: Path, file: str, name: str, shadow: str
) -> None:
    write(tmp_path / file, TELLTALE)
    script = write(tmp_path / "app.py", "import streams\nprint('went on')\n")
    result = run(python, script, cwd=tmp_path)
    assert result.returncode != 0
    assert last_line(result) == sentence(name, tmp_path / shadow)
    assert result.stdout == ""


def test_a_script_that_is_itself_the_shadow_is_told_so(python: Path, run: Run, tmp_path: Path) -> None:
    script = write(tmp_path / "state.py", "import streams\nprint('went on')\n")
    result = run(python, script, cwd=tmp_path)
    assert result.returncode != 0
    assert last_line(result) == sentence("state", script)
    assert result.stdout == ""


def test_a_shadow_that_is_imported_already_is_named(python: Path, run: Run, tmp_path: Path) -> None:
    shadow = write(tmp_path / "state.py", "")
    script = write(tmp_path / "app.py", "import state\nimport streams\n")
    result = run(python, script, cwd=tmp_path)
    assert result.returncode != 0
    assert last_line(result) == sentence("state", shadow)


def test_a_module_made_at_run_time_is_named(python: Path, run: Run, tmp_path: Path) -> None:
    program = "import sys, types; sys.modules['dsl'] = types.ModuleType('dsl'); import streams"
    result = run(python, "-c", program, cwd=tmp_path)
    assert result.returncode != 0
    assert "package 'dsl', but a module without a file (<module 'dsl'>) comes first" in last_line(result)


@pytest.mark.parametrize("earlier", ["", "import state, dsl\n"])
def test_a_plain_folder_is_no_shadow(python: Path, run: Run, tmp_path: Path, earlier: str) -> None:
    """Python prefers our package to a folder without __init__.py, wherever it comes on the path."""
    write(tmp_path / "state" / "rocks.db.py", TELLTALE)
    script = write(tmp_path / "app.py", f"{earlier}import streams, state\nprint(state.__file__)\n")
    result = run(python, script, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert Path(result.stdout.strip()).name == "__init__.py"
    assert not result.stdout.startswith(str(tmp_path))


def test_a_plain_folder_is_named_where_ours_is_missing(run: Run, root: Path, tmp_path: Path) -> None:
    """Without site-packages (-S) Python finds only the copy of `streams`, and the folder."""
    shutil.copytree(root / "streams", tmp_path / "home" / "streams")
    (tmp_path / "state").mkdir()
    program = f"import sys; sys.path.append({str(tmp_path / 'home')!r}); import streams"
    result = run(sys.executable, "-S", "-c", program, cwd=tmp_path)
    assert result.returncode != 0
    assert last_line(result) == sentence("state", tmp_path / "state")


def test_a_second_road_to_the_same_folder_is_no_shadow(python: Path, run: Run, tmp_path: Path) -> None:
    """Symbolic links give one folder two names."""
    link = tmp_path / "link"
    program = (
        "import os, sys, streams, importlib.util\n"
        f"os.symlink(os.path.dirname(streams.__path__[0]), {str(link)!r})\n"
        f"sys.path.insert(0, {str(link)!r}); sys.modules.pop('state', None)\n"
        "from streams.origin import check_origin; check_origin()\n"
        "print(importlib.util.find_spec('state').origin)"
    )
    result = run(python, "-c", program, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == str(link / "state" / "__init__.py")
