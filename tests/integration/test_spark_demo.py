"""The demo of a handover runs, and its totals are right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools.spark_demo import CUSTOMERS, run_demo


@pytest.mark.slow
def test_the_totals_behind_a_handover_are_those_from_scratch(
    spark: Any, kafka: str, unique_name: Callable[[str], str], tmp_path: Path
) -> None:
    lines: list[str] = []
    topic = unique_name("payments")
    assert run_demo(spark, kafka, tmp_path, lines.append, topic=topic, count=2_000), "\n".join(lines)
    assert lines[-1] == f"\n   all {CUSTOMERS} totals are the same"
    shown = [line.split() for line in lines if line.startswith("   customer-")]
    assert len(shown) == CUSTOMERS
    assert all(one == other for _, one, other in shown)
