"""examples/06_testing: its own tests, run as a user runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_the_example_s_tests_pass(root: Path) -> None:
    """With the plugin alone, which an installed distribution brings along by itself."""
    folder = root / "examples" / "06_testing"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "streams_pytest", "-p", "no:cacheprovider", "-c", os.devnull]
    environment = {
        **os.environ, "PYTHONPATH": str(root), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    found = subprocess.run(
        [*command, f"--rootdir={folder}", "-W", "error", str(folder)],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout + found.stderr
    assert "4 passed" in found.stdout
