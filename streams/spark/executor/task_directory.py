"""The directory for what a task keeps on its executor while it runs."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def local_directory() -> Path:
    """Returns the directory for a task's stores: Spark's own, which it cleans after executors that were killed."""
    local = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    return Path(local or tempfile.gettempdir())
