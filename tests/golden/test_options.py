"""The golden tests on recordings and topologies from elsewhere, as from the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from golden_support.recordings import read_json
from golden_support.session import GOLDEN, golden

MODULE = """
from golden_support.session import GOLDEN
from golden_support.topologies import load_module

papi = load_module(str(GOLDEN / "topologies" / "processor_api.py"))
TOPOLOGIES = {"mine": papi.describe_papi, "wrong": papi.papi_shared_store}
"""


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the tests say of three recordings elsewhere: one that fits, one that does not, one without a topology."""
    directory = tmp_path_factory.mktemp("elsewhere")
    recorded = read_json(GOLDEN / "recordings" / "topologies" / "describe-papi.json.gz")
    for name in ("mine", "wrong", "nowhere"):
        path = directory / "deep" / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(recorded | {"case": name}))
    module = directory / "my_topologies.py"
    module.write_text(MODULE)
    tests = ["tests/golden/test_topologies.py", "tests/golden/test_stores.py"]
    options = ["--golden-dir", str(directory), "--golden-topologies", str(module), "-p", "no:cacheprovider", "-v"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *tests, *options],
        cwd=GOLDEN.parents[1], capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def test_recordings_elsewhere_are_replayed_on_further_topologies(output: str) -> None:
    """Nested files are found; the module's topologies are used."""
    assert "test_topology[mine] PASSED" in output
    assert "test_topology[wrong] FAILED" in output
    assert "report = '/describe:" in output


def test_names_without_a_topology_are_listed_elsewhere(output: str) -> None:
    """They do not fail there, and the project's own recordings are left aside."""
    assert "1 cases have no topology in tests/golden/topologies: nowhere" in output
    assert "1 failed" in output
    assert "describe-papi" not in output


@pytest.mark.parametrize(("given", "said"), [("missing", "there is no directory"), ("empty", "holds no recordings")])
def test_a_directory_without_recordings_is_refused(tmp_path: Path, given: str, said: str) -> None:
    """Rather than found to be fine."""
    (tmp_path / "empty").mkdir()
    options = {"golden_dir": str(tmp_path / given)}
    config: Any = SimpleNamespace(stash=pytest.Stash(), getoption=lambda name, default: options.get(name, default))
    with pytest.raises(pytest.UsageError, match=said):
        golden(config)
