"""Draws the pictures of the documentation: `python -m tools.timelines [FOLDER]`."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.timelines.pictures import FOLDER, pictures

if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name, drawn in pictures().items():
        (folder / f"{name}.svg").write_text(drawn, encoding="utf-8", newline="\n")
        print(folder / f"{name}.svg")
