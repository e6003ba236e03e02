"""The wheel with its own dependencies, in an environment that has nothing else."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.slow
def test_the_wheel_brings_what_it_needs(distributions: Any, root: Path, run: Run, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python)]
    install = [*pip, "install", "-q", "-c", str(root / "constraints.txt"), str(distributions.wheel)]
    subprocess.run(install, check=True)
    subprocess.run([*pip, "check"], check=True)
    modules = (
        "streams, dsl, processor_api, state, confluent_kafka, mmh3, pydantic, rocksdict, sortedcontainers, structlog"
    )
    result = run(python, "-c", f"import {modules}", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
