"""What the page about backfills shows, works."""

import re
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_examples_run(spark: Any, root: Path) -> None:
    blocks = BLOCK.findall((root / "docs" / "spark-backfill.md").read_text())
    assert blocks
    space: dict[str, Any] = {"__name__": "__main__"}
    for number, block in enumerate(blocks):
        exec(compile(block, f"docs/spark-backfill.md, block {number}", "exec"), space)
