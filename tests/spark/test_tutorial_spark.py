"""The tutorial about PySpark works, block by block."""

import re
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_tutorial_runs(spark: Any, root: Path) -> None:
    blocks = BLOCK.findall((root / "docs" / "tutorial-pyspark.md").read_text())
    assert len(blocks) == 3
    space: dict[str, Any] = {"__name__": "__main__"}
    for number, block in enumerate(blocks):
        exec(compile(block, f"docs/tutorial-pyspark.md, block {number}", "exec"), space)
