"""Builds the site: `python -m tools.site [FOLDER]`, by default `build/site`. Any warning and any broken link fails."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tools.site.build import build
from tools.site.navigation import ROOT

if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "site"
    began = time.monotonic()
    problems = build(folder)
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        sys.exit(f"{len(problems)} problems: the site is not complete")
    print(f"built in {time.monotonic() - began:.0f} s; open {folder / 'index.html'} in a browser")
